// Kernels of package slab: the slab hash of Ashkiani, Farach-Colton and Owens. doc.go explains the
// structure, and layout.go explains the memory. This file uses the same names.
//
// In the paper's warp-cooperative work sharing (section IV-A), each lane has an operation. All
// lanes work on one operation at a time. Here only the lanes of a tile share the work, because four
// lanes read a slab as fast as memory delivers it. The other tiles of the warp work on other
// operations meanwhile. All 32 lanes of a warp execute each warp-wide vote, even if their tiles
// have finished.
#include "search.cuh"
#include "weft/entry.cuh"
#include "whole.cuh"

// ---- entry points ----------------------------------------------------------

// Entry points of maps and sets. Multimaps use some of them, too.
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
