// Columns of keys and values, as kernels read and write them.
#pragma once

#include "access.cuh"

namespace weft {

// The columns of a batch have words of 32 or 64 bits. A kernel names the type of its columns, or
// AnyWord. With AnyWord, each launch selects the width, and one image serves all pairs of widths
// that have the same slots.
struct AnyWord {};

// NarrowColumns is a set of flags for the columns of a launch that have words of 32 bits.
enum NarrowColumns : uint32_t { kNarrowKeys = 1, kNarrowValues = 2 };

// Column reads and writes elements of a column. U is the type of an element in registers.
template <class T>
struct Column {
  using Word = T;

  __device__ static __forceinline__ T read(const void* from, uint64_t i, bool) { return static_cast<const T*>(from)[i]; }
  __device__ static __forceinline__ T read_once(const void* from, uint64_t i, bool) { return load_once(static_cast<const T*>(from) + i); }
  template <class U>
  __device__ static __forceinline__ void write(void* to, uint64_t i, U word, bool) { static_cast<T*>(to)[i] = T(word); }
  template <class U>
  __device__ static __forceinline__ void write_once(void* to, uint64_t i, U word, bool) { store_once(static_cast<T*>(to) + i, T(word)); }
};
template <>
struct Column<AnyWord> {
  using Word = uint64_t;
  using Short = Column<uint32_t>;
  using Long = Column<uint64_t>;

  __device__ static __forceinline__ uint64_t read(const void* from, uint64_t i, bool narrow) {
    return narrow ? Short::read(from, i, true) : Long::read(from, i, false);
  }
  __device__ static __forceinline__ uint64_t read_once(const void* from, uint64_t i, bool narrow) {
    return narrow ? Short::read_once(from, i, true) : Long::read_once(from, i, false);
  }
  __device__ static __forceinline__ void write(void* to, uint64_t i, uint64_t word, bool narrow) {
    narrow ? Short::write(to, i, word, true) : Long::write(to, i, word, false);
  }
  __device__ static __forceinline__ void write_once(void* to, uint64_t i, uint64_t word, bool narrow) {
    narrow ? Short::write_once(to, i, word, true) : Long::write_once(to, i, word, false);
  }
};

}  // namespace weft
