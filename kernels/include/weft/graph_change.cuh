// Batches of edges for a graph (package graph, gpu_change.go). The arcs of a batch are sorted by
// source and target. The arcs of one source form a segment, and the arcs of one edge are in batch
// order. Each launch below does one step for all arcs. Rows are written to other blocks, so each
// old and each new entry finds its place independently.
#pragma once

#include "graph_table.cuh"
#include "inorder.cuh"
#include "lookback.cuh"
#include "scan.cuh"

namespace weft::graph {

constexpr uint32_t kNone = 0xffffffff;  // the vertex of arcs without a place in rows
constexpr uint8_t kPut = 1;             // op.Put

// Control holds what kernels report to the host and to each other. It is zero at first.
struct Control {
  uint64_t changed;    // number of operations that had an effect
  uint32_t bad;        // index of the first insertion beyond the vertex limit, inverted; or 0
  uint32_t end;        // end of the vertices that get records
  uint32_t all;        // end of all vertices of the batch
  uint32_t segments;
  uint32_t arcs;       // growth of the number of arcs
  uint32_t loops;
  uint32_t limbo;      // number of units in blocks that go to snapshots
  uint32_t crowded;    // not 0: arcs are not sorted yet, because a few vertices have too many
  uint32_t granted;    // 1: memory suffices for all rows, and they are written
  uint32_t chunks;     // number of chunks of large rows
};

// The fates of an edge: the net effects of a batch.
constexpr uint8_t kStays = 0;
constexpr uint8_t kAdded = 1;
constexpr uint8_t kUpdated = 2;
constexpr uint8_t kRemoved = 3;

// Arcs holds the n arcs of a batch, sorted, and their results. In a multigraph, an insertion adds a
// parallel edge, and a deletion removes all parallel edges. If a batch removes an edge, this is
// recorded at the first arc of the edge in a multigraph, and at the last arc otherwise.
struct Arcs {
  const uint64_t* keys;   // source and target, `bits` bits each
  // Operation of each arc. If operations have two arcs each, it is twice the operation, plus 1 for
  // the second arc. null if unused.
  const uint32_t* rows;
  const uint8_t* kinds;   // kinds of operations; may be null
  uint32_t* places;       // places in the old row; for an added edge, after its parallel edges
  uint32_t* segments;
  uint8_t* nets;
  Control* control;
  uint32_t n;
  uint32_t bits;
  uint32_t kind;          // kind of all operations, if kinds is null
  uint32_t two;           // 1: an operation has two arcs
  uint32_t multi;         // 1: a multigraph
  // 1: an arc to the largest number of `bits` bits removes all neighbors of its source. No vertex
  // has that number.
  uint32_t empties;
};

__device__ __forceinline__ uint32_t source_of(const Arcs& a, uint64_t i) { return uint32_t(a.keys[i] >> a.bits); }
__device__ __forceinline__ uint32_t target(const Arcs& a, uint64_t key) { return uint32_t(key & ((uint64_t(1) << a.bits) - 1)); }
__device__ __forceinline__ uint32_t target_of(const Arcs& a, uint64_t i) { return target(a, a.keys[i]); }
__device__ __forceinline__ bool puts(const Arcs& a, uint64_t i) {
  return (a.kinds ? a.kinds[a.rows[i] >> a.two] : uint8_t(a.kind)) == kPut;
}

// dropped returns the key of arcs without a place in rows. This key comes after all others, and no
// other arc has it. It would be a loop at the vertex with the largest number of `bits` bits. In
// graphs with loops no vertex has that number.
__device__ __forceinline__ uint64_t dropped(uint32_t bits) { return bits == 32 ? ~uint64_t(0) : (uint64_t(1) << 2 * bits) - 1; }

// ---- arcs ------------------------------------------------------------------

// Bins receive arcs directly, unless a batch has too many. Bin b has the arcs of the vertices from
// b * width on, and a block sorts these arcs (graph_few.cuh). An arc is one word: its source minus
// the first vertex of the bin, its target, and its number in `low` bits. The numbers order the arcs
// of one edge.
struct Bins {
  uint64_t* words;    // arcs of each bin, up to its capacity
  uint32_t* counts;   // arcs per bin, kCountStride apart, zero at first; null: no bins
  uint32_t* crowded;  // not 0: one of the bins has too many arcs
  uint32_t number;
  uint32_t size;
  uint32_t width;
  uint32_t bits;      // bits of a vertex
  uint32_t low;       // bits of an arc's number; 0: arcs have no numbers
  uint32_t unused;
};

constexpr uint32_t kCountStride = 8;  // in words; adding to one count does not wait for others

// gone returns the source of arcs without a place in rows, minus the first vertex of the last bin.
// It comes after all other sources of that bin, because it has more bits than these need.
__device__ __forceinline__ uint64_t gone(const Bins& b) { return (uint64_t(2) << highest(b.width)) - 1; }

// put_arc writes the key of an arc to place i, or adds the arc to a bin.
__device__ __forceinline__ void put_arc(uint64_t* keys, const Bins& b, uint64_t i, uint64_t key) {
  if (!b.counts) {
    keys[i] = key;
    return;
  }
  const uint32_t u = uint32_t(key >> b.bits);
  uint32_t bin = u / b.width;
  uint64_t word = key - (uint64_t(bin) * b.width << b.bits);
  if (key == dropped(b.bits)) {
    bin = b.number - 1;
    word = gone(b) << b.bits;
  }
  if (bin >= b.number) return;  // the vertex is beyond the bins: the host starts over
  const uint32_t at = add_relaxed(b.counts + bin * kCountStride, 1u);
  if (at == b.size) add_relaxed(b.crowded, 1u);
  if (at < b.size) b.words[bin * b.size + at] = word << b.low | (b.low != 0 ? i : 0);
}

struct ArcsParams {
  const uint32_t* from;
  const uint32_t* to;
  const uint8_t* kinds;
  uint64_t* keys;
  Control* control;
  Bins bins;
  uint32_t n;
  uint32_t bits;
  uint32_t limit;
  uint32_t kind;
  uint32_t two;
  uint32_t loops;
  uint32_t known;  // number of vertices that have records; those are not reported
  uint32_t unused;
};

// arcs writes the arcs of operations.
__device__ __forceinline__ void arcs(const ArcsParams& p) {
  uint32_t end = 0, all = 0;
  const uint64_t none = dropped(p.bits);
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t u = load_once(p.from + i), v = load_once(p.to + i), larger = u > v ? u : v;
    const bool beyond = larger >= p.limit, stays = !beyond && (u != v || p.loops);
    const auto puts = [&] { return (p.kinds ? p.kinds[i] : uint8_t(p.kind)) == kPut; };
    if (beyond) {  // such an edge does not exist
      if (puts()) max_relaxed(&p.control->bad, ~uint32_t(i));
    } else if (larger >= all) {
      all = larger + 1;
    }
    if (stays && larger >= end && puts()) end = larger + 1;
    put_arc(p.keys, p.bins, i << p.two, stays ? uint64_t(u) << p.bits | v : none);
    if (p.two) put_arc(p.keys, p.bins, 2 * i + 1, stays && u != v ? uint64_t(v) << p.bits | u : none);
  }
  end = warp_max(end);
  all = warp_max(all);
  if (lane_index() == 0 && end > p.known) max_relaxed(&p.control->end, end);
  if (lane_index() == 0 && all > p.known) max_relaxed(&p.control->all, all);
}

