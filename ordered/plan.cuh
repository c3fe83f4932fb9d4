// What becomes of the leaves of a window, which are those below a node of the index. Each window
// is planned by itself (twin: cpumerge.go).
#pragma once

#include "layout.cuh"

namespace weft::ordered {

constexpr uint32_t kFew = kPairs / 4;       // fewer pairs are united with those of a neighbor,
constexpr uint32_t kMany = kPairs * 7 / 8;  // if both together have no more than this

// Split is how pairs of some leaves are laid out in others.
struct Split {
  uint32_t pairs, leaves;
  uint32_t full;  // unless 0: so many in each, the rest in the last, else about as many in each

  __device__ __forceinline__ uint32_t size(uint32_t leaf) const {
    if (full != 0) return leaf + 1 < leaves ? full : pairs - leaf * full;
    const uint32_t q = pairs / leaves;
    return q + (leaf >= leaves - (pairs - q * leaves));
  }
  // place is where a pair goes: to which of the leaves, and to which slot.
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

// leaves_for is how many leaves so many pairs take that come to one place.
__device__ __forceinline__ uint32_t leaves_for(uint32_t pairs, uint32_t fill) {
  return pairs <= kPairs ? 1 : (pairs + fill - 1) / fill;
}

// Group is neighboring leaves whose pairs are written together.
struct Group {
  uint32_t from;  // pairs of the window that come before
  Split split;
  uint32_t out, fresh;  // leaves of the window that come before: of all, and of those that are written
  uint32_t first;       // of its leaves in the window; its separator stays
  bool kept;            // it is that leaf, as it was
};

// Totals is where a planner lists groups, if only their leaves count.
struct Totals {
  uint32_t out = 0, fresh = 0;
  Group last;

  __device__ __forceinline__ void push(Group g) {
    g.out = out, g.fresh = fresh;
    out += g.split.leaves;
    if (!g.kept) fresh += g.split.leaves;
    last = g;
  }
  __device__ __forceinline__ void pop() { out = last.out, fresh = last.fresh; }
};

// Planner goes over the leaves of a window and forms groups.
template <class List>
struct Planner {
  List& list;
  uint32_t fill;
  uint32_t at = 0;       // pairs so far
  uint32_t pairs = 0;    // that wait for their group to end
  uint32_t from = 0, first = 0;
  bool alone = false, changed = false, last = false;
  bool joins = false;    // the group before is one leaf, which few pairs may join

  // visit comes to the next leaf, which has so many pairs then. Touched: there are operations on its
  // keys; trimmed: it has lost pairs otherwise; end: it is the last leaf of all.
  __device__ __forceinline__ void visit(uint32_t leaf, uint32_t now, bool touched, bool trimmed, bool end) {
    if (now == 0) return;
    if (touched) {
      gather(leaf, now, true);
      last = end;
      flush(false);
    } else if (pairs != 0 && pairs + now <= kMany) {
      gather(leaf, now, trimmed);
      flush(false);
    } else {
      flush(true);
      gather(leaf, now, trimmed);
      if (!trimmed || now >= kFew) write();
    }
    at += now;
  }

  __device__ __forceinline__ void gather(uint32_t leaf, uint32_t now, bool changes) {
    if (pairs == 0) from = at, first = leaf, changed = false, alone = true;
    else alone = false;
    pairs += now;
    changed = changed || changes;
  }

  // flush ends the group, but few pairs wait for more, unless they have to go.
  __device__ __forceinline__ void flush(bool all) {
    if (pairs == 0 || (pairs < kFew && !all)) return;
    if (pairs < kFew && joins && list.last.split.pairs + pairs <= kMany) {
      list.pop();
      pairs += list.last.split.pairs, from = list.last.from, first = list.last.first, changed = true;
    }
    write();
  }

  __device__ __forceinline__ void write() {
    const uint32_t leaves = leaves_for(pairs, fill);
    list.push({from, {pairs, leaves, last && leaves > 1 ? fill : 0}, 0, 0, first, alone && !changed});
    joins = leaves == 1;
    pairs = 0, last = false;
  }
};

}  // namespace weft::ordered
