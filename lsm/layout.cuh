// The memory of a log-structured merge tree, and searches in it (twin: layout.go).
#pragma once

#include "../sorted/merge.cuh"

namespace weft::lsm {

using namespace inorder;
using sorted::Array;
using sorted::kBlock;
using sorted::kFan;
using sorted::kFanBits;
using sorted::keys_of;
using sorted::vals_of;

constexpr uint32_t kMost = 30;  // maximum number of levels in a tree

using Delta = signed char;

// Level is a sorted array of entries. An entry is the net effect of one or more batches on a key. A
// level is immutable once lookups can read it.
struct Level {
  Array array;     // its counters count entries
  // Number of keys that each entry adds to the tree. 1 adds its key, and 0 replaces a value. -1 is
  // the tombstone of a key that an older level has.
  Delta* deltas;
  uint32_t* sums;  // sum of the deltas before each sixteenth entry, modulo 2^32
};

// Levels describes a tree. The newest level comes first.
struct Levels {
  Level at[kMost];
  uint32_t count;
  uint32_t unused;
  uint64_t flip;  // XOR with flip turns keys into unsigned numbers in key order
};

__device__ __forceinline__ uint64_t entries(const Level& l) { return l.array.counters->live; }

// before returns the sum of the deltas before an entry.
__device__ __forceinline__ uint32_t before(const Level& l, uint64_t at) {
  const uint64_t node = at >> kFanBits;
  const uint32_t n = at % kFan;
  uint32_t sum = l.sums[node];
  if (n == 0) return sum;
  struct alignas(16) Deltas {
    uint32_t of[4];
  };
  const Deltas d = *reinterpret_cast<const Deltas*>(l.deltas + (node << kFanBits));
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) {
    if (n <= 4 * i) break;
    const uint32_t left = n - 4 * i;
    const uint32_t word = left >= 4 ? d.of[i] : d.of[i] & ((1u << (8 * left)) - 1);
    sum += popcount(word & 0x01010101) - 2 * popcount(word & 0x80808080);  // -1 has all bits set
  }
  return sum;
}

template <class K>
__device__ __forceinline__ uint64_t place(const Level& l, uint64_t n, K key) {
  return sorted::place(l.array, n, key);
}

// same reports whether entry number `at` exists and has a key. n is the number of entries.
template <class K>
__device__ __forceinline__ bool same(const Level& l, uint64_t n, uint64_t at, K key) {
  return at < n && keys_of<K>(l.array)[at] == key;
}

// size returns the number of keys in the tree.
__device__ __forceinline__ uint32_t size(const Levels& s) {
  uint32_t sum = 0;
  for (uint32_t l = 0; l < s.count; l++) sum += before(s.at[l], entries(s.at[l]));
  return sum;
}

// rank returns the number of keys in the tree that are smaller than a key. If with_it is set, it
// also counts the key itself.
template <class K>
__device__ __forceinline__ uint32_t rank(const Levels& s, K key, bool with_it) {
  uint32_t sum = 0;
  for (uint32_t l = 0; l < s.count; l++) {
    const uint64_t n = entries(s.at[l]);
    uint64_t at = place(s.at[l], n, key);
    if (with_it && same(s.at[l], n, at, key)) at++;
    sum += before(s.at[l], at);
  }
  return sum;
}

// select returns the key with a rank, which must exist. It is the largest of all possible keys with
// a rank of at most rank_of. The loop determines the key bit by bit, in the bits where the keys of
// the tree differ.
template <class K>
__device__ __forceinline__ K select(const Levels& s, uint32_t rank_of) {
  K least = ~K(0), most = 0;
  for (uint32_t l = 0; l < s.count; l++) {
    const uint64_t n = entries(s.at[l]);
    if (n == 0) continue;
    const K* keys = keys_of<K>(s.at[l].array);
    if (keys[0] < least) least = keys[0];
    if (keys[n - 1] > most) most = keys[n - 1];
  }
  K differ = least ^ most;
  for (uint32_t shift = 1; shift < 8 * sizeof(K); shift *= 2) differ |= differ >> shift;
  K key = least & ~differ;
  for (K bit = (differ >> 1) + 1; bit != 0 && differ != 0; bit >>= 1)
    if (rank(s, K(key | bit), false) <= rank_of) key |= bit;
  return key;
}

// Entry is an entry of a level.
template <class K>
struct Entry {
  K key;
  uint32_t level;
  uint64_t at;
};

constexpr uint32_t kTombstones = 32;  // tombstones that a walk skips one by one before it searches

// Places holds the positions of a block's walks in shared memory, one per level and thread.
struct Places {
  uint32_t at[kMost * kBlock];
};

// Walk visits the keys of a tree from a given key on, in ascending or descending order. It finds
// the newest entry of each key.
template <class K>
struct Walk {
  const Levels& levels;
  const bool down;
  uint32_t* const places;  // positions of this thread's walk; see at()
  enum { kNext, kKey, kRank } from = kNext;  // where the next step begins
  K key = 0;
  uint32_t rank_of = 0;

  __device__ __forceinline__ Walk(const Levels& s, bool backward, Places& of)
      : levels(s), down(backward), places(of.at + thread_in_block()) {}

  // at returns the next entry of a level. In a descending walk, it returns the number of entries
  // left.
  __device__ __forceinline__ uint32_t& at(uint32_t l) const { return places[l * kBlock]; }

  // begin sets the walk to a key. The walk continues with this key. If the tree lacks it, the walk
  // continues with the next key in its direction.
  __device__ __forceinline__ void begin(K k) { from = kKey, key = k; }

  // begin_at sets the walk to the pair of rank n.
  __device__ __forceinline__ void begin_at(uint32_t n) { from = kRank, rank_of = n; }

  __device__ __forceinline__ void search() {
    if (from == kRank) key = select<K>(levels, rank_of);
    from = kNext;
    for (uint32_t l = 0; l < levels.count; l++) {
      const Level& level = levels.at[l];
      const uint64_t n = entries(level);
      const uint64_t first = place(level, n, key);
      at(l) = down && same(level, n, first, key) ? first + 1 : first;
    }
  }

  __device__ __forceinline__ bool left(uint32_t l) const { return down ? at(l) != 0 : at(l) < entries(levels.at[l]); }
  __device__ __forceinline__ uint32_t head(uint32_t l) const { return down ? at(l) - 1 : at(l); }

  // step finds the next entry, and skips older entries of the same key.
  __device__ __forceinline__ bool step(Entry<K>& e) {
    e.level = kMost;
    for (uint32_t l = 0; l < levels.count; l++) {
      if (!left(l)) continue;
      const K k = keys_of<K>(levels.at[l].array)[head(l)];
      if (e.level == kMost || (down ? k > e.key : k < e.key)) e = {k, l, head(l)};
    }
    if (e.level == kMost) return false;
    for (uint32_t l = e.level; l < levels.count; l++)
      if (left(l) && keys_of<K>(levels.at[l].array)[head(l)] == e.key) at(l) += down ? -1 : 1;
    return true;
  }

  // next finds the next pair. After many tombstones it continues by rank, at the pair that follows
  // the last tombstone.
  __device__ __forceinline__ bool next(Entry<K>& e) {
    for (uint32_t passed = 0;;) {
      if (from != kNext) search();
      if (!step(e)) return false;
      if (levels.at[e.level].deltas[e.at] >= 0) return true;
      if (++passed % kTombstones != 0) continue;
      const uint32_t r = rank(levels, e.key, false);
      if (down ? r == 0 : r == size(levels)) return false;
      begin_at(down ? r - 1 : r);
    }
  }
};

}  // namespace weft::lsm
