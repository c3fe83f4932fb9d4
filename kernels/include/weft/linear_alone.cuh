// A table of package linear in the hands of one lane: whatever its neighbors do.
#pragma once

#include "account.cuh"
#include "linear_table.cuh"

namespace weft::linear {

// Sector is what a lane reads of a path at a time.
template <class S>
using Sector = PathTile<S, 1, 2>;

// find_alone looks up a key; see find.
template <class S>
__device__ __forceinline__ bool find_alone(const Table& t, typename S::Key wanted, typename S::Key& value) {
  Sector<S> sector;
  const typename S::Key key = stored<S>(wanted);
  const Path path{locate<S>(t, wanted)};
  const uint32_t steps = path.steps(t, 1);
  value = 0;
#pragma unroll 1
  for (uint32_t step = 0; step < steps;) {
    sector.load(t, path, step);
    bool match = false, empty = false, other = false;
    sector.each([&](int, int, typename S::Word w) {
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

// change_alone runs an operation; see change. Dead slots of other keys are left
// alone, so the first empty slot of a path is the only free one.
template <class S, class V, class Counts>
__device__ __forceinline__ void change_alone(const Table& t, uint32_t flags, Operation<S>& op, const Counts& counts) {
  using Word = typename S::Word;
  Sector<S> sector;
  const typename S::Key key = stored<S>(op.key);
  const Path path{locate<S>(t, op.key)};
  const uint32_t steps = path.steps(t, 1);
  const bool adds = inserts<S, V>(op.kind);
#pragma unroll 1
  for (uint32_t step = 0; step < steps;) {
    sector.load(t, path, step);
    int match = -1, empty = -1;
    bool other = false, live = false;
    sector.each([&](int v, int j, Word w) {
      int number = v * sector.kSlots + j;
      if (match < 0 && (S::key(w) == key || S::is_dead(w, key))) match = number;
      if (empty < 0 && S::key(w) == S::kEmpty) empty = number;
      other |= S::key(w) == S::kPending;
      live |= S::key(w) == key;
    });
    if (S::kTwoStep && other && !live) continue;
    const int number = match >= 0 ? match : empty;
    if (number < 0) {
      step++;
      continue;
    }
    Word* slot = &sector.at(t, path, step, number / sector.kSlots)->slots[number % sector.kSlots];
    const Word word = sector.word(number);
    const bool enters = adds && S::key(word) != key;
    Outcome done = counts.admit(enters);
    if (done == kNothing) {
      if (match >= 0) done = act<S, V>(slot, word, op.kind, key, op.value, flags);
      else if (adds) done = S::swap(slot, word, S::pair(key, op.value)) ? kInserted : kAgain;
      counts.record(enters, done);
    } else if (done == kFull && !S::swap(slot, word, word)) {
      done = kAgain;  // by the last that was admitted, perhaps with this key
    }
    if (done == kAgain) continue;
    op.outcome = done, op.value = S::value(word);
    return;
  }
  op.outcome = adds ? kFull : kNothing;
}

}  // namespace weft::linear
