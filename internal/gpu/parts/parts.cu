// Kernels of partitions. They hash rows, compute the partition of each row, and copy rows of
// columns by number. parts.go has the order of the steps. The hash equals that of column.Hash,
// which documents it.
#include "weft/access.cuh"
#include "weft/hash.cuh"
#include "weft/warp.cuh"

namespace weft {

// Types of columns. column.Type has the same numbers.
enum Type : uint32_t {
  kNoType, kInt8, kInt16, kInt32, kInt64, kUint8, kUint16, kUint32, kUint64, kFloat32, kFloat64,
  kBool
};

// Column is a column of values. Row i has bit offset + i of the bitmap valid. A value is null if
// its bit is 0.
struct Column {
  const void* values;
  const uint8_t* valid;  // null pointer: no value is null
  uint64_t offset;
  Type type;  // kNoType: no column
  uint32_t unused;
};

struct HashParams {
  Column column;
  uint64_t* hashes;  // in: hashes of the columns before this one; out: including this one
  uint64_t start;    // hash of a row without columns
  uint32_t n;
  uint32_t first;  // not 0: this is the first column
};

// PartParams are the parameters of parts_part. Rows with a flag go to the partitions round-robin,
// or all of them go to an extra last partition.
struct PartParams {
  HashParams hash;        // hash of the last column
  const uint32_t* flags;  // null: no row has a flag
  // rank of each row among the rows with a flag; null: these rows go to the extra partition
  const uint32_t* ranks;
  uint32_t* parts;
  uint64_t mask;   // bits of hashes to use
  uint32_t count;  // number of partitions
  uint32_t next;   // partition of the first row with a flag
};

struct NullParams {
  Column column;
  uint32_t* flags;  // whether each row has a null
  uint32_t n;
  uint32_t first;  // not 0: all flags are written; 0: only the flags of nulls
};

struct BoundParams {
  const uint32_t* parts;  // partitions of rows, sorted
  uint32_t* offsets;      // count + 1 elements
  uint32_t n;
  uint32_t count;
};

struct TakeParams {
  Column column;
  const uint32_t* rows;
  void* values;
  uint32_t* valid;  // whole words; null: the column has no bitmap
  uint32_t n;       // number of rows to copy
  uint32_t size;    // number of rows in the column
};

struct PutParams {
  const void* values;
  const uint32_t* rows;  // target rows, all distinct
  void* to;
  uint32_t n;
  uint32_t width;  // size of a value in bytes: 1, 4 or 8
};

constexpr uint64_t kNullWord = 0xd1b54a32d192ed03ul, kNaNWord = 0x7ff8ul << 48;

__device__ __forceinline__ uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ul;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebul;
  return x ^ x >> 31;
}

__device__ __forceinline__ uint64_t float_word(double v) {
  if (v != v) return kNaNWord;
  return v == 0 ? 0 : __builtin_bit_cast(uint64_t, v);
}

__device__ __forceinline__ bool is_null(const Column& c, uint64_t row) {
  if (c.valid == nullptr) return false;
  const uint64_t bit = c.offset + row;
  return (c.valid[bit / 8] >> bit % 8 & 1) == 0;
}

template <class T>
__device__ __forceinline__ T value(const Column& c, uint64_t row) {
  return static_cast<const T*>(c.values)[row];
}

// word returns the input of the hash for a value.
__device__ __forceinline__ uint64_t word(const Column& c, uint64_t row) {
  if (is_null(c, row)) return kNullWord;
  switch (c.type) {
    case kInt8: return uint64_t(int64_t(value<signed char>(c, row)));
    case kInt16: return uint64_t(int64_t(value<short>(c, row)));
    case kInt32: return uint64_t(int64_t(value<int32_t>(c, row)));
    case kUint8: return value<uint8_t>(c, row);
    case kUint16: return value<uint16_t>(c, row);
    case kUint32: return value<uint32_t>(c, row);
    case kFloat32: return float_word(value<float>(c, row));
    case kFloat64: return float_word(value<double>(c, row));
    case kBool: return value<uint8_t>(c, row) != 0;
    default: return value<uint64_t>(c, row);
  }
}

__device__ __forceinline__ uint64_t hashed(const HashParams& p, uint64_t row) {
  uint64_t h = p.start;
  if (p.first == 0) h = load_once(p.hashes + row);
  return p.column.type == kNoType ? h : mix(h ^ word(p.column, row));
}

template <class T>
__device__ __forceinline__ void copy(const TakeParams& p, uint32_t to, uint32_t from) {
  static_cast<T*>(p.values)[to] = static_cast<const T*>(p.column.values)[from];
}

template <class T>
__device__ __forceinline__ void put(const PutParams& p, uint64_t i) {
  static_cast<T*>(p.to)[p.rows[i]] = static_cast<const T*>(p.values)[i];
}

}  // namespace weft

using namespace weft;

extern "C" __global__ void __launch_bounds__(256) parts_hash(HashParams p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) p.hashes[i] = hashed(p, i);
}

extern "C" __global__ void __launch_bounds__(256) parts_null(NullParams p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t null = is_null(p.column, i);
    if (p.first != 0 || null != 0) p.flags[i] = null;
  }
}

extern "C" __global__ void __launch_bounds__(256) parts_part(PartParams p) {
  for (uint64_t i = thread_index(); i < p.hash.n; i += threads_in_grid()) {
    uint32_t part = p.count;
    if (p.flags == nullptr || p.flags[i] == 0) {
      part = uint32_t(reduce(hashed(p.hash, i) & p.mask, uint64_t(p.count)));
    } else if (p.ranks != nullptr) {
      part = (p.next + p.ranks[i] % p.count) % p.count;
    }
    p.parts[i] = part;
  }
}

// parts_bound finds where partitions begin. A thread searches for the first row that belongs to its
// partition or to a later one.
extern "C" __global__ void __launch_bounds__(256) parts_bound(BoundParams p) {
  for (uint64_t i = thread_index(); i <= p.count; i += threads_in_grid()) {
    uint32_t lo = 0, hi = p.n;
    while (lo < hi) {
      const uint32_t mid = lo + (hi - lo) / 2;
      if (p.parts[mid] < i) {
        lo = mid + 1;
      } else {
        hi = mid;
      }
    }
    p.offsets[i] = lo;
  }
}

// parts_take copies rows of a column. All lanes of a warp stay in the loop together, because a warp
// writes the bits of its rows as one word.
extern "C" __global__ void __launch_bounds__(256) parts_take(TakeParams p) {
  const uint64_t end = (uint64_t(p.n) + kWarp - 1) / kWarp * kWarp;
  for (uint64_t i = thread_index(); i < end; i += threads_in_grid()) {
    const uint32_t row = i < p.n ? p.rows[i] : kAll;
    const bool there = row < p.size;
    if (there) {
      switch (p.column.type) {
        case kInt8: case kUint8: case kBool: copy<uint8_t>(p, uint32_t(i), row); break;
        case kInt16: case kUint16: copy<uint16_t>(p, uint32_t(i), row); break;
        case kInt32: case kUint32: case kFloat32: copy<uint32_t>(p, uint32_t(i), row); break;
        default: copy<uint64_t>(p, uint32_t(i), row);
      }
    }
    if (p.valid != nullptr) {
      const uint32_t valid = ballot(kAll, there && !is_null(p.column, row));
      if (i % kWarp == 0) p.valid[i / kWarp] = valid;
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) parts_put(PutParams p) {
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    switch (p.width) {
      case 1: put<uint8_t>(p, i); break;
      case 4: put<uint32_t>(p, i); break;
      default: put<uint64_t>(p, i);
    }
  }
}
