// Lookups of keys.
#pragma once

#include "top.cuh"
#include "weft/btree_node.cuh"
#include "weft/inorder.cuh"

namespace weft::btree {

// AllSectors is a slot type that changes how lanes read the state of a node. Each lane loads a word
// of another 32-byte sector, and lane 0 loads the state. So loads of the whole leaf are in flight
// before any lane waits.
template <class S>
struct AllSectors : S {};

template <class S>
struct Way<AllSectors<S>> : Way<S> {
  using Way<S>::acquire;
  __device__ __forceinline__ static uint64_t acquire(const uint64_t* state) {
    const Lanes<S, false> l;
    const uint64_t word = load_acquire(state + 4 * l.rank);
    l.sync();
    return l.share(word, 0);
  }
};

struct GetParams {
  Tree tree;
  const void* keys;
  void* vals;             // may be null, like the pointers below
  uint8_t* found;
  uint64_t* hits;         // the kernel adds the number of keys found
  const uint32_t* count;  // number of keys; null: n
  uint64_t n;
  uint32_t spread;  // 1: one key per tile; 0: one key per lane
  uint32_t answer;  // vals and found hold the results of a batch of PutNews that has run
  uint32_t top;     // 1: a block first reads upper levels (Top), and searches begin below them
  uint32_t unused;
};

// get looks up keys. When a tile has found the leaf of a key, its lanes call seen(lanes, leaf,
// state).
template <class Slots, class K, class V, class Seen>
__device__ __forceinline__ void get(const GetParams& p, Seen seen) {
  using S = AllSectors<Slots>;
  using L = Lanes<S, true>;
  using Key = typename S::Key;
  const L l;
  const uint64_t n = p.count ? *p.count : p.n;
  __shared__ Top<S> top;
  const uint32_t tops = p.top ? top.read(p.tree) : 0;
  const uint32_t per = p.spread ? 1 : L::kLanes, round = kWarp / L::kLanes * per;
  uint32_t hits = 0;
  for (uint64_t base = thread_index() / kWarp * round; base < n; base += threads_in_grid() / kWarp * round) {
    const uint64_t first = base + lane_index() / L::kLanes * per, i = first + l.rank;
    const uint32_t left = first >= n ? 0 : n - first < per ? uint32_t(n - first) : per;
    const bool mine = l.rank < left;
    const Key key = mine ? key_in<S, K>(p.tree, p.keys, i) : Key(0);
    const uint32_t start = top.start(tops, key);
    Key val = 0;
    bool found = false;
    uint32_t turn = 0;  // the lane with the key that the tile searches for
    Search<S, true> s{l.share(start, 0)};
    while (ballot(kAll, turn < left)) {
      const Key k = l.share(key, turn < left ? turn : 0);
      if (!ballot(kAll, s.leaf)) {  // no tile is at a leaf yet: all leaves have the same depth
        s.descend(p.tree, l, k);
        continue;
      }
      Node<S, true> node;
      uint32_t state;
      const bool there = s.step(p.tree, l, k, node, state) && turn < left;
      if (!ballot(kAll, there)) continue;
      bool has = false;
      Key v = 0;
      node.each(l.rank, [&](uint32_t, uint32_t, uint32_t number, typename S::Word w) {
        if (number < count_of(state) && S::key(w) == k) has = true, v = S::value(w);
      });
      const uint32_t who = l.vote(has);
      v = l.share(v, who ? lowest(who) : 0);
      const uint32_t next = l.share(start, turn + 1 < left ? turn + 1 : 0);
      if (!there) continue;
      seen(l, s.at, state);
      if (l.rank == turn) found = who != 0, val = found ? v : Key(0);
      turn++;
      s = Search<S, true>{next};
    }
    if (!mine) continue;
    if (p.vals && (found || !p.answer)) static_cast<V*>(p.vals)[i] = V(val);
    if (p.found) p.found[i] = p.answer ? found && !p.found[i] : found;
    hits += found;
  }
  if (p.hits) add_warp_sum(p.hits, hits);
}

}  // namespace weft::btree
