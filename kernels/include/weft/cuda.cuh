// The part of CUDA C++ that weft's kernels use. nvcc has it built in. For clang without the toolkit
// (-nocudainc -nocudalib), which builds the committed PTX, this header defines it.
#pragma once

#if defined(__clang__) && defined(__CUDA__) && !defined(__CUDACC_VER_MAJOR__) && !defined(__CLANG_CUDA_RUNTIME_WRAPPER_H__)

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

using int32_t = int;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using size_t = unsigned long;

#else

#include <cstddef>
#include <cstdint>

#endif
