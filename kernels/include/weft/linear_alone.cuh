// Operations that one lane runs by itself on a table of package linear. The other lanes of the warp
// may run other code.
#pragma once

#include "account.cuh"
#include "linear_table.cuh"

namespace weft::linear {

// find_by_lane looks up a key as find does, but only in the first `most` sectors of its path. It
// sets over to false if the key may be in a later sector, and otherwise to true.
template <class S>
__device__ __forceinline__ bool find_by_lane(const Table& t, typename S::Key wanted, typename S::Key& value, bool& over,
                                           uint32_t most = kAll) {
  const typename S::Key key = stored<S>(wanted);
  const Path path{locate<S>(t, wanted)};
  const uint32_t steps = path.steps(t, 1);
  value = 0, over = true;
#pragma unroll 1
  for (uint32_t step = 0; step < steps;) {
    if (step == most) {
      over = false;
      break;
    }
    bool match = false, empty = false, other = false;
    Sector<S>(t, path, step).each([&](int, typename S::Word w) {
      if (S::key(w) == key) match = true, value = S::value(w);
      empty |= S::key(w) == S::kEmpty;
      other |= S::key(w) == S::kPending;
    });
    if (match) return true;
    if (S::kTwoStep && other) continue;
    if (empty) return false;
    step++;
  }
  return false;
}

// for_each_alone calls f(key, value) for the pairs in one of `parts` parts of the table.
template <class S, class F>
__device__ __forceinline__ void for_each_alone(const Table& t, uint64_t part, uint64_t parts, F f) {
  using Word = typename S::Word;
  constexpr uint32_t per_line = kLineBytes / sizeof(Word);
  const uint64_t slots = (uint64_t(t.nlines) + 1) * per_line;
#pragma unroll 1
  for (uint64_t s = part; s < slots;) {
    const Word w = load_relaxed(reinterpret_cast<const Word*>(t.lines) + s);
    if (S::kTwoStep && S::key(w) == S::kPending) continue;  // about to hold a pair
    if (S::key(w) < S::kPending) f(s / per_line == t.nlines ? ~S::key(w) : S::key(w), S::value(w));
    s += parts;
  }
}

// change_by_lane runs an operation as change does. It does not reuse the dead slots of other keys,
// so the first empty slot of a path is the only free slot.
template <class S, class V, class Counts>
__device__ __forceinline__ void change_by_lane(const Table& t, uint32_t flags, Operation<S>& op, const Counts& counts) {
  using Word = typename S::Word;
  const typename S::Key key = stored<S>(op.key);
  const Path path{locate<S>(t, op.key)};
  const uint32_t steps = path.steps(t, 1);
  const bool adds = inserts<S, V>(op.kind);
#pragma unroll 1
  for (uint32_t step = 0; step < steps;) {
    Sector<S> sector(t, path, step);
    int match = -1, empty = -1;
    bool other = false, live = false;
    Word word = S::pair(S::kEmpty, S::kEmpty);
    sector.each([&](int i, Word w) {
      if (S::key(w) == key || S::is_dead(w, key)) match = i, word = w;
      if (S::key(w) == S::kEmpty) empty = i;
      other |= S::key(w) == S::kPending;
      live |= S::key(w) == key;
    });
    if (S::kTwoStep && other && !live) continue;
    if (match < 0 && empty < 0) {
      step++;
      continue;
    }
    Word* slot = sector.at(match >= 0 ? match : empty);
    const bool enters = adds && S::key(word) != key;
    Outcome done = counts.admit(enters);
    if (done == kNothing) {
      if (match >= 0) done = act<S, V>(slot, word, op.kind, key, op.value, flags);
      else if (adds) done = S::swap(slot, word, S::pair(key, op.value)) ? kInserted : kAgain;
      counts.record(enters, done);
    } else if (done == kFull && !S::swap(slot, word, word)) {
      done = kAgain;  // the last admitted operation changed the slot, perhaps with this key
    }
    if (done == kAgain) continue;
    op.outcome = done, op.value = S::value(word);
    return;
  }
  op.outcome = adds ? kFull : kNothing;
}

}  // namespace weft::linear
