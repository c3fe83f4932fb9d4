// Copying of whole tables, for the kernels of this package.
#pragma once

#include "weft/ref.cuh"

// Pairs is the output of a copy: columns for pairs, and a counter of pairs.
template <class K, class V>
struct Pairs {
  K* keys;
  typename As<V>::Given* vals;  // used for maps only
  uint32_t* count;
  uint32_t room;

  template <class Ref>
  __device__ __forceinline__ void copy(const Ref& ref) const {
    auto next = [&] { return add_relaxed(count, 1u); };
    if constexpr (As<V>::kBytes == 0) {
      ref.for_each(thread_index(), threads_in_grid(), [&](K key) {
        if (uint32_t at = next(); at < room) keys[at] = key;
      });
    } else {
      ref.for_each(thread_index(), threads_in_grid(), [&](K key, V value) {
        if (uint32_t at = next(); at < room) keys[at] = key, vals[at] = value;
      });
    }
  }
};
