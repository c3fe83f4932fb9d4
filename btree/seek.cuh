// Queries that a tile answers by reading leaf after leaf, in the present tree or as of a time.
#pragma once

#include "order.cuh"
#include "weft/btree_walk.cuh"

namespace weft::btree {

// key_in converts a key of a column to its form in the tree. key_out converts it back.
template <class S, class K>
__device__ __forceinline__ typename S::Key key_in(const Tree& t, const void* keys, uint64_t i) {
  return inorder::key_in<K>(keys, i, t.flip);
}
template <class S, class K>
__device__ __forceinline__ K key_out(const Tree& t, typename S::Word w) { return K(K(S::key(w)) ^ K(t.flip)); }

struct SeekParams {
  Tree tree;
  const void* lo;  // keys, or the lower bounds of ranges
  const void* hi;  // upper bounds of ranges; null: no ranges
  void* keys;      // may be null, like the pointers below
  void* vals;
  uint8_t* ok;
  uint32_t* counts;  // number of pairs in each range
  uint64_t* hits;    // the kernel adds the number of queries with a result
  uint64_t n;
  Bounds bounds;
  uint32_t kind;
  uint32_t unused;
};

// write_pairs writes the pairs in slots [from,to) of a node to the rows from `row` on. With
// `backward`, it writes them in reverse order.
template <class S, class K, class V>
__device__ __forceinline__ void write_pairs(const SeekParams& p, const Node<S, false>& node, uint32_t rank, uint32_t from, uint32_t to,
                                            uint64_t row, bool backward) {
  node.each(rank, [&](uint32_t, uint32_t, uint32_t number, typename S::Word w) {
    if (number < from || number >= to) return;
    const uint64_t i = row + (backward ? to - 1 - number : number - from);
    if (p.keys) static_cast<K*>(p.keys)[i] = key_out<S, K>(p.tree, w);
    if (p.vals) static_cast<V*>(p.vals)[i] = V(S::value(w));
  });
}

// one finds the pairs of a range, or the neighbor of a key. It reports whether it found any. One
// tile executes it.
template <class S, class K, class V, class Reader>
__device__ __forceinline__ bool one(const SeekParams& p, Reader reader, uint64_t i) {
  using Key = typename S::Key;
  Walk<S, Reader> w{reader};
  const Key key = key_in<S, K>(p.tree, p.lo, i), last = Key(K(~K(0)));
  const bool range = p.hi, backward = range ? p.bounds.backward : p.kind != kSuccessor;
  const uint64_t row = range ? i * p.bounds.limit : i;
  const uint32_t most = range ? p.bounds.limit : 1;
  const Key lo = range ? key : backward ? Key(0) : Key(key + 1), hi = range ? key_in<S, K>(p.tree, p.hi, i) : backward ? Key(key - 1) : last;
  const bool some = range ? lo <= hi : key != (backward ? Key(0) : last);
  uint32_t n = 0;
  auto write = [&](uint32_t from, uint32_t to, uint32_t before) {
    write_pairs<S, K, V>(p, w.r.node, w.r.l.rank, from, to, row + before, backward);
  };
  if (some) n = backward ? w.backward(lo, hi, most, write) : w.forward(lo, hi, most, write);
  if (w.r.l.rank != 0) return n != 0;
  if (range) {
    if (p.counts) p.counts[i] = n;
    return n != 0;
  }
  if (p.ok) p.ok[i] = n != 0;
  if (n == 0 && p.keys) static_cast<K*>(p.keys)[i] = 0;
  if (n == 0 && p.vals) static_cast<V*>(p.vals)[i] = 0;
  return n != 0;
}

// seek answers all queries, one per tile. make returns a reader for each query.
template <class S, class K, class V, class Make>
__device__ __forceinline__ void seek(const SeekParams& p, Make make) {
  constexpr uint32_t lanes = Shape<S>::kLanes;
  uint32_t hits = 0;
  for (uint64_t i = thread_index() / lanes; i < p.n; i += threads_in_grid() / lanes) {
    const bool found = one<S, K, V>(p, make(), i);
    hits += found && thread_in_block() % lanes == 0;
  }
  sync_warp();
  if (p.hits) add_warp_sum(p.hits, hits);
}

}  // namespace weft::btree
