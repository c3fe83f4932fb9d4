// Tuning of the linear kernels, with the measurement behind each choice
// (bench/NOTES.md has the tables).
#pragma once

namespace weft::linear {

// A tile of lanes reads pieces of 16 bytes each: lanes * pieces * 16 bytes of
// a path per step.
//
// Narrow: one 32-byte sector by two lanes. At load .5 on an H200 it reached
// 38.2 G hits/s where the bare gather of 16 bytes reached 38.7; four lanes on
// 64 bytes 37.4, four lanes on 128 bytes 30.3.
constexpr int kNarrowLanes = 2, kNarrowPieces = 1;

// Wide: the whole 128-byte line by four lanes. At load .8 misses went from
// 10.7 (narrow) to 15.1 G/s, at .9 from 2.8 to 5.3. Eight lanes of one piece
// were never better.
constexpr int kWideLanes = 4, kWidePieces = 2;

// Changes end in a compare-and-swap, which costs as much as reading the line.
constexpr int kChangeLanes = 4, kChangePieces = 1;

// Threads per block of every kernel.
constexpr int kBlock = 256;

}  // namespace weft::linear
