// Tuning of the linear kernels, with the measurement behind each choice: one
// H200, 10^8 keys, G operations per second (bench/NOTES.md has the tables).
#pragma once

namespace weft::linear {

// A tile of lanes reads pieces of 16 bytes each: lanes * pieces * 16 bytes of
// a path per step. The host chooses by load (gpu.go).
//
// Narrow: one 32-byte sector by two lanes. At load 0.5 with 32-bit pairs: hits
// 38.1 (four lanes on 64 bytes 37.4, on 128 bytes 30.4; the bare gather 38.7),
// inserts 14.8 (14.7, 13.1).
constexpr int kNarrowLanes = 2, kNarrowPieces = 1;

// Wide: the whole 128-byte line by four lanes. At load 0.8: misses 18.6 (narrow
// 11.6, 64 bytes 13.9), hits 29.0 (30.1, 30.7); at 0.9 misses 6.8 (3.3, 4.5).
// Eight lanes of one piece were never better.
constexpr int kWideLanes = 4, kWidePieces = 2;

// Threads per block of every kernel.
constexpr int kBlock = 256;

// Blocks that must fit a multiprocessor, which bounds registers. Lookups of 16-
// byte slots at load 0.8: hits 24.5, misses 11.4 with 32 registers; 22.6 and 9.8
// with the 39 the compiler would take. Changes get what they need without
// spilling: 40 to 52. Older architectures need a few more for the same.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kGetBlocks = 5;
#else
constexpr int kGetBlocks = 8;
#endif
constexpr int kChangeBlocks = 4;

// Sectors that a lane reads by itself, where tables lie in cache: of 10^6 groups at
// load 0.8, tiles alone do 11 G rows a second, tiles behind a sector 15.
constexpr uint32_t kAlone = 1, kAloneGet = 2;

}  // namespace weft::linear
