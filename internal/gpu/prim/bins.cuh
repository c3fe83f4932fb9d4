// The second half of a sort of few rows: a block sorts those that have the same leading digit.
#pragma once

#include "weft/warp.cuh"

namespace weft::prim {

constexpr uint32_t kBinThreads = 256, kBinRows = 2048;

// Twin of binsParams in few.go.
struct BinsParams {
  const uint64_t* keys;
  const uint32_t* vals;  // null: there are none
  uint64_t* keys_out;
  uint32_t* vals_out;
  const uint32_t* offsets;  // where the rows of each digit begin
  uint32_t* crowded;        // added to: digits that too many rows have
  uint32_t lo, bits;        // of a key, that count
};

// exchange puts two rows in order, by what counts of their keys and then by where they were.
__device__ __forceinline__ void exchange(Shared<uint64_t> keys, Shared<uint32_t> order, uint32_t a, uint32_t b, uint32_t lo, uint64_t mask) {
  const uint64_t x = load_weak(keys + a), y = load_weak(keys + b), p = x >> lo & mask, q = y >> lo & mask;
  if (p < q) return;
  const uint32_t i = load_weak(order + a), j = load_weak(order + b);
  if (p == q && i < j) return;
  store_weak(keys + a, y), store_weak(keys + b, x);
  store_weak(order + a, j), store_weak(order + b, i);
}

// sort_bin is a bitonic sort in which smaller rows always go to smaller places: so what is beyond the last needs none.
__device__ __forceinline__ void sort_bin(Shared<uint64_t> keys, Shared<uint32_t> order, uint32_t n, uint32_t lo, uint64_t mask) {
  for (uint32_t size = 2; size / 2 < n; size *= 2) {
    for (uint32_t step = size / 2; step != 0; step /= 2) {
      for (uint32_t t = thread_in_block();; t += kBinThreads) {
        const uint32_t a = 2 * (t & ~(step - 1)) | (t & (step - 1)), b = step == size / 2 ? a ^ (size - 1) : a + step;
        if (a >= n) break;
        if (b < n) exchange(keys, order, a, b, lo, mask);
      }
      sync_block();
    }
  }
}

__device__ __forceinline__ void bins(const BinsParams& p) {
  __shared__ uint64_t shared_keys[kBinRows];
  __shared__ uint32_t shared_order[kBinRows];
  const Shared<uint64_t> keys = shared(shared_keys);
  const Shared<uint32_t> order = shared(shared_order);
  const uint32_t begin = p.offsets[block_index()], n = p.offsets[block_index() + 1] - begin;
  if (n > kBinRows) {
    if (thread_in_block() == 0) add_relaxed(p.crowded, 1u);
    for (uint32_t i = begin + thread_in_block(); i < begin + n; i += kBinThreads) {
      p.keys_out[i] = p.keys[i];
      if (p.vals) p.vals_out[i] = p.vals[i];
    }
    return;
  }
  for (uint32_t i = thread_in_block(); i < n; i += kBinThreads) store_weak(keys + i, p.keys[begin + i]), store_weak(order + i, i);
  sync_block();
  sort_bin(keys, order, n, p.lo, p.bits < 64 ? (uint64_t(1) << p.bits) - 1 : ~uint64_t(0));
  for (uint32_t i = thread_in_block(); i < n; i += kBinThreads) {
    p.keys_out[begin + i] = load_weak(keys + i);
    if (p.vals) p.vals_out[begin + i] = p.vals[begin + load_weak(order + i)];
  }
}

}  // namespace weft::prim