// ---- settle ----------------------------------------------------------------

struct TallyParams {
  Arcs arcs;
  uint32_t* deletions;
};

// tally records which arcs are deletions. In a multigraph, their running sum shows whether a later
// deletion removes an added edge again.
__device__ __forceinline__ void tally(const TallyParams& p) {
  for (uint64_t i = thread_index(); i < p.arcs.n; i += threads_in_grid()) p.deletions[i] = !puts(p.arcs, i);
}

// Scan is the memory in which the blocks of a launch add up their results. A tile is the work of
// one block.
struct Scan {
  uint64_t* sums;   // one word per tile, zero at first
  uint64_t* heads;  // the same for a second sum, if any
  uint32_t* next;   // zero at first
};

constexpr uint32_t kItems = kInFlight, kScanTile = kBlock * kItems, kBlockWarps = kBlock / kWarp;
constexpr uint32_t kMaxTiles = 4;  // maximum number of tiles that a block takes together

struct SettleParams {
  Graph graph;
  Arcs arcs;
  Scan scan;
  uint32_t* firsts;           // as in Rows, like the two following fields
  uint32_t* vertices;
  uint32_t* shifts;
  // Number of deletions before each arc. null for a batch of one kind, or if the graph is not a
  // multigraph.
  const uint32_t* deletions;
  uint8_t* ok;                // may be null
  uint32_t tiles;             // number of tiles that a block takes
  uint32_t unused;
};

