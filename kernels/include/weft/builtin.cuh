// The indices of a thread, which CUDA C++ provides without an #include, for kernels written for
// nvcc. nvcc defines the indices, and so does clang with the CUDA toolkit. This header defines them
// for clang without the toolkit. (__syncthreads, the barrier of a block, is built into clang.)
#pragma once

#include "cuda.cuh"

#if defined(__clang__) && defined(__CUDA__) && !defined(__CUDACC_VER_MAJOR__) && !defined(__CLANG_CUDA_RUNTIME_WRAPPER_H__)

namespace weft::builtin {

// These objects have no storage: reading a member calls a function.
#define WEFT_MEMBER(reg, member)                                          \
  __declspec(property(get = get_##member)) unsigned int member;           \
  static __device__ __forceinline__ unsigned int get_##member() {         \
    return __nvvm_read_ptx_sreg_##reg##_##member();                       \
  }
#define WEFT_INDEX(Type, reg)                                             \
  struct Type {                                                           \
    WEFT_MEMBER(reg, x)                                                   \
    WEFT_MEMBER(reg, y)                                                   \
    WEFT_MEMBER(reg, z)                                                   \
  };
WEFT_INDEX(ThreadIdx, tid)
WEFT_INDEX(BlockIdx, ctaid)
WEFT_INDEX(BlockDim, ntid)
WEFT_INDEX(GridDim, nctaid)
#undef WEFT_INDEX
#undef WEFT_MEMBER

}  // namespace weft::builtin

extern const __device__ __attribute__((weak)) weft::builtin::ThreadIdx threadIdx;
extern const __device__ __attribute__((weak)) weft::builtin::BlockIdx blockIdx;
extern const __device__ __attribute__((weak)) weft::builtin::BlockDim blockDim;
extern const __device__ __attribute__((weak)) weft::builtin::GridDim gridDim;

constexpr int warpSize = 32;

#endif
