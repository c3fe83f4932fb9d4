// Operations that one lane runs by itself on a table of package slab. The other lanes of the warp
// may run other code.
#pragma once

#include "account.cuh"
#include "slab_table.cuh"

namespace weft::slab {

// Part is a quarter of a slab, which a lane reads at a time.
template <class S>
struct Part : Tile<S, 1, 2> {
  using Word = typename S::Word;
  static constexpr uint32_t kParts = kSlabBytes / 32;

  Word128* slab;
  uint32_t number;
  Link link;  // link of the slab, after the last part was loaded

  __device__ __forceinline__ void load(Word128* of, uint32_t part) {
    slab = of, number = part;
    this->piece[0].whole = load_relaxed(slab + 2 * part);
    this->piece[1].whole = load_relaxed(slab + 2 * part + 1);
    if (part + 1 < kParts) return;
    uint64_t& last = this->piece[1].whole.y;
    link = {uint32_t(last), uint32_t(last >> 32)};
    last = kNoSlots<S>;
  }
  __device__ __forceinline__ Word* slot(int i) const { return reinterpret_cast<Word*>(slab + 2 * number) + i; }
};

// for_each_alone calls f(value) for the pairs of a key in their order, until f returns false. It
// searches as find does.
template <class S, class T, class F>
__device__ __forceinline__ void for_each_alone(const T& in, typename S::Key wanted, F f) {
  const Table& t = in;  // the table; `in` locates the buckets
  const uint32_t bucket = locate<S>(in, wanted);
  const typename S::Key key = stored<S>(wanted);
  Part<S> part;
#pragma unroll 1
  for (uint32_t at = kNoUnit;;) {
#pragma unroll 1
    for (uint32_t n = 0; n < part.kParts;) {
      part.load(t.slab(bucket, at), n);
      bool empty = false, other = false;
      uint32_t matches = 0;
      part.each([&](int v, int j, typename S::Word w) {
        empty |= S::key(w) == S::kEmpty;
        other |= S::key(w) == S::kPending;
        if (S::key(w) == key) matches |= 1u << (v * part.kSlots + j);
      });
      if (S::kTwoStep && other && matches == 0) continue;  // may be about to hold this key
#pragma unroll 1
      for (; matches != 0; matches &= matches - 1)
        if (!f(S::value(part.word(lowest(matches))))) return;
      if (empty) return;
      n++;
    }
    at = part.link.next;
    if (at == kNoUnit) return;
    t.alloc.meet(at, 1u << lane_index());
  }
}

// for_each_alone calls f(key, value) for the pairs in one of `parts` parts of the table. It visits
// the pairs of a key in their order.
template <class S, class F>
__device__ __forceinline__ void for_each_alone(const Table& t, uint64_t part, uint64_t parts, F f) {
  Part<S> read;
#pragma unroll 1
  for (uint64_t bucket = part; bucket <= t.buckets; bucket += parts) {
    bool empty = false;
#pragma unroll 1
    for (uint32_t at = kNoUnit, n = 0; !empty;) {
      read.load(t.slab(uint32_t(bucket), at), n);
      bool pending = false;
      uint32_t live = 0;
      read.each([&](int v, int j, typename S::Word w) {
        empty |= S::key(w) == S::kEmpty;
        pending |= S::kTwoStep && S::key(w) == S::kPending;
        if (S::key(w) < S::kNone) live |= 1u << (v * read.kSlots + j);
      });
      if (pending) {  // about to hold a pair
        empty = false;
        continue;
      }
#pragma unroll 1
      for (; live != 0; live &= live - 1) {
        const typename S::Word w = read.word(lowest(live));
        f(original<S>(t, S::key(w), uint32_t(bucket)), S::value(w));
      }
      if (++n < read.kParts) continue;
      n = 0, at = read.link.next;
      if (at == kNoUnit) break;
      t.alloc.meet(at, 1u << lane_index());
    }
  }
}

// find_by_lane looks up a key. If the key has several pairs, it returns the oldest.
template <class S, class T>
__device__ __forceinline__ bool find_by_lane(const T& in, typename S::Key wanted, typename S::Key& value) {
  bool hit = false;
  value = 0;
  for_each_alone<S>(in, wanted, [&](typename S::Key held) {
    hit = true, value = held;
    return false;
  });
  return hit;
}

// attach_alone does for one lane what attach does for a warp.
__device__ __forceinline__ uint32_t attach_alone(const Table& t, Link* link) {
  const uint32_t fresh = allocate_lane(t.alloc);
  if (fresh == kNoUnit) return kNoUnit;
  t.alloc.publish(fresh);
  const uint32_t there = cas_relaxed(&link->next, kNoUnit, fresh);
  if (there == kNoUnit) return fresh;
  release(t.alloc, fresh);
  return there;
}

// change_by_lane runs an operation as change does. It returns the number of pairs that a DELETEALL
// has removed. It does not reuse the dead slots of other keys, so the first empty slot of a chain
// is the only free slot.
template <class S, bool Multi, class V, class Counts>
__device__ __forceinline__ uint32_t change_by_lane(const Table& t, uint32_t flags, Operation<S>& op, const Counts& counts) {
  using Word = typename S::Word;
  const uint32_t bucket = locate<S>(t, op.key);
  const typename S::Key key = stored<S>(op.key);
  const bool adds = inserts<S, V>(op.kind);
  const bool appends = Multi && op.kind == kPut, all = Multi && op.kind == kDeleteAll;
  const uint32_t kind = all ? uint32_t(kDelete) : op.kind;
  uint32_t at = kNoUnit, n = 0, removed = 0;
  Part<S> part;
#pragma unroll 1
  for (;;) {
    part.load(t.slab(bucket, at), n);
    int match = -1, empty = -1;
    bool other = false, live = false;
    part.each([&](int v, int j, Word w) {
      int number = v * part.kSlots + j;
      if (match < 0 && !appends && (S::key(w) == key || (!Multi && S::is_dead(w, key)))) match = number;
      if (empty < 0 && S::key(w) == S::kEmpty) empty = number;
      other |= S::key(w) == S::kPending;
      live |= S::key(w) == key;
    });
    if (S::kTwoStep && other && !live) continue;
    if (match >= 0 || (empty >= 0 && adds)) {
      const int number = match >= 0 ? match : empty;
      Word* slot = part.slot(number);
      const Word word = part.word(number);
      const bool enters = adds && S::key(word) != key;
      Outcome done = counts.admit(enters);
      if (done == kNothing) {
        if (match >= 0) done = act<S, V>(slot, word, kind, key, op.value, flags);
        else done = S::swap(slot, word, S::pair(key, op.value)) ? kInserted : kAgain;
        counts.record(enters, done);
      } else if (done == kFull && !S::swap(slot, word, word)) {
        done = kAgain;  // the last admitted operation changed the slot, perhaps with this key
      }
      if (all && done == kDeleted) removed++;
      if (all || done == kAgain) continue;
      op.outcome = done, op.value = S::value(word);
      return 1;
    }
    if (empty >= 0) break;
    if (n + 1 < part.kParts) {
      n++;
      continue;
    }
    uint32_t next = appends && at == kNoUnit && part.link.tail != kNoUnit ? part.link.tail : part.link.next;
    if (next == kNoUnit) {
      if (!adds) break;
      next = attach_alone(t, link_of(part.slab));
      if (next == kNoUnit) {
        op.outcome = kFull;
        return 0;
      }
      if (Multi) store_relaxed(&link_of(t.slab(bucket, kNoUnit))->tail, next);
    }
    at = next, n = 0;
  }
  op.outcome = removed != 0 ? kDeleted : kNothing;
  return removed;
}

}  // namespace weft::slab