// InOrder presents the sorted arcs of a batch to settle: their edges, the numbers of their
// operations, and their places among the arcs.
struct InOrder {
  static constexpr bool kDeltas = false;  // a removal also stores a place
  using Index = uint64_t;
  const Arcs& arcs;
  __device__ __forceinline__ uint64_t edge(Index i) const { return arcs.keys[i]; }
  __device__ __forceinline__ uint32_t source(uint64_t edge) const { return uint32_t(edge >> arcs.bits); }
  __device__ __forceinline__ bool drops(uint64_t edge) const { return edge == dropped(arcs.bits); }
  __device__ __forceinline__ uint32_t row(Index i) const { return arcs.rows[i]; }
  __device__ __forceinline__ bool numbered() const { return arcs.rows != nullptr; }
  __device__ __forceinline__ uint64_t place(Index i) const { return i; }
};

// puts reports whether the operation of an arc is an insertion.
template <class In>
__device__ __forceinline__ bool puts(const Arcs& a, const In& in, typename In::Index i) {
  return (a.kinds ? a.kinds[in.row(i) >> a.two] : uint8_t(a.kind)) == kPut;
}

// NetEffect is the fate of an edge, and whether the operation had an effect.
struct NetEffect {
  bool done;
  uint8_t net;
  uint32_t at;
  uint32_t delta;
};

// Arc is an arc and the row that it belongs to.
template <int Bits>
struct Arc {
  uint64_t edge;
  uint32_t u, v;
  Row<Bits> old;
  bool drops, head, tail;  // has no place in rows; is the first or the last of its edge
  bool begins;             // the arc begins a segment
  bool was;                // the edge was present; set for heads and tails, except in a multigraph
  uint32_t at;             // the place of the edge, or the place for insertion
};

// resolve_op returns the fate of an arc. An operation starts from the state that the previous
// operation on the edge left. The first one starts from the old row.
template <int Bits, class In>
__device__ __forceinline__ NetEffect resolve_op(const Arcs& a, const In& in, const Arc<Bits>& x, typename In::Index i) {
  NetEffect f = {false, kStays, x.at, 0};
  const bool is = puts(a, in, i);
  f.done = is != (x.head ? x.was : puts(a, in, i - 1));
  if (x.tail && is != x.was) {
    f.net = is ? kAdded : kRemoved;
    f.delta = is ? 1 : ~0u;
  } else if (x.tail && is && Shape<Bits>::weighted) {
    f.net = kUpdated;
  }
  return f;
}

// edge_end returns the first arc in [i,last) of another edge.
template <class In>
__device__ __forceinline__ typename In::Index edge_end(const In& in, typename In::Index i, typename In::Index last, uint64_t edge) {
  while (i < last) {
    const typename In::Index mid = i + (last - i) / 2;
    if (in.edge(mid) <= edge)
      i = mid + 1;
    else
      last = mid;
  }
  return i;
}

