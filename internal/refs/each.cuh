// Copies of whole tables, made by the kernels of this package.
#pragma once

#include "weft/ref.cuh"

// Pairs is where pairs are written, and their number.
template <class K, class V>
struct Pairs {
  K* keys;
  typename As<V>::Given* vals;  // of maps
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
