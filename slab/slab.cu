// Kernels of package slab: the slab hash of Ashkiani, Farach-Colton and Owens. doc.go explains the
// structure, layout.go the memory; this file keeps their names.
//
// The paper's warp-cooperative work sharing (section IV-A) gives each lane an operation, and all
// lanes work on one at a time. Here the lanes of a tile share the work, not the whole warp, since
// four lanes read a slab as fast as memory delivers it. The other tiles of the warp work on other
// operations meanwhile. All lanes of a warp stay together: each warp-wide vote is executed by all
// 32, with finished tiles taking part idle.
#include "search.cuh"
#include "weft/entry.cuh"
#include "whole.cuh"

// ---- entry points ----------------------------------------------------------

// Entry points of maps and sets; multimaps need some of them, too.
using namespace weft;
using namespace weft::slab;
WEFT_SHARED_WIDTHS;

WEFT_KERNEL(slab_get, kGetBlocks)(GetParams<Table> p) { get<S, K, V, false>(p); }
WEFT_KERNEL(slab_change, kChangeBlocks)(ChangeParams<Table> p) { change_batch<S, K, V, false>(p); }
WEFT_DUPLICATES(slab)
WEFT_KERNEL(slab_export, 1)(ExportParams<Table> p) { export_live<S, K, V>(p); }
WEFT_KERNEL(slab_flush, 1)(FlushParams p) { flush<S>(p); }
WEFT_KERNEL(slab_rehash, 1)(RehashParams p) { rehash<S>(p); }
WEFT_KERNEL(slab_chains, 1)(ChainParams p) { chains(p); }
