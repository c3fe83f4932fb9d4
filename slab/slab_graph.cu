// Kernels for graphs of package slab: the kernels of tables, with arcs as keys, and kernels for
// vertices.
#include "close.cuh"
#include "edges.cuh"
#include "graph.cuh"
#include "weft/entry.cuh"

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::slab;
using K = uint64_t;
#if WEFT_VALUE_BITS
using V = uint32_t;
using S = ArcPair;
#else
using V = uint64_t;  // unused
using S = ArcOnly;
#endif

WEFT_KERNEL(slab_graph_find, kGetBlocks)(weft::slab::FindParams p) { find_arcs<S, K, V>(p); }
WEFT_KERNEL(slab_graph_change, kChangeBlocks)(ChangeParams<Graph> p) { change_arcs<S, K, V>(p); }
WEFT_KERNEL(slab_graph_check, 1)(PlainParams p) { check(p); }
#if !WEFT_VALUE_BITS
WEFT_KERNEL(slab_graph_insert, kChangeBlocks)(PlainParams p) { insert<S>(p); }
#else
WEFT_KERNEL(slab_graph_winners_last, 1)(WinnersParams<Graph> p) {
  winners_last<S, K, V>(p.winners, p.table.table.counters, [&](Operation<S>& op) { change_winner<S, K>(p, op); });
}
#endif
WEFT_KERNEL(slab_graph_erase, kChangeBlocks)(PlainParams p) { erase<S>(p); }
WEFT_KERNEL(slab_graph_winners_first, 1)(WinnersParams<Graph> p) {
  winners_first<S, K, V>(p.winners, [&](Operation<S>& op) { change_one<S>(p.table, op); });
}
WEFT_KERNEL(slab_graph_export, 1)(ExportParams<Graph> p) { export_live<S, K, V>(p); }
WEFT_KERNEL(slab_graph_renew, 1)(RenewParams p) { rehash<S>(p); }
WEFT_KERNEL(slab_graph_arcs, 1)(EdgesParams p) { arcs(p); }
WEFT_KERNEL(slab_graph_pick, 1)(EdgesParams p) { pick(p); }
WEFT_KERNEL(slab_graph_count, 1)(RoomParams p) { count_batch(p); }
WEFT_KERNEL(slab_graph_sweep, 1)(RoomParams p) { sweep(p); }
WEFT_KERNEL(slab_graph_forget, 1)(RoomParams p) { forget(p); }
WEFT_KERNEL(slab_graph_plan, 1)(RoomParams p) { plan(p); }
WEFT_KERNEL(slab_graph_move, 1)(RoomParams p) { weft::slab::move<S>(p); }
WEFT_KERNEL(slab_graph_settle, 1)(RoomParams p) { settle<S>(p); }
WEFT_KERNEL(slab_graph_measure, 1)(RoomParams p) { measure(p); }
WEFT_KERNEL(slab_graph_hand, 1)(RoomParams p) { hand(p); }
WEFT_KERNEL(slab_graph_doom, 1)(DoomedParams p) { doom(p); }
WEFT_KERNEL(slab_graph_sever, 1)(DoomedParams p) { sever<S>(p); }
WEFT_KERNEL(slab_graph_degrees, 1)(RowsParams p) { degrees(p); }
WEFT_KERNEL(slab_graph_rows, 1)(RowsParams p) { rows<S>(p); }
WEFT_KERNEL(slab_graph_close, kGetBlocks)(CloseParams p) { weft::slab::close<S>(p); }
