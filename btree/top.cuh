// The levels below the root, as a block has read them when it began, in shared memory.
#pragma once

#include "weft/btree_node.cuh"
#include "weft/inorder.cuh"
#include "weft/sums.cuh"

namespace weft::btree {

// Top is the nodes of one level, with the smallest key of each: where the searches of a block begin. What is above them are a few lines,
// which all searches of a device would read at the same moments. It may be as old as the block, and one level of several while the root is split: a node
// keeps its smallest key, links lead on from it, and it is not used again while a lookup is under way.
template <class S>
struct Top {
  using Key = typename S::Key;
  using L = Lanes<S, false>;
  static constexpr uint32_t kAbove = 2048 / Shape<S>::kSlotBytes;  // nodes whose children it has, at most; no more than a block has threads
  static constexpr uint32_t kMost = kAbove * Shape<S>::kSlots;

  Key lows[kMost];
  uint32_t ids[kMost];
  uint32_t above[kAbove], ends[kAbove];  // nodes of the level above, and where the children of each end
  uint32_t sums[kAbove / kWarp];         // of a warp's nodes: children

  // read reads levels, as far down as there is room, but for leaves. All threads of the block call it; it returns the number of nodes.
  __device__ __forceinline__ uint32_t read(const Tree& t) {
    const uint32_t i = thread_in_block(), warp = i / kWarp;
    uint32_t n = 1;
    if (i == 0) lows[0] = 0, ids[0] = kRoot;
    sync_block();
    while (n <= kAbove) {
      const uint32_t state = i < n ? uint32_t(load_relaxed(state_word<S>(t, ids[i])) >> 32) : 0;
      const bool opens = level_of(state) > 1;
      if (count_block(opens) == 0) break;
      const uint32_t up_to = uint32_t(running(opens ? count_of(state) : 0));
      if (i < n) above[i] = ids[i];
      if (i < kAbove && lane_index() == kWarp - 1) sums[warp] = up_to;
      sync_block();
      if (i < kAbove) {
        uint32_t before = 0;
        for (uint32_t w = 0; w < warp; w++) before += sums[w];
        ends[i] = before + up_to;
      }
      sync_block();
      children(t, n);
      n = ends[n - 1];
      sync_block();
    }
    return n;
  }

  // start is a node from which a search for a key may begin.
  __device__ __forceinline__ uint32_t start(uint32_t n, Key key) const {
    const uint32_t behind = inorder::first<uint32_t>(0, n, [&](uint32_t i) { return lows[i] > key; });
    return behind == 0 ? kRoot : ids[behind - 1];
  }

 private:
  // children puts those of n nodes in order, a tile for each. Slots that have become fewer since they were counted are slot 0 once more.
  __device__ __forceinline__ void children(const Tree& t, uint32_t n) {
    const L l;
    for (uint32_t i = thread_in_block() / L::kLanes; i < n; i += threads_per_block() / L::kLanes) {
      const uint32_t from = i == 0 ? 0 : ends[i - 1], count = ends[i] - from;
      Node<S, false> node;
      node.load_inner(t, above[i], l.rank);
      uint32_t ranks[Shape<S>::kPieces][Shape<S>::kPer];
      node.ranks(l, count, false, ranks);
      const typename S::Word first = node.word(l, 0);
      for (uint32_t j = from + l.rank; j < from + count; j += L::kLanes) lows[j] = S::key(first), ids[j] = uint32_t(S::value(first));
      l.sync();
      node.each(l.rank, [&](uint32_t p, uint32_t j, uint32_t, typename S::Word w) {
        const uint32_t rank = ranks[p][j];
        if (rank < count) lows[from + rank] = S::key(w), ids[from + rank] = uint32_t(S::value(w));
      });
    }
  }
};

}  // namespace weft::btree
