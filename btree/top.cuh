// The nodes of an upper level, in shared memory. A block reads them when it begins.
#pragma once

#include "weft/btree_node.cuh"
#include "weft/inorder.cuh"
#include "weft/sums.cuh"

namespace weft::btree {

// Top holds the nodes of one level, and the smallest key of each node. The searches of a block
// begin at these nodes. Without Top, all searches on the device would read the few cache lines of
// the upper levels at the same time. The copy is as old as the block. If the root is split
// meanwhile, the copy may mix nodes of several levels. This is safe: a node keeps its smallest key,
// links lead on from the node, and it is not reused while a lookup runs.
template <class S>
struct Top {
  using Key = typename S::Key;
  using L = Lanes<S, false>;
  // maximum number of nodes with children in Top; at most the number of threads in a block
  static constexpr uint32_t kAbove = 2048 / Shape<S>::kSlotBytes;
  static constexpr uint32_t kMost = kAbove * Shape<S>::kSlots;

  Key lows[kMost];
  uint32_t ids[kMost];
  // nodes of the level above, and for each node the end of its children
  uint32_t above[kAbove], ends[kAbove];
  uint32_t sums[kAbove / kWarp];         // number of children per warp

  // read reads level after level while the next level fits, but no leaves. All threads of the block
  // call it. It returns the number of nodes in Top.
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

  // start returns a node where the search for a key may begin.
  __device__ __forceinline__ uint32_t start(uint32_t n, Key key) const {
    const uint32_t behind = inorder::first<uint32_t>(0, n, [&](uint32_t i) { return lows[i] > key; });
    return behind == 0 ? kRoot : ids[behind - 1];
  }

 private:
  // children lists the children of n nodes in key order, one node per tile. If slots were removed
  // after the nodes were counted, it repeats slot 0 in their place.
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
