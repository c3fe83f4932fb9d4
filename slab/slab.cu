// Kernels of package slab: the slab hash of Ashkiani, Farach-Colton and Owens.
// doc.go explains the structure, layout.go the memory; this file keeps their
// names.
//
// The paper's warp-cooperative work sharing (section IV-A): each lane brings an
// operation, and lanes work on them together. Here the lanes of a tile do,
// rather than the whole warp, since four lanes already read a slab as fast as
// memory gives it; the rest of the warp works on other operations meanwhile.
// All lanes of a warp stay together: each warp-wide vote is executed by all 32,
// with finished tiles taking part idle.
#include "search.cuh"
#include "whole.cuh"

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::slab;

#define WEFT_KERNEL(blocks) extern "C" __global__ void __launch_bounds__(kBlock, blocks)

#define WEFT_SLAB_KEYS(KB, K)                                    \
  WEFT_KERNEL(1) slab_rank_##KB(RankParams p) { rank<K>(p); }    \
  WEFT_KERNEL(1) slab_claim_##KB(RankParams p) { claim<K>(p); }

// What maps, sets and multimaps have.
#define WEFT_SLAB(KB, VB, S, K, V)                                                                      \
  WEFT_KERNEL(1) slab_settle_first_##KB##_##VB(SettleParams p) {                                        \
    settle_first<S, K, V>(p, [&](Operation<S>& op) { alter<S>(p.table, op); });                         \
  }                                                                                                     \
  WEFT_KERNEL(1) slab_export_##KB##_##VB(ExportParams p) { export_live<S, K, V>(p); }                   \
  WEFT_KERNEL(1) slab_flush_##KB##_##VB(FlushParams p) { flush<S>(p); }                                 \
  WEFT_KERNEL(1) slab_rehash_##KB##_##VB(RehashParams p) { rehash<S>(p); }

// What is different where keys are unique, and where they are not.
#define WEFT_SLAB_CHANGES(NAME, KB, VB, S, K, V, MULTI)                                                 \
  WEFT_KERNEL(kGetBlocks) slab_get##NAME##_##KB##_##VB(GetParams p) { get<S, K, V, MULTI>(p); }         \
  WEFT_KERNEL(MULTI ? kMultiBlocks : kChangeBlocks) slab_change##NAME##_##KB##_##VB(ChangeParams p) {                          \
    change_batch<S, K, V, MULTI>(p);                                                                    \
  }

#define WEFT_SLAB_MAP(KB, VB, S, K, V)                                                                  \
  WEFT_SLAB(KB, VB, S, K, V)                                                                            \
  WEFT_SLAB_CHANGES(, KB, VB, S, K, V, false)                                                           \
  WEFT_SLAB_CHANGES(_multi, KB, VB, S, K, V, true)                                                      \
  WEFT_KERNEL(1) slab_settle_last_##KB##_##VB(SettleParams p) {                                         \
    settle_last<S, K, V>(p, [&](Operation<S>& op) { alter<S>(p.table, op); });                          \
  }                                                                                                     \
  WEFT_KERNEL(1) slab_append_##KB##_##VB(AppendParams p) { append<S, K, V>(p); }                        \
  WEFT_KERNEL(1) slab_tally_##KB##_##VB(TallyParams p) { tally_all<S, K>(p); }                          \
  WEFT_KERNEL(1) slab_collect_##KB##_##VB(CollectParams p) { collect<S, K, V>(p); }

#define WEFT_SLAB_SET(KB, S, K)                                                                         \
  WEFT_SLAB(KB, 0, S, K, K)                                                                             \
  WEFT_SLAB_CHANGES(, KB, 0, S, K, K, false)

WEFT_KERNEL(1) slab_reset(RankParams p) { reset(p); }
WEFT_SLAB_KEYS(32, uint32_t)
WEFT_SLAB_KEYS(64, uint64_t)
WEFT_SLAB_MAP(32, 32, Pair8, uint32_t, uint32_t)
WEFT_SLAB_MAP(32, 64, Pair16, uint32_t, uint64_t)
WEFT_SLAB_MAP(64, 32, Pair16, uint64_t, uint32_t)
WEFT_SLAB_MAP(64, 64, Pair16, uint64_t, uint64_t)
WEFT_SLAB_SET(32, Key4, uint32_t)
WEFT_SLAB_SET(64, Key8, uint64_t)
WEFT_KERNEL(1) slab_chains(ChainParams p) { chains(p); }
WEFT_KERNEL(1) slab_scan_sums(ScanParams p) { scan_sums(p); }
WEFT_KERNEL(1) slab_scan_strips(ScanParams p) { scan_strips(p); }
WEFT_KERNEL(1) slab_scan_offsets(ScanParams p) { scan_offsets(p); }
