// The upper levels of an index, as one in shared memory.
#pragma once

#include "weft/ordered_find.cuh"

namespace weft::ordered {

// Top is the separators of the lowest level that has room: of one node of the level below each. So a search of shared memory, each lane
// for a key of its own, takes the place of the levels down to it, which are few lines that all searches want at a moment.
template <class K>
struct Top {
  // Four blocks of a multiprocessor leave most of its memory to the L1, which has the next level.
  static constexpr uint32_t kMost = 8192 / sizeof(K);

  K seps[kMost];

  // read reads them. All threads of the block call it; it returns the levels below.
  __device__ __forceinline__ Levels<K> read(const Index& x, uint32_t leaves) {
    Levels<K> below(x);
    while (below.number > 1 && number(leaves, below.number - 2) <= kMost) below.pass(x);
    const uint32_t n = number(leaves, below.number - 1);
    for (uint32_t i = thread_in_block(); i < n; i += threads_per_block()) seps[i] = below.seps[i];
    below.pass(x);
    sync_block();
    return below;
  }

  // node is which of the level below, or which leaf, a key belongs to.
  __device__ __forceinline__ uint32_t node(uint32_t leaves, const Levels<K>& below, K key) const {
    return inorder::first<uint32_t>(1, number(leaves, below.number), [&](uint32_t i) { return seps[i] > key; }) - 1;
  }

 private:
  // number is how many separators a level has, from the lowest, which is 0.
  static __device__ __forceinline__ uint32_t number(uint32_t leaves, uint32_t level) {
    return leaves == 0 ? 0 : ((leaves - 1) >> (kFanBits * level)) + 1;
  }
};

}  // namespace weft::ordered
