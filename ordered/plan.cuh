// Plans of windows. A window consists of the leaves below a node of the index. Each window is
// planned by itself (twin: cpu_merge.go).
#pragma once

#include "weft/ordered_index.cuh"

namespace weft::ordered {

constexpr uint32_t kFew = kPairs / 4;       // fewer pairs are merged with a neighbor's pairs
constexpr uint32_t kMany = kPairs * 7 / 8;  // if both together are at most this many pairs

// Split describes how the pairs of some leaves are laid out in other leaves.
struct Split {
  uint32_t pairs, leaves;
  uint32_t full;  // pairs in each leaf, with the rest in the last; 0: equal shares

  __device__ __forceinline__ uint32_t size(uint32_t leaf) const {
    if (leaves == 1) return pairs;
    if (full != 0) return leaf + 1 < leaves ? full : pairs - leaf * full;
    const uint32_t q = pairs / leaves;
    return q + (leaf >= leaves - (pairs - q * leaves));
  }
  // place returns the leaf and slot of a pair.
  __device__ __forceinline__ Place place(uint32_t pair) const {
    if (leaves == 1) return {0, pair};
    if (full != 0) {
      const uint32_t leaf = pair / full;
      return {leaf, pair - leaf * full};
    }
    const uint32_t q = pairs / leaves, small = leaves - (pairs - q * leaves), cut = small * q;
    if (pair < cut) return {pair / q, pair % q};
    return {small + (pair - cut) / (q + 1), (pair - cut) % (q + 1)};
  }
};

// leaves_for returns the number of leaves for the pairs of one group.
__device__ __forceinline__ uint32_t leaves_for(uint32_t pairs, uint32_t fill) {
  return pairs <= kPairs ? 1 : (pairs + fill - 1) / fill;
}

// Group consists of neighboring leaves. Their pairs are written together.
struct Group {
  uint32_t pairs, leaves;
  uint32_t first;  // first leaf in the window; the group keeps its separator
  bool kept;       // the group is that leaf, unchanged
};

// Totals sums up the groups of a window.
struct Totals {
  uint32_t out = 0, fresh = 0;  // number of leaves: total, and to write
  uint32_t begins = 0;          // bit i: a group begins with leaf i; bit kFanout + i: it is kept
  Group last;

  __device__ __forceinline__ void push(Group g) {
    last = g;
    out += g.leaves;
    if (!g.kept) fresh += g.leaves;
    begins |= (g.kept ? 1u << kFanout | 1 : 1) << g.first;
  }
  __device__ __forceinline__ void pop() {
    out -= last.leaves;
    if (!last.kept) fresh -= last.leaves;
    begins &= ~((1u << kFanout | 1) << last.first);
  }
};
static_assert(2 * kFanout <= 32);

// Planner visits the leaves of a window and forms groups.
struct Planner {
  Totals& totals;
  uint32_t fill;
  uint32_t pairs = 0;  // pairs of a group that has not ended yet
  uint32_t first = 0;
  bool alone = false, changed = false;
  bool joins = false;    // the previous group is one leaf, which few pairs may join

  // visit adds the next leaf, which will have `now` pairs. touched is set if operations have keys
  // in the leaf. changes is set if operations change the leaf, or if it has lost pairs in another
  // way.
  __device__ __forceinline__ void visit(uint32_t leaf, uint32_t now, bool touched, bool changes) {
    if (now == 0) return;
    if (touched || (pairs != 0 && pairs + now <= kMany)) {
      gather(leaf, now, changes);
      flush(false);
    } else {
      flush(true);
      gather(leaf, now, changes);
      if (!changes || now >= kFew) write();
    }
  }

  __device__ __forceinline__ void gather(uint32_t leaf, uint32_t now, bool changes) {
    if (pairs == 0) first = leaf, changed = false, alone = true;
    else alone = false;
    pairs += now;
    changed = changed || changes;
  }

  // flush ends the group. A group with few pairs waits for more pairs, unless all is set.
  __device__ __forceinline__ void flush(bool all) {
    if (pairs == 0 || (pairs < kFew && !all)) return;
    if (pairs < kFew && joins && totals.last.pairs + pairs <= kMany) {
      totals.pop();
      pairs += totals.last.pairs, first = totals.last.first, changed = true;
    }
    write();
  }

  __device__ __forceinline__ void write() {
    const uint32_t leaves = leaves_for(pairs, fill);
    totals.push({pairs, leaves, first, alone && !changed});
    joins = leaves == 1;
    pairs = 0;
  }
};

}  // namespace weft::ordered
