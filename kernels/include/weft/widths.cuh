// The types of words that hold keys and values of given widths.
#pragma once

#include "slot.cuh"

namespace weft {

template <int Bits>
struct Integer;
template <>
struct Integer<32> {
  using Type = uint32_t;
};
template <>
struct Integer<64> {
  using Type = uint64_t;
};

// Widths defines the types of keys and values, and the slots that hold them. A set has no values,
// and V is defined only because kernels name it.
template <int KeyBits, int ValueBits>
struct Widths {
  using K = typename Integer<KeyBits>::Type;
  using V = typename Integer<ValueBits>::Type;
  using S = Pair16;
};
template <>
struct Widths<32, 32> {
  using K = uint32_t;
  using V = uint32_t;
  using S = Pair8;
};
template <int KeyBits>
struct Widths<KeyBits, 0> {
  using K = typename Integer<KeyBits>::Type;
  using V = K;
  using S = KeyOnly<K>;
};

}  // namespace weft
