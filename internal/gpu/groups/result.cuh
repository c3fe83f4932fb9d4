// Writes records as columns of results.
#pragma once

#include "add.cuh"

namespace weft::groups {

// kept returns a mask with one bit set for each bit of a type.
__device__ __forceinline__ uint64_t kept(Type type) {
  if (is_wide(type)) return ~0ul;
  return type == kInt32 || type == kUint32 || type == kFloat32 ? 0xffffffffu : type == kInt16 || type == kUint16 ? 0xffffu : 0xffu;
}

// store_bits writes a value of the given type. bits holds the bits of the value.
__device__ __forceinline__ void store_bits(void* column, Type type, uint64_t row, uint64_t bits) {
  if (is_wide(type)) {
    store_once(static_cast<uint64_t*>(column) + row, bits);
  } else if (type == kInt32 || type == kUint32 || type == kFloat32) {
    store_once(static_cast<uint32_t*>(column) + row, uint32_t(bits));
  } else if (type == kInt16 || type == kUint16) {
    asm volatile("st.global.cs.u16 [%0], %1;" ::"l"(static_cast<uint16_t*>(column) + row), "h"(uint16_t(bits)) : "memory");
  } else {
    store_once(static_cast<uint8_t*>(column) + row, uint8_t(bits));
  }
}

// store_word writes a value of the given type. word has the form that load_word returns.
__device__ __forceinline__ void store_word(void* column, Type type, uint64_t row, uint64_t word) {
  if (type == kFloat32) {
    const float v = float(as_double(word));
    uint32_t bits;
    __builtin_memcpy(&bits, &v, 4);
    word = is_nan(word) ? kNaN32 : bits;  // the same NaN whatever the conversion returns
  }
  store_bits(column, type, row, word);
}

__device__ __forceinline__ void set_valid(uint32_t* valid, uint64_t row) {
  asm volatile("red.relaxed.gpu.global.or.b32 [%0], %1;" ::"l"(valid + row / 32), "r"(1u << row % 32) : "memory");
}

// unranked returns the value of the rank v. It is the inverse of ranked.
__device__ __forceinline__ uint64_t unranked(Func func, Type type, uint64_t v) {
  if (is_float(type) && v == ~0ul) return kNaN;
  if (func == kLeast) v = ~v;
  if (!is_float(type)) return is_signed(type) ? v ^ kSign : v;
  return v & kSign ? v ^ kSign : ~v;
}

// Total is a sum of integers: the part above 64 bits, the lower 64 bits, and the value as a float.
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

// is_word reports whether the results of a function have 64 bits for every type of values.
__device__ __forceinline__ bool is_word(Func func) {
  return func == kMeanOf || func == kSumOf || func == kSumOfFloats || func == kMeanOfFloats || func == kBeyond;
}

// write_output writes the result of a record to one row of an output.
__device__ __forceinline__ void write_output(const Output& o, const uint64_t* from, uint64_t row) {
  const uint64_t* words = from + o.at;
  const uint64_t values = from[kCount] - (o.nulls != 0 ? from[o.nulls] : 0);
  if (o.valid != nullptr) {
    if (values == 0) {
      store_bits(o.column, is_word(o.func) ? kInt64 : o.type, row, 0);
      return;
    }
    set_valid(o.valid, row);
  }
  const double n = double(values);
  switch (o.func) {
    case kRows:
    case kCountOf: store_word(o.column, kInt64, row, values); return;
    case kSumOfFloats: store_word(o.column, kFloat64, row, words[0]); return;
    case kMeanOfFloats: store_word(o.column, kFloat64, row, double_bits(as_double(words[0]) / n)); return;
    case kLeast:
    case kGreatest: store_word(o.column, o.type, row, unranked(o.func, o.type, words[0])); return;
    case kRowOf: store_word(o.column, o.type, row, words[1]); return;
    default: break;
  }
  const Total t = total(words, is_signed(o.type));
  const uint64_t beyond = uint64_t(t.beyond);
  store_word(o.column, kInt64, row, o.func == kMeanOf ? double_bits(t.value / n) : o.func == kBeyond ? beyond : t.sum);
  if (o.func == kSumOf && t.beyond != 0) store_relaxed(o.over, row + 1);
}

__device__ __forceinline__ uint64_t row_word(const ResultParams& p, uint64_t key, uint32_t word) {
  return p.rows == nullptr ? key : p.rows[key * p.words + word];
}

// write_key writes the value of one key column. key is a row of one word, or the number of a row of
// words.
__device__ __forceinline__ void write_key(const ResultParams& p, const KeyOutput& o, uint64_t key, uint64_t row) {
  const Key& k = o.from;
  if (o.valid != nullptr) {
    const bool null = k.null_word != kNone && (row_word(p, key, k.null_word) >> k.null_shift & 1) != 0;
    if (!null) set_valid(o.valid, row);
  }
  store_bits(o.column, k.type, row, row_word(p, key, k.word) >> k.shift & kept(k.type));
}

// write_results writes the records that have rows, in no particular order.
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
    const uint64_t key = ~from[0];
    for (uint32_t j = 0; j < p.nkeys; j++) write_key(p, p.keys[j], key, p.first + row);
    for (uint32_t j = 0; j < p.noutputs; j++) write_output(p.outputs[j], from, p.first + row);
  }
}

}  // namespace weft::groups