// fate_among is resolve_op in a multigraph. deletions holds the number of deletions before each
// arc. It is null for a batch of one kind.
template <int Bits, class In>
__device__ __forceinline__ NetEffect fate_among(const Arcs& a, const In& in, const uint32_t* deletions, const Arc<Bits>& x, typename In::Index i, typename In::Index last) {
  const Row<Bits>& old = x.old;
  const uint64_t end = edge_end(in, i, last, x.edge);
  const uint32_t v = x.v, behind = upper_bound(old.ids, old.degree, v), parallels = behind - lower_bound(old.ids, behind, v);
  const bool is = puts(a, in, i);
  const auto deleted = [&](uint64_t from) { return deletions ? deletions[end] != deletions[from] : !is; };
  NetEffect f = {is || (x.head ? parallels != 0 : puts(a, in, i - 1)), kStays, behind, 0};
  if (x.head && parallels != 0 && deleted(i)) {
    f.net = kRemoved;
    f.delta = 0 - parallels;
  } else if (is && !deleted(i + 1)) {
    f.net = kAdded;
    f.delta = 1;
  }
  return f;
}

// emptied returns the fate of an arc that removes a whole row.
template <int Bits>
__device__ __forceinline__ NetEffect emptied(const Arcs& a, const Row<Bits>& old, uint32_t u) {
  const uint32_t behind = upper_bound(old.ids, old.degree, u), loops = behind - lower_bound(old.ids, behind, u);
  if (loops != 0) add_relaxed(&a.control->loops, 0 - loops);
  return {false, kRemoved, 0, 0 - old.degree};
}

template <int Bits>
__device__ __forceinline__ bool empties(const Arcs& a, const Arc<Bits>& x) { return a.empties && x.v == uint32_t((uint64_t(1) << a.bits) - 1); }

// get_arcs reads up to kItems arcs per lane, a warp apart. It searches for all of these in their
// rows at the same time.
template <int Bits, class In>
__device__ __forceinline__ void get_arcs(const Graph& g, const Arcs& a, const In& in, typename In::Index n, typename In::Index i, uint32_t rows, Arc<Bits> (&x)[kItems]) {
  uint32_t left[kItems], most = 0;
#pragma unroll
  for (uint32_t r = 0; r < kItems; r++, i += kWarp) {
    x[r] = {0, 0, 0, {nullptr, nullptr, 0}, true, false, false, false, false, 0};
    if (i >= n || r >= rows) continue;
    const uint64_t edge = in.edge(i), before = i != 0 ? in.edge(i - 1) : 0, after = i + 1 < n ? in.edge(i + 1) : 0;
    x[r].edge = edge, x[r].u = in.source(edge), x[r].v = target(a, edge), x[r].drops = in.drops(edge);
    x[r].head = i == 0 || before != edge, x[r].tail = i + 1 == n || after != edge;
    x[r].begins = i == 0 || in.source(before) != x[r].u || in.drops(before) != x[r].drops;
  }
#pragma unroll
  for (uint32_t r = 0; r < kItems; r++) {
    if (!x[r].drops) x[r].old = row<Bits>(g, x[r].u);
    left[r] = !x[r].drops && (x[r].head || x[r].tail) && !a.multi && !empties(a, x[r]) ? x[r].old.degree : 0;
    most |= left[r];
  }
  while (most != 0) {
    most = 0;
#pragma unroll
    for (uint32_t r = 0; r < kItems; r++) {
      if (left[r] == 0) continue;
      const uint32_t half = left[r] / 2, id = x[r].old.ids[x[r].at + half], v = x[r].v;
      x[r].was |= id == v;
      x[r].at += id < v ? half + 1 : 0;
      left[r] = id < v ? left[r] - half - 1 : half;
      most |= left[r];
    }
  }
}

// Settled is the result of settle_one for an arc.
struct Settled {
  uint32_t delta;
  bool done;  // the operation had an effect, and this arc reports it
};

// settle_one determines the fate of an arc, and reports the result of the operation. deletions is
// as in fate_among. ok may be null.
template <int Bits, class In>
__device__ __forceinline__ Settled settle_one(const Arcs& a, const In& in, const uint32_t* deletions, uint8_t* ok, const Arc<Bits>& x, typename In::Index i, typename In::Index last) {
  const uint32_t u = x.u, v = x.v;
  NetEffect f = {false, kStays, 0, 0};
  if (!x.drops && empties(a, x)) {
    f = emptied(a, x.old, u);
  } else if (!x.drops) {
    f = a.multi ? fate_among(a, in, deletions, x, i, last) : resolve_op(a, in, x, i);
    if (u == v && f.delta != 0) add_relaxed(&a.control->loops, f.delta);
  }
  const bool own = in.numbered() ? !(in.row(i) & a.two) : !a.two || u <= v;
  if (own && ok) ok[in.row(i) >> a.two] = f.done;
  a.places[in.place(i)] = In::kDeltas && f.net == kRemoved ? f.delta : f.at;
  a.nets[in.place(i)] = f.net;
  return {f.delta, own && f.done};
}

