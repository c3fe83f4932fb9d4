// What CUDA C++ provides without any #include, for kernels written for nvcc: the indices of a
// thread. (clang has __syncthreads, the barrier of a block, built in.) nvcc, and clang with the
// toolkit, define them; for clang without it, they are here.
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
