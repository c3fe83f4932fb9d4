// Kernels of multimaps, in which a key has any number of pairs. slab.cu has the kernels that
// multimaps share with maps.
#include "change.cuh"
#include "search.cuh"
#include "weft/entry.cuh"

using namespace weft;
using namespace weft::slab;
WEFT_WIDTHS;

WEFT_KERNEL(slab_multi_get, kGetBlocks)(GetParams<Table> p) { get<S, K, V, true>(p); }
WEFT_KERNEL(slab_multi_change, kMultiBlocks)(ChangeParams<Table> p) { change_batch<S, K, V, true>(p); }
WEFT_KERNEL(slab_multi_append, 1)(ChangeParams<Table> p) { append<S, K, V>(p); }
WEFT_KERNEL(slab_multi_tally, 1)(TallyParams p) { tally_all<S, K>(p); }
WEFT_KERNEL(slab_multi_collect, 1)(CollectParams p) { collect<S, K, V>(p); }