// Sums holds two sums of each warp of a block, and both sums of the blocks before it.
struct Sums {
  prim::Tiles tile;
  uint64_t before;  // sum of `others` in the blocks before
  uint64_t ones[kBlockWarps], others[kBlockWarps];
};

// Both holds the values of two sums: before a warp, and up to the end of its block.
struct Both {
  uint32_t before[2], up_to[2];
};

// add_up_both adds up two results of each warp over all blocks. One warp adds up the first result,
// another warp the second.
__device__ __forceinline__ Both add_up_both(Sums* s, const Scan& scan, uint32_t tile, uint32_t one, uint32_t other) {
  const uint32_t lane = lane_index(), warp = thread_in_block() / kWarp;
  if (lane == 0) store_weak(shared(s->ones) + warp, uint64_t(one)), store_weak(shared(s->others) + warp, uint64_t(other));
  sync_block();
  uint32_t below[2] = {}, all[2] = {};
#pragma unroll
  for (uint32_t w = 0; w < kBlockWarps; w++) {
    const uint32_t x = uint32_t(load_weak(shared(s->ones) + w)), y = uint32_t(load_weak(shared(s->others) + w));
    all[0] += x, all[1] += y;
    if (w < warp) below[0] += x, below[1] += y;
  }
  if (warp == 0) {
    const uint64_t sum = prim::sum_before(scan.heads, tile, all[0]);
    if (lane == 0) store_weak(shared(&s->tile.before), sum);
  } else if (warp == 1) {
    const uint64_t sum = prim::sum_before(scan.sums, tile, all[1]);
    if (lane == 0) store_weak(shared(&s->before), sum);
  }
  sync_block();
  const uint32_t first = uint32_t(load_weak(shared(&s->tile.before))), second = uint32_t(load_weak(shared(&s->before)));
  return {{first + below[0], second + below[1]}, {first + all[0], second + all[1]}};
}

constexpr uint32_t kSettled = kMaxTiles * kScanTile;  // maximum number of arcs per block

// all_settled stores the totals, in a thread of the last block.
__device__ __forceinline__ void all_settled(const SettleParams& p, const Both& found) {
  p.firsts[found.up_to[0]] = p.arcs.n;
  p.shifts[p.arcs.n] = found.up_to[1];
  p.arcs.control->segments = found.up_to[0];
  p.arcs.control->arcs = found.up_to[1];
}

