// Slots: the words of a table that hold keys, each changed by one compare-and-swap.
#pragma once

#include "warp.cuh"

namespace weft {

// A slot is one word that changes by one compare-and-swap. If slots have values, the key is in the
// upper half of the word. Some keys, the sentinels, are never stored. They mark slots without a
// key.

template <class K>
struct Sentinels {
  static constexpr K kEmpty = ~K(0);        // never used
  static constexpr K kDead = ~K(0) - 1;     // deleted; the value field holds the key
  static constexpr K kPending = ~K(0) - 2;  // being written, only below sm_90
  static constexpr K kNone = ~K(0) - 3;     // not a slot of the table
};

// Pair8 is a slot with a 32-bit key and a 32-bit value. A 64-bit compare-and-swap publishes both at
// once. So relaxed order suffices everywhere: no access reads one word to draw conclusions about
// another.
struct Pair8 : Sentinels<uint32_t> {
  using Key = uint32_t;
  using Word = uint64_t;
  static constexpr bool kHasValue = true, kTwoStep = false;
  __device__ static Key key(Word w) { return Key(w >> 32); }
  __device__ static Key value(Word w) { return Key(w); }
  __device__ static Word pair(Key k, Key v) { return Word(k) << 32 | v; }
  __device__ static Word dead(Key k) { return pair(kDead, k); }
  __device__ static bool is_dead(Word w, Key k) { return w == dead(k); }
  __device__ static bool swap(Word* slot, Word from, Word to) { return cas_relaxed(slot, from, to) == from; }
  // enter puts a pair into an empty slot, and returns the previous key. If that is not kEmpty,
  // another thread has taken the slot.
  __device__ static Key enter(Word* slot, Word to) { return key(cas_relaxed(slot, pair(kEmpty, kEmpty), to)); }
  // update sets the value of a live slot to f(old value), if the slot has not changed.
  template <class F>
  __device__ static bool update(Word* slot, Word from, F f) {
    return swap(slot, from, pair(key(from), f(value(from))));
  }
};

// Pair16 is a slot of 128 bits, with a key or a value of 64 bits.
struct Pair16 : Sentinels<uint64_t> {
  using Key = uint64_t;
  using Word = Word128;
  static constexpr bool kHasValue = true;
  __device__ static Key key(Word w) { return w.y; }
  __device__ static Key value(Word w) { return w.x; }
  __device__ static Word pair(Key k, Key v) { return {v, k}; }
  __device__ static Word dead(Key k) { return pair(kDead, k); }
  __device__ static bool is_dead(Word w, Key k) { return w.y == kDead && w.x == k; }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  static constexpr bool kTwoStep = false;
  __device__ static bool swap(Word* slot, Word from, Word to) {
#if defined(__CUDA_ARCH__)
    return cas_relaxed(slot, from, to) == from;
#else
    return false;
#endif
  }
  __device__ static Key enter(Word* slot, Word to) {
#if defined(__CUDA_ARCH__)
    return key(cas_relaxed(slot, pair(kEmpty, kEmpty), to));
#else
    return kEmpty;
#endif
  }
  template <class F>
  __device__ static bool update(Word* slot, Word from, F f) {
    return swap(slot, from, pair(key(from), f(value(from))));
  }
#else
  // Without a 128-bit compare-and-swap, swap has two steps. (1) It takes the slot by exchanging the
  // key for kPending. (2) It publishes key and value by one 128-bit store. Every reader loads all
  // 128 bits at once. So it reads the old pair, the new pair, or kPending with a value that it
  // ignores, and then it reads again. The writer does not wait between (1) and (2), so readers
  // never wait for long. One lane executes (1) and (2) without a warp-wide step between them. So no
  // other lane of its warp can delay (2).
  //
  // (1) compares only the key. After `from` was read, another thread may have changed the value.
  // For a key that stays the same, the result is as if that change had come just before the read.
  static constexpr bool kTwoStep = true;
  __device__ static bool swap(Word* slot, Word from, Word to) {
    if (cas_relaxed(&slot->y, from.y, kPending) != from.y) return false;
    store_relaxed(slot, to);
    return true;
  }
  __device__ static Key enter(Word* slot, Word to) {
    Key held = cas_relaxed(&slot->y, kEmpty, kPending);
    if (held == kEmpty) store_relaxed(slot, to);
    return held;
  }
  // An update that depends on the value must not miss a change, so it reads the slot again after it
  // has taken the slot. No other thread writes the slot then. The load of all 128 bits returns
  // kPending and the last value.
  template <class F>
  __device__ static bool update(Word* slot, Word from, F f) {
    if (cas_relaxed(&slot->y, from.y, kPending) != from.y) return false;
    store_relaxed(slot, pair(key(from), f(value(load_relaxed(slot)))));
    return true;
  }
#endif
};

// KeyOnly is a slot of a set: the word is the key. A dead slot cannot remember its key, and need
// not. A batch of one kind either inserts or deletes, and a mixed batch reuses no slots.
template <class K>
struct KeyOnly : Sentinels<K> {
  using Key = K;
  using Word = K;
  using M = Sentinels<K>;
  static constexpr bool kHasValue = false, kTwoStep = false;
  __device__ static Key key(Word w) { return w; }
  __device__ static Key value(Word) { return 0; }
  __device__ static Word pair(Key k, Key) { return k; }
  __device__ static Word dead(Key) { return M::kDead; }
  __device__ static bool is_dead(Word, Key) { return false; }
  __device__ static bool swap(Word* slot, Word from, Word to) { return cas_relaxed(slot, from, to) == from; }
  __device__ static Key enter(Word* slot, Word to) { return cas_relaxed(slot, M::kEmpty, to); }
};
using Key4 = KeyOnly<uint32_t>;
using Key8 = KeyOnly<uint64_t>;

}  // namespace weft
