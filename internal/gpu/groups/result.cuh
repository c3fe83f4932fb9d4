// Records are written out as columns of results.
#pragma once

#include "add.cuh"

namespace weft::groups {

__device__ __forceinline__ void store_word(void* column, Type type, uint64_t row, uint64_t word) {
  if (type == kInt64 || type == kUint64 || type == kFloat64) {
    store_once(static_cast<uint64_t*>(column) + row, word);
    return;
  }
  uint32_t bits = uint32_t(word);
  if (type == kFloat32) {
    const float v = float(as_double(word));
    __builtin_memcpy(&bits, &v, 4);
    if (is_nan(word)) bits = kNaN32;  // whatever NaN the conversion makes
  }
  store_once(static_cast<uint32_t*>(column) + row, bits);
}

// unranked is the value of which ranked kept v.
__device__ __forceinline__ uint64_t unranked(Func func, Type type, uint64_t v) {
  if (type >= kFloat32 && v == ~0ul) return kNaN;
  if (func == kLeast) v = ~v;
  if (type < kFloat32) return is_signed(type) ? v ^ kSign : v;
  return v & kSign ? v ^ kSign : ~v;
}

// Total is a sum of integers: what lies above 64 bits, and the sum without that.
struct Total {
  int64_t beyond;
  uint64_t sum;
  double value;
};
__device__ __forceinline__ Total total(const uint64_t* words, bool has_sign) {
  const uint64_t small = words[0], rest = words[1], sum = small + (rest << 32);
  int64_t beyond = (has_sign ? int64_t(rest) >> 32 : int64_t(rest >> 32)) + (int64_t(small) >> 63) + (sum < small ? 1 : 0);
  if (has_sign) beyond -= int64_t(sum) >> 63;
  const double low = has_sign ? double(int64_t(sum)) : double(sum);
  return {beyond, sum, low + double(beyond) * 18446744073709551616.0};
}

// write_output writes what an output has of a record.
__device__ __forceinline__ void write_output(const Output& o, const uint64_t* from, uint64_t row) {
  const uint64_t* words = from + o.at;
  const double n = double(from[kCount]);
  switch (o.func) {
    case kRows: store_word(o.column, kInt64, row, from[kCount]); return;
    case kSumOfFloats: store_word(o.column, kFloat64, row, words[0]); return;
    case kMeanOfFloats: store_word(o.column, kFloat64, row, double_bits(as_double(words[0]) / n)); return;
    case kLeast:
    case kGreatest: store_word(o.column, o.type, row, unranked(o.func, o.type, words[0])); return;
    default: break;
  }
  const Total t = total(words, is_signed(o.type));
  store_word(o.column, kInt64, row, o.func == kMeanOf ? double_bits(t.value / n) : t.sum);
  if (o.func == kSumOf && t.beyond != 0) store_relaxed(o.over, row + 1);
}

// write_results writes the records that have rows, in no order.
__device__ __forceinline__ void write_results(const ResultParams& p) {
  const uint64_t places = uint64_t(p.table.slots) + 1, end = (places + kWarp - 1) / kWarp * kWarp;
  for (uint64_t i = thread_index(); i < end; i += threads_in_grid()) {
    const uint64_t* from = record(p.table, uint32_t(i));
    const bool live = i < places && from[kCount] != 0;
    const uint32_t all = ballot(kAll, live), lane = lane_index();
    if (all == 0) continue;
    uint64_t row = 0;
    if (lane == 0) row = add_relaxed(p.count, uint64_t(popcount(all)));
    row = shuffle(kAll, row, 0) + popcount(all & ((1u << lane) - 1));
    if (!live || row >= p.room) continue;
    store_word(p.keys, p.key, row, ~from[0]);
    for (uint32_t j = 0; j < p.noutputs; j++) write_output(p.outputs[j], from, row);
  }
}

}  // namespace weft::groups