// settle determines the fate of each edge of a block's arcs, and the results of the operations. It
// also finds where segments begin, and adds up the growth of rows. A warp takes consecutive groups
// of 32 arcs.
template <int Bits>
__device__ __forceinline__ void settle(const SettleParams& p) {
  __shared__ Sums sums;
  __shared__ uint32_t shared_memory[2 * kSettled];
  const Arcs& a = p.arcs;
  const uint32_t tile = prim::begin_tile(&sums.tile, p.scan.next), rows = p.tiles * kItems;
  const uint32_t lane = lane_index(), warp = thread_in_block() / kWarp, place = warp * rows * kWarp + lane;
  const uint64_t from = uint64_t(tile) * p.tiles * kScanTile, first = from + place;
  const Shared<uint32_t> shifts = shared(shared_memory) + place, heads_up_to = shared(shared_memory) + kSettled + place;
  const InOrder in = {a};
  uint32_t shift = 0, heads = 0, changed = 0;
  for (uint32_t row = 0; row < rows; row += kItems) {
    Arc<Bits> x[kItems];
    get_arcs<Bits>(p.graph, a, in, uint64_t(a.n), first + row * kWarp, kItems, x);
#pragma unroll
    for (uint32_t r = 0; r < kItems; r++) {
      const uint64_t i = first + (row + r) * kWarp;
      const Settled s = i < a.n ? settle_one<Bits>(a, in, p.deletions, p.ok, x[r], i, a.n) : Settled{0, false};
      const uint32_t begin = ballot(kAll, x[r].begins), sum = running(s.delta);
      store_weak(shifts + (row + r) * kWarp, shift + sum - s.delta);
      store_weak(heads_up_to + (row + r) * kWarp, (heads + popcount(begin << (kWarp - 1 - lane))) << 1 | x[r].begins);
      heads += popcount(begin);
      shift += shuffle(kAll, sum, kWarp - 1);
      changed += s.done;
    }
  }
  add_warp_sum(&a.control->changed, changed);
  const Both found = add_up_both(&sums, p.scan, tile, heads, shift);
  for (uint32_t row = 0; row < rows; row++) {
    const uint64_t i = first + row * kWarp;
    if (i >= a.n) break;
    const uint32_t head = load_weak(heads_up_to + row * kWarp), segment = found.before[0] + (head >> 1) - 1;
    p.shifts[i] = found.before[1] + load_weak(shifts + row * kWarp);
    a.segments[i] = segment;
    if (!(head & 1)) continue;
    p.firsts[segment] = uint32_t(i);
    p.vertices[segment] = a.keys[i] == dropped(a.bits) ? kNone : source_of(a, i);
  }
  if (a.n - from <= p.tiles * kScanTile && thread_in_block() == 0) all_settled(p, found);
}

// ---- plan ------------------------------------------------------------------

// Move describes where the entries of a row go. All that an entry needs is in one place.
struct alignas(16) Move {
  uint32_t* from;  // ids of the old row
  uint32_t* to;
  uint32_t first;  // arcs [first,last)
  uint32_t last;
  uint32_t shift;  // shift of the first arc
  uint32_t how;    // old class, new class (one byte each), and kNothingStays
};

constexpr uint32_t kNothingStays = 1u << 31;

// Rows describes the rows of a batch's vertices. Each row has one segment of arcs.
struct Rows {
  const uint32_t* firsts;   // first arc of each segment; after the last, the number of arcs
  const uint32_t* vertices;
  const uint32_t* shifts;   // per arc: sum of the deltas before it
  uint32_t* degrees;        // degrees after the batch
  Move* moves;
  uint64_t* olds;           // offsets of the old rows if these were contiguous, and their end
  // Groups of the new blocks, for the maximum number of segments, and then groups of the old
  // blocks.
  uint32_t* groups;
  uint32_t* blocks;         // new blocks
  uint32_t* slots;          // indexes of the old blocks within their groups
  uint32_t* records;        // new records
};

// Groups of blocks: the new blocks of each class, the old blocks of each class, the old blocks that
// go to snapshots, and no block.
constexpr uint32_t kOld = kClasses - 1;  // added to the class
constexpr uint32_t kRetired = kOld + kClasses;
constexpr uint32_t kNoBlock = 255;
static_assert(kRetired < kNoBlock);

struct PlanParams {
  Graph graph;
  Arcs arcs;
  Rows rows;
  Scan scan;
  uint32_t most;    // maximum number of segments
  uint32_t held;    // snapshots are held
  uint32_t newest;  // the newest snapshot
  uint32_t unused;
};

// Part describes a segment: its arcs [first,last), the sum of the deltas before it, and the growth
// of its row.
struct Part {
  uint32_t first, last, shift, longer;
};

// Planned describes an old and a new row: degrees and classes, the group of the old block, and the
// address of the old ids.
struct Planned {
  uint32_t degree, then, before, now, old;
  uint32_t* from;
};

