// Range scans of a B-link tree: a tile reads leaf after leaf. A scan reads the present tree (Now),
// or the tree as of a time (Then in btree_past.cuh).
#pragma once

#include "btree_node.cuh"

namespace weft::btree {

// Now is a reader of the present tree: a tile's path to the leaf of a key.
template <class S>
struct Now {
  using L = Lanes<S, false>;
  using Key = typename S::Key;
  const Tree& t;
  L l{};
  Search<S, false> s{};
  Node<S, false> node{};
  uint32_t state = 0;

  __device__ __forceinline__ void restart() { s = Search<S, false>(); }
  // find moves to the leaf of a key and reads it.
  __device__ __forceinline__ void find(Key key) {
    while (!s.step(t, l, key, node, state)) {
    }
  }
  // proceed moves to the leaf on the right.
  __device__ __forceinline__ void proceed() { s.at = node.link(l); }
  // least sets `key` to the first key of the range that the leaf covers. It returns false if that
  // key is unknown.
  __device__ __forceinline__ bool least(Key& key) const {
    key = s.low;
    return true;
  }
};

// Walk iterates over a range of pairs, in a tile.
template <class S, class Reader>
struct Walk {
  using Key = typename S::Key;
  Reader r;

  // forward iterates over at most `most` pairs with keys from lo to hi, and returns their number.
  // f(from, to, n) receives slots [from,to) of the reader's node and the number n of pairs before
  // these.
  template <class F>
  __device__ __forceinline__ uint32_t forward(Key lo, Key hi, uint32_t most, F f) {
    uint32_t n = 0;
    while (true) {
      r.find(lo);
      const uint32_t count = count_of(r.state), from = r.node.below(r.l, lo, count);
      uint32_t at, to = r.node.below(r.l, hi, count);
      if (r.node.has(r.l, hi, count, at)) to++;
      if (to - from > most - n) to = from + (most - n);
      f(from, to, n);
      n += to - from;
      const uint32_t link = r.node.link(r.l);
      lo = r.node.high(r.l);
      if (n == most || link == kNone || lo > hi) return n;
      r.proceed();
    }
  }
  // backward iterates from key hi down to key lo. A node has no link to its predecessor, so
  // backward searches each node from the root.
  template <class F>
  __device__ __forceinline__ uint32_t backward(Key lo, Key hi, uint32_t most, F f) {
    uint32_t n = 0;
    while (true) {
      r.restart();
      r.find(hi);
      const uint32_t count = count_of(r.state);
      uint32_t at, from = r.node.below(r.l, lo, count), to = r.node.below(r.l, hi, count);
      if (r.node.has(r.l, hi, count, at)) to++;
      if (to - from > most - n) from = to - (most - n);
      f(from, to, n);
      n += to - from;
      Key least;
      const bool known = r.least(least);
      if (n == most || (known && least <= lo)) return n;
      if (known) hi = least - 1;
    }
  }
};

}  // namespace weft::btree
