// Launches in which some blocks change a tree and others read it concurrently, as in section 4.5.2
// of Awad's thesis.
#include "weft/btree.cuh"

using namespace weft;

using K = uint32_t;
using V = uint32_t;

struct Load {
  const K* updates;
  const V* vals;
  const K* queries;
  uint32_t* counts;  // number of pairs of each query
  uint64_t* sum;     // sum of the values read, so that the reads are not optimized away
  uint32_t n, asked; // numbers of updates and of queries
  uint32_t span;     // length of a range in keys; 0: a lookup
  uint32_t kind;     // kind of the updates
  uint32_t changing; // number of blocks that update; they come first in the grid
  uint32_t unused;
};

struct PlainParams {
  btree::Ref<K, V> ref;
  Load load;
};
struct VersionedParams {
  btree::VersionedRef<K, V> ref;
  Load load;
};

constexpr uint32_t kTile = btree::Ref<K, V>::kTile;

// Share is the work of a tile: every step-th operation from number first on. All tiles have the
// same number of rounds.
struct Share {
  uint64_t first, step, rounds;
  __device__ __forceinline__ Share(uint32_t block, uint32_t blocks, uint32_t n) {
    const uint64_t tiles = threads_per_block() / kTile;
    first = block * tiles + thread_in_block() / kTile;
    step = blocks * tiles;
    rounds = (n + step - 1) / step;
  }
};

// ask runs query i.
template <class Range, class Find>
__device__ __forceinline__ void ask(const Load& p, uint64_t i, uint64_t& sum, Range range, Find find) {
  const K lo = p.queries[i];
  const bool first = thread_in_block() % kTile == 0;
  uint32_t n;
  if (p.span != 0) {
    const K hi = lo > ~K(0) - p.span ? ~K(0) : lo + p.span;
    n = range(lo, hi, [&](uint32_t, K, V value) { sum += value; });
  } else {
    V value = 0;
    n = find(lo, &value);
    if (first) sum += value;
  }
  if (first) p.counts[i] = n;
}

extern "C" __global__ void __launch_bounds__(256, 2) mixedtree_plain(PlainParams p) {
  const Load& l = p.load;
  uint64_t sum = 0;
  if (block_index() < l.changing) {
    const Share s(block_index(), l.changing, l.n);
    for (uint64_t r = 0, i = s.first; r < s.rounds; r++, i += s.step) {
      // change_warp runs one operation per lane. Here only the first lane of a tile has one.
      const bool there = i < l.n && thread_in_block() % kTile == 0;
      const K key = i < l.n ? l.updates[i] : 0;
      p.ref.change_warp(there, l.kind, key, i < l.n && l.vals ? l.vals[i] : 0);
    }
  } else {
    const Share s(block_index() - l.changing, blocks_in_grid() - l.changing, l.asked);
    for (uint64_t i = s.first; i < l.asked; i += s.step)
      ask(l, i, sum, [&](K lo, K hi, auto f) { return p.ref.range_tile(lo, hi, ~0u, f); }, [&](K k, V* v) { return p.ref.find_tile(k, v); });
  }
  sync_warp();
  add_warp_sum(l.sum, sum);
}

extern "C" __global__ void __launch_bounds__(256, 2) mixedtree_versioned(VersionedParams p) {
  __shared__ btree::Bags bags;
  btree::Session<K, V> tree(p.ref, &bags);
  const Load& l = p.load;
  const bool changes = block_index() < l.changing;
  const Share s = changes ? Share(block_index(), l.changing, l.n) : Share(block_index() - l.changing, blocks_in_grid() - l.changing, l.asked);
  uint64_t sum = 0;
  tree.enter();
  for (uint64_t r = 0, i = s.first; r < s.rounds; r++, i += s.step) {
    tree.begin(changes);
    if (changes) {
      if (i < l.n) tree.change_tile(l.kind, l.updates[i], l.vals ? l.vals[i] : 0);
    } else if (i < l.asked) {
      const uint64_t time = l.span != 0 ? tree.snapshot() : btree::kAlways;
      ask(l, i, sum, [&](K lo, K hi, auto f) { return p.ref.range_tile(lo, hi, ~0u, time, f); }, [&](K k, V* v) { return p.ref.find_tile(k, v, time); });
    }
  }
  tree.leave();
  add_warp_sum(l.sum, sum);
}