// plan_row finds the class of the new row of a vertex, which grows by `longer` entries, and the
// group of the old block. newest is the newest snapshot, if snapshots are held.
template <int Bits>
__device__ __forceinline__ Planned plan_row(const Graph& g, uint32_t u, uint32_t longer, bool held, uint32_t newest, uint32_t& limbo) {
  Planned x = {0, 0, 0, 0, kNoBlock, nullptr};
  if (u == kNone) return x;
  if (u < g.vertices) {
    uint32_t* record = record_of(g, u);
    const Word128 head = load_weak(reinterpret_cast<const Word128*>(record));
    x.degree = uint32_t(head.x), x.before = uint32_t(head.x >> 32);
    x.from = x.before != 0 ? block<Bits>(g, uint32_t(head.y), x.before).ids : record + kInline;
    if (x.before != 0 && held && uint32_t(head.y >> 32) <= newest) {
      x.old = kRetired;
      limbo += units_of(x.before);
    } else if (x.before != 0) {
      x.old = kOld + x.before;
    }
  }
  x.then = x.degree + longer;
  x.now = class_of<Bits>(x.then);
  return x;
}

// plan_one plans the row of a segment, and returns the degree of the old row.
template <int Bits>
__device__ __forceinline__ uint32_t plan_one(const PlanParams& p, uint32_t i, uint32_t u, const Part& part, uint32_t& limbo) {
  const Planned x = plan_row<Bits>(p.graph, u, part.longer, p.held, p.newest, limbo);
  // The place of the row if it has no block.
  const uint32_t* inlined = p.rows.records + uint64_t(i) * kRecordWords + kInline;
  Word128* move = reinterpret_cast<Word128*>(p.rows.moves + i);
  move[0] = {uint64_t(x.from), uint64_t(inlined)};
  move[1] = {part.first | uint64_t(part.last) << 32, part.shift | uint64_t(x.before | x.now << 8 | (x.then == 0 ? kNothingStays : 0)) << 32};
  p.rows.degrees[i] = x.then;
  p.rows.groups[i] = x.now != 0 ? x.now : kNoBlock;
  p.rows.groups[p.most + i] = x.old;
  return x.degree;
}

// plan_any is plan_one for a segment that may not exist.
template <int Bits>
__device__ __forceinline__ uint32_t plan_any(const PlanParams& p, uint32_t i, uint32_t& limbo) {
  if (i >= p.arcs.control->segments) {
    p.rows.groups[i] = p.rows.groups[p.most + i] = kNoBlock;
    return 0;
  }
  const uint32_t first = p.rows.firsts[i], last = p.rows.firsts[i + 1], shift = p.rows.shifts[first];
  return plan_one<Bits>(p, i, p.rows.vertices[i], {first, last, shift, p.rows.shifts[last] - shift}, limbo);
}

// plan plans the rows of all segments, and adds up the old degrees. If more segments exist than the
// maximum, keys had too few bits, and the host plans again.
template <int Bits>
__device__ __forceinline__ void plan(const PlanParams& p) {
  __shared__ prim::Tiles shared_tile;
  __shared__ uint64_t shared_sums[kBlockWarps];
  const uint32_t tile = prim::begin_tile(&shared_tile, p.scan.next), lane = lane_index(), warp = thread_in_block() / kWarp;
  const uint32_t first = tile * kScanTile + warp * kItems * kWarp + lane;
  uint64_t olds[kItems], sum = 0;
  uint32_t limbo = 0;
#pragma unroll
  for (uint32_t r = 0; r < kItems; r++) {
    const uint32_t i = first + r * kWarp;
    const uint64_t degree = i < p.most ? plan_any<Bits>(p, i, limbo) : 0, up_to = running(degree);
    olds[r] = sum + up_to - degree;
    sum += shuffle(kAll, up_to, kWarp - 1);
  }
  uint64_t total;
  const uint64_t before = prim::block_before<kBlockWarps>(&shared_tile, shared(shared_sums), p.scan.sums, tile, sum, total);
#pragma unroll
  for (uint32_t r = 0; r < kItems; r++) {
    const uint32_t i = first + r * kWarp;
    if (i < p.most) p.rows.olds[i] = before + olds[r];
  }
  if (p.most - tile * kScanTile <= kScanTile && thread_in_block() == 0) p.rows.olds[p.most] = total;
  if (p.held && limbo != 0) add_relaxed(&p.arcs.control->limbo, limbo);
}

}  // namespace weft::graph
