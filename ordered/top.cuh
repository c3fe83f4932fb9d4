// The separators of an upper level of an index, in shared memory.
#pragma once

#include "weft/ordered_find.cuh"

namespace weft::ordered {

// Top holds the separators of the lowest level that fits, one for each node of the level below. A
// search in shared memory, with one key per lane, replaces the search of this level and the levels
// above. These levels have few lines. Without Top, all searches would read the lines at the same
// time.
template <class K>
struct Top {
  // With this size, four blocks per multiprocessor leave most of its memory to the L1 cache, which
  // holds the next level.
  static constexpr uint32_t kMost = 8192 / sizeof(K);

  K seps[kMost];

  // read reads the separators and returns the levels below. All threads of the block call it.
  __device__ __forceinline__ Levels<K> read(const Index& x, uint32_t leaves) {
    Levels<K> below(x);
    while (below.number > 1 && number(leaves, below.number - 2) <= kMost) below.pass(x);
    const uint32_t n = number(leaves, below.number - 1);
    for (uint32_t i = thread_in_block(); i < n; i += threads_per_block()) seps[i] = below.seps[i];
    below.pass(x);
    sync_block();
    return below;
  }

  // node returns the node of the level below, or the leaf, that a key belongs to.
  __device__ __forceinline__ uint32_t node(uint32_t leaves, const Levels<K>& below, K key) const {
    return inorder::first<uint32_t>(1, number(leaves, below.number), [&](uint32_t i) { return seps[i] > key; }) - 1;
  }

 private:
  // number returns the number of separators of a level. Level 0 is the lowest.
  static __device__ __forceinline__ uint32_t number(uint32_t leaves, uint32_t level) {
    return leaves == 0 ? 0 : ((leaves - 1) >> (kFanBits * level)) + 1;
  }
};

}  // namespace weft::ordered
