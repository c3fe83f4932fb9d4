// Entry points of a structure's kernels. Their source is compiled once for each pair of widths
// (kernelgen -widths). WEFT_KEY_BITS and WEFT_VALUE_BITS are the widths of a key and a value. Sets
// have values of 0 bits.
#pragma once

#include "widths.cuh"

#define WEFT_PASTE(name, key, value) name##_##key##_##value
#define WEFT_PAIR(name, key, value) WEFT_PASTE(name, key, value)

// WEFT_KERNEL begins a kernel that has its widths in its name, such as linear_get_64_32. `blocks`
// blocks must fit on a multiprocessor, which limits the number of registers.
#define WEFT_KERNEL(name, blocks)                           \
  extern "C" __global__ void __launch_bounds__(kBlock, blocks) \
      WEFT_PAIR(name, WEFT_KEY_BITS, WEFT_VALUE_BITS)

// WEFT_WIDTHS names the types of keys and values, and the slots that hold them.
#define WEFT_WIDTHS                                       \
  using K = Widths<WEFT_KEY_BITS, WEFT_VALUE_BITS>::K; \
  using V = Widths<WEFT_KEY_BITS, WEFT_VALUE_BITS>::V; \
  using S = Widths<WEFT_KEY_BITS, WEFT_VALUE_BITS>::S

// WEFT_SHARED_WIDTHS is WEFT_WIDTHS for a source with one image for all pairs of widths with slots
// of 16 bytes. That image is the one for 64_64.
#if WEFT_KEY_BITS == 64 && WEFT_VALUE_BITS == 64
#define WEFT_SHARED_WIDTHS \
  using K = AnyWord;       \
  using V = AnyWord;       \
  using S = Pair16
#else
#define WEFT_SHARED_WIDTHS WEFT_WIDTHS
#endif

// WEFT_DUPLICATES defines the kernels that resolve duplicates in batches of a structure. The
// structure defines change_one and Table. Sets have no Put, so WEFT_PUTS is empty for them.
#define WEFT_DUPLICATES(name)                                                                                \
  WEFT_KERNEL(name##_contend, 1)(Contest p) { contend<K>(p); }                                               \
  WEFT_KERNEL(name##_reset, 1)(Contest p) { reset(p); }                                                      \
  WEFT_PUTS(name)                                                                                            \
  WEFT_KERNEL(name##_winners_first, 1)(WinnersParams<Table> p) {                                             \
    winners_first<S, K, V>(p.winners, [&](Operation<S>& op) { change_one<S>(p.table, op); });                \
  }

#if WEFT_VALUE_BITS
#define WEFT_PUTS(name)                                                                                      \
  WEFT_KERNEL(name##_claim, 1)(Contest p) { claim<K>(p); }                                                   \
  WEFT_KERNEL(name##_winners_last, 1)(WinnersParams<Table> p) {                                              \
    winners_last<S, K, V>(p.winners, p.table.counters, [&](Operation<S>& op) { change_one<S>(p.table, op); }); \
  }
#else
#define WEFT_PUTS(name)
#endif
