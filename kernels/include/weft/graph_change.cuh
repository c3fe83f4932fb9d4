// Batches of edges for a graph (package graph, gpuchange.go). Its arcs, sorted by both ends, are segments of one vertex each,
// in which those of one edge come in the order of the batch. Each launch below does a step for all of them; rows are written anew, to other
// blocks, so that every entry of an old row and every new one finds its place by itself.
#pragma once

#include "graph_table.cuh"
#include "inorder.cuh"
#include "lookback.cuh"
#include "scan.cuh"

namespace weft::graph {

constexpr uint32_t kNone = 0xffffffff;  // the vertex of arcs that have no place in rows
constexpr uint8_t kPut = 1;             // op.Put

// Control is what kernels tell the host, and each other. It is zero before.
struct Control {
  uint64_t changed;    // operations that did something
  uint32_t bad;        // the first operation with a vertex beyond the limit, inverted; 0: there is none
  uint32_t end;        // of the vertices that get records
  uint32_t all;        // of all vertices of the batch
  uint32_t segments;
  uint32_t arcs;       // more than there were
  uint32_t loops;
  uint32_t limbo;      // units of blocks that go to snapshots
  uint32_t crowded;    // not 0: arcs are not sorted yet, since too many have the same leading bits
};

// What becomes of an edge.
constexpr uint8_t kStays = 0;
constexpr uint8_t kAdded = 1;
constexpr uint8_t kUpdated = 2;
constexpr uint8_t kRemoved = 3;

// Arcs is the arcs of a batch, sorted, and what is known of them. n is their number. In a multigraph what is put is added beside what is there,
// and a deletion removes all parallel edges; what a batch removes from a row is said of the first arc of an edge there, and of the last one elsewhere.
struct Arcs {
  const uint64_t* keys;   // source and target, of so many bits each
  const uint32_t* rows;   // operations; if they have two arcs each, twice that, and one more for the second; null if nobody asks for them
  const uint8_t* kinds;   // of operations; may be null
  uint32_t* places;       // in the old row; of an added edge, behind its parallels
  uint32_t* segments;
  uint8_t* nets;
  Control* control;
  uint32_t n;
  uint32_t bits;
  uint32_t kind;          // of all operations, if they have no kinds
  uint32_t two;           // 1: an operation has two arcs
  uint32_t multi;         // 1: a multigraph
  uint32_t empties;       // 1: an arc to the largest number of so many bits, which no vertex has, removes all that a vertex has
};

__device__ __forceinline__ uint32_t source_of(const Arcs& a, uint64_t i) { return uint32_t(a.keys[i] >> a.bits); }
__device__ __forceinline__ uint32_t target(const Arcs& a, uint64_t key) { return uint32_t(key & ((uint64_t(1) << a.bits) - 1)); }
__device__ __forceinline__ uint32_t target_of(const Arcs& a, uint64_t i) { return target(a, a.keys[i]); }
__device__ __forceinline__ bool puts(const Arcs& a, uint64_t i) {
  return (a.kinds ? a.kinds[a.rows[i] >> a.two] : uint8_t(a.kind)) == kPut;
}

// dropped is the key of arcs that have no place in rows, behind all others. No arc has it that has one: from the largest number of so many
// bits to itself, it would be a loop, and where there are loops, no vertex has this number.
__device__ __forceinline__ uint64_t dropped(uint32_t bits) { return bits == 32 ? ~uint64_t(0) : (uint64_t(1) << 2 * bits) - 1; }

// ---- arcs ------------------------------------------------------------------

// Bins are where arcs of a small batch go at once, by the leading bits of their keys: a block orders those of each (graph_few.cuh). All arcs of a vertex are in
// the same one.
struct Bins {
  uint64_t* keys;     // of each bin, as many as it has memory for
  uint32_t* arcs;     // their numbers; null if nobody asks for them
  uint32_t* counts;   // of arcs, kCountStride apart, zero before; null: there are no bins
  uint32_t* crowded;  // not 0: too many for one of them
  uint32_t number;
  uint32_t size;
  uint32_t shift;     // of a key
  uint32_t unused;
};

constexpr uint32_t kCountStride = 8;  // so that adding to one does not wait for others

// put_arc writes the key of an arc to its place, or to a bin.
__device__ __forceinline__ void put_arc(uint64_t* keys, const Bins& b, uint64_t i, uint64_t key) {
  if (!b.counts) {
    keys[i] = key;
    return;
  }
  const uint32_t bin = uint32_t(key >> b.shift);
  if (bin >= b.number) return;  // of a vertex of more bits: the host begins anew
  const uint32_t at = add_relaxed(b.counts + bin * kCountStride, 1u);
  if (at == b.size) add_relaxed(b.crowded, 1u);
  if (at >= b.size) return;
  b.keys[bin * b.size + at] = key;
  if (b.arcs) b.arcs[bin * b.size + at] = uint32_t(i);
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
};

// warp_max is the largest of the numbers of a warp.
__device__ __forceinline__ uint32_t warp_max(uint32_t v) {
  for (uint32_t x = kWarp / 2; x != 0; x /= 2) {
    const uint32_t other = shuffle_xor(kAll, v, x);
    if (other > v) v = other;
  }
  return v;
}

// arcs writes the arcs of operations.
__device__ __forceinline__ void arcs(const ArcsParams& p) {
  uint32_t end = 0, all = 0;
  const uint64_t none = dropped(p.bits);
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const uint32_t u = p.from[i], v = p.to[i], larger = u > v ? u : v;
    const bool bad = larger >= p.limit, stays = !bad && (u != v || p.loops);
    if (bad) {
      max_relaxed(&p.control->bad, ~uint32_t(i));
    } else if (larger >= all) {
      all = larger + 1;
    }
    if (stays && larger >= end && (p.kinds ? p.kinds[i] : uint8_t(p.kind)) == kPut) end = larger + 1;
    put_arc(p.keys, p.bins, i << p.two, stays ? uint64_t(u) << p.bits | v : none);
    if (p.two) put_arc(p.keys, p.bins, 2 * i + 1, stays && u != v ? uint64_t(v) << p.bits | u : none);
  }
  end = warp_max(end);
  all = warp_max(all);
  if (lane_index() == 0 && end != 0) max_relaxed(&p.control->end, end);
  if (lane_index() == 0 && all != 0) max_relaxed(&p.control->all, all);
}

// ---- settle ----------------------------------------------------------------

struct TallyParams {
  Arcs arcs;
  uint32_t* deletions;
};

// tally writes which arcs are deleted: the sum of these tells whether an arc of a multigraph is deleted again further on.
__device__ __forceinline__ void tally(const TallyParams& p) {
  for (uint64_t i = thread_index(); i < p.arcs.n; i += threads_in_grid()) p.deletions[i] = !puts(p.arcs, i);
}

// Scan is what the blocks of a launch need that add up what they find, and a tile is what one of them takes.
struct Scan {
  uint64_t* sums;   // a word for each tile, zero before
  uint64_t* heads;  // the same, where two things are added up
  uint32_t* next;   // zero before
};

constexpr uint32_t kItems = kAhead, kScanTile = kBlock * kItems, kBlockWarps = kBlock / kWarp;
constexpr uint32_t kMostTiles = 4;  // that a block takes together

struct SettleParams {
  Graph graph;
  Arcs arcs;
  Scan scan;
  uint32_t* firsts;           // of segments, as what follows (Rows)
  uint32_t* vertices;
  uint32_t* shifts;
  const uint32_t* deletions;  // before each arc; null: of a batch of one kind, or not of a multigraph
  uint8_t* ok;                // may be null
  uint32_t tiles;             // that a block takes
  uint32_t unused;
};

// Fate is what becomes of an edge, and whether the operation did something.
struct Fate {
  bool done;
  uint8_t net;
  uint32_t at;
  uint32_t delta;
};

// Arc is one of them, and the row that it belongs to.
template <int Bits>
struct Arc {
  uint64_t key;
  Row<Bits> old;
  bool drops, head, tail;  // has no place in rows; is the first or the last of its edge
  bool begins;             // a segment
  bool was;                // there; known of heads and tails that are not of a multigraph
  uint32_t at;             // where, or where it would be
};

// fate finds that of an arc: an operation finds what the one before left, the first what was there.
template <int Bits>
__device__ __forceinline__ Fate fate(const SettleParams& p, const Arc<Bits>& x, uint64_t i) {
  const Arcs& a = p.arcs;
  Fate f = {false, kStays, x.at, 0};
  const bool is = puts(a, i);
  f.done = is != (x.head ? x.was : puts(a, i - 1));
  if (x.tail && is != x.was) {
    f.net = is ? kAdded : kRemoved;
    f.delta = is ? 1 : ~0u;
  } else if (x.tail && is && Shape<Bits>::weighted) {
    f.net = kUpdated;
  }
  return f;
}

// fate_among is fate in a multigraph.
template <int Bits>
__device__ __forceinline__ Fate fate_among(const SettleParams& p, const Arc<Bits>& x, uint64_t i, uint64_t last) {
  const Arcs& a = p.arcs;
  const Row<Bits>& old = x.old;
  const uint64_t end = i + upper_bound(a.keys + i, last - i, x.key);
  const uint32_t v = target_of(a, i), behind = upper_bound(old.ids, old.degree, v), parallels = behind - lower_bound(old.ids, behind, v);
  const bool is = puts(a, i);
  const auto deleted = [&](uint64_t from) { return p.deletions ? p.deletions[end] != p.deletions[from] : !is; };
  Fate f = {is || (x.head ? parallels != 0 : puts(a, i - 1)), kStays, behind, 0};
  if (x.head && parallels != 0 && deleted(i)) {
    f.net = kRemoved;
    f.delta = 0 - parallels;
  } else if (is && !deleted(i + 1)) {
    f.net = kAdded;
    f.delta = 1;
  }
  return f;
}

// emptied is the fate of an arc that removes a whole row.
template <int Bits>
__device__ __forceinline__ Fate emptied(const SettleParams& p, const Row<Bits>& old, uint32_t u) {
  const uint32_t behind = upper_bound(old.ids, old.degree, u), loops = behind - lower_bound(old.ids, behind, u);
  if (loops != 0) add_relaxed(&p.arcs.control->loops, 0 - loops);
  return {false, kRemoved, 0, 0 - old.degree};
}

template <int Bits>
__device__ __forceinline__ bool empties(const Arcs& a, const Arc<Bits>& x) { return a.empties && target(a, x.key) == uint32_t((uint64_t(1) << a.bits) - 1); }

// Span is arcs, beside which there are no others of the same edges.
struct Span {
  uint64_t first, last;
};

// get_arcs reads arcs of a lane, a warp apart, and looks for them in their rows at a time.
template <int Bits>
__device__ __forceinline__ void get_arcs(const SettleParams& p, const Span& all, uint64_t i, Arc<Bits> (&x)[kItems]) {
  const Arcs& a = p.arcs;
  const uint64_t none = dropped(a.bits);
  uint32_t left[kItems], most = 0;
#pragma unroll
  for (uint32_t r = 0; r < kItems; r++, i += kWarp) {
    x[r] = {none, {nullptr, nullptr, 0}, true, false, false, false, false, 0};
    if (i >= all.last) continue;
    const uint64_t key = a.keys[i], before = i != all.first ? a.keys[i - 1] : 0, after = i + 1 < all.last ? a.keys[i + 1] : 0;
    x[r].key = key, x[r].drops = key == none;
    x[r].head = i == all.first || before != key, x[r].tail = i + 1 == all.last || after != key;
    x[r].begins = i == all.first || before >> a.bits != key >> a.bits || (before == none) != x[r].drops;
  }
#pragma unroll
  for (uint32_t r = 0; r < kItems; r++) {
    if (!x[r].drops) x[r].old = row<Bits>(p.graph, uint32_t(x[r].key >> a.bits));
    left[r] = !x[r].drops && (x[r].head || x[r].tail) && !a.multi && !empties(a, x[r]) ? x[r].old.degree : 0;
    most |= left[r];
  }
  while (most != 0) {
    most = 0;
#pragma unroll
    for (uint32_t r = 0; r < kItems; r++) {
      if (left[r] == 0) continue;
      const uint32_t half = left[r] / 2, id = x[r].old.ids[x[r].at + half], v = target(a, x[r].key);
      x[r].was |= id == v;
      x[r].at += id < v ? half + 1 : 0;
      left[r] = id < v ? left[r] - half - 1 : half;
      most |= left[r];
    }
  }
}

// Settled is what settle knows of an arc.
struct Settled {
  uint32_t delta;
  bool done;  // and it is that of which the operation is told
};

template <int Bits>
__device__ __forceinline__ Settled settle_one(const SettleParams& p, const Arc<Bits>& x, uint64_t i, uint64_t last) {
  const Arcs& a = p.arcs;
  const uint32_t u = uint32_t(x.key >> a.bits), v = target(a, x.key);
  Fate f = {false, kStays, 0, 0};
  if (!x.drops && empties(a, x)) {
    f = emptied(p, x.old, u);
  } else if (!x.drops) {
    f = a.multi ? fate_among(p, x, i, last) : fate(p, x, i);
    if (u == v && f.delta != 0) add_relaxed(&a.control->loops, f.delta);
  }
  const bool own = a.rows ? !(a.rows[i] & a.two) : !a.two || u <= v;
  if (own && p.ok) p.ok[a.rows[i] >> a.two] = f.done;
  a.places[i] = f.at;
  a.nets[i] = f.net;
  return {f.delta, own && f.done};
}

// up_to_lane is the sum of v over the lanes up to this one.
__device__ __forceinline__ uint32_t up_to_lane(uint32_t v) {
  const uint32_t lane = lane_index();
#pragma unroll
  for (uint32_t d = 1; d < kWarp; d *= 2) {
    const uint32_t below = shuffle(kAll, v, lane >= d ? lane - d : lane);
    if (lane >= d) v += below;
  }
  return v;
}

// Sums are those of the warps of a block, and of the blocks before, of two things that are added up.
struct Sums {
  prim::Tiles tile;
  uint64_t before;  // of the others
  uint64_t ones[kBlockWarps], others[kBlockWarps];
};

// Both is of two things how many come before a warp, before its block, and up to the end of the block.
struct Both {
  uint32_t before[2], begin[2], up_to[2];
};

// add_up_both adds up what warps have found, each of two warps one of both.
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
  return {{first + below[0], second + below[1]}, {first, second}, {first + all[0], second + all[1]}};
}

constexpr uint32_t kSettled = kMostTiles * kScanTile;  // arcs that a block settles at most

// settle_span decides what becomes of each edge of a block's arcs from one on, and what its operations return; and it finds where segments begin, and adds up by how
// much rows become longer. A warp takes so many times 32 arcs that follow each other, and memory is for two numbers of each.
template <int Bits>
__device__ __forceinline__ Both settle_span(const SettleParams& p, Sums* sums, Shared<uint32_t> memory, uint32_t tile, const Span& all, uint64_t from, uint32_t rows) {
  const Arcs& a = p.arcs;
  const uint32_t lane = lane_index(), warp = thread_in_block() / kWarp, place = warp * rows * kWarp + lane;
  const uint64_t first = from + place;
  const Shared<uint32_t> shifts = memory + place, heads_up_to = memory + kSettled + place;
  uint32_t shift = 0, heads = 0, changed = 0;
  for (uint32_t row = 0; row < rows; row += kItems) {
    Arc<Bits> x[kItems];
    get_arcs(p, all, first + row * kWarp, x);
#pragma unroll
    for (uint32_t r = 0; r < kItems; r++) {
      const uint64_t i = first + (row + r) * kWarp;
      const Settled s = i < all.last ? settle_one(p, x[r], i, all.last) : Settled{0, false};
      const uint32_t begin = ballot(kAll, x[r].begins), sum = up_to_lane(s.delta);
      store_weak(shifts + (row + r) * kWarp, shift + sum - s.delta);
      store_weak(heads_up_to + (row + r) * kWarp, (heads + popcount(begin << (kWarp - 1 - lane))) << 1 | x[r].begins);
      heads += popcount(begin);
      shift += shuffle(kAll, sum, kWarp - 1);
      changed += s.done;
    }
  }
  add_up(&a.control->changed, changed);
  const Both found = add_up_both(sums, p.scan, tile, heads, shift);
  for (uint32_t row = 0; row < rows; row++) {
    const uint64_t i = first + row * kWarp;
    if (i >= all.last) break;
    const uint32_t head = load_weak(heads_up_to + row * kWarp), segment = found.before[0] + (head >> 1) - 1;
    p.shifts[i] = found.before[1] + load_weak(shifts + row * kWarp);
    a.segments[i] = segment;
    if (!(head & 1)) continue;
    p.firsts[segment] = uint32_t(i);
    p.vertices[segment] = a.keys[i] == dropped(a.bits) ? kNone : source_of(a, i);
  }
  return found;
}

// all_settled says what there is in all: a thread of the last block does.
__device__ __forceinline__ void all_settled(const SettleParams& p, const Both& found) {
  p.firsts[found.up_to[0]] = p.arcs.n;
  p.shifts[p.arcs.n] = found.up_to[1];
  p.arcs.control->segments = found.up_to[0];
  p.arcs.control->arcs = found.up_to[1];
}

// settle is settle_span for all arcs.
template <int Bits>
__device__ __forceinline__ void settle(const SettleParams& p) {
  __shared__ Sums sums;
  __shared__ uint32_t memory[2 * kSettled];
  const uint64_t n = p.arcs.n, some = p.tiles * kScanTile;
  const uint32_t tile = prim::begin_tile(&sums.tile, p.scan.next);
  const Both found = settle_span<Bits>(p, &sums, shared(memory), tile, {0, n}, tile * some, p.tiles * kItems);
  if (n - tile * some <= some && thread_in_block() == 0) all_settled(p, found);
}

// ---- plan ------------------------------------------------------------------

// Move is where entries of a row go, so that each of them finds what it needs in one place.
struct alignas(16) Move {
  uint32_t* from;  // ids
  uint32_t* to;
  uint32_t first;  // arcs: from, and up to
  uint32_t last;
  uint32_t shift;  // of the first
  uint32_t how;    // the classes before and then, in bytes, and kNothingStays
};

constexpr uint32_t kNothingStays = 1u << 31;

// Rows is what becomes of the rows of a batch's vertices, one segment of its arcs each.
struct Rows {
  const uint32_t* firsts;   // arcs; behind the last, how many there are
  const uint32_t* vertices;
  const uint32_t* shifts;   // of each arc: sum of the deltas before
  uint32_t* degrees;        // then
  Move* moves;
  uint64_t* olds;           // where the rows before would begin, side by side, and where the last ends
  uint32_t* groups;         // of as many segments as there may be: of their new blocks, and then of the blocks before
  uint32_t* blocks;         // new ones
  uint32_t* slots;          // of the blocks before, among those of their groups
  uint32_t* records;        // new ones
};

// Groups of blocks: the new ones of a class, those before of a class, those before that go to snapshots, and no block.
constexpr uint32_t kOld = kClasses - 1;  // added to the class
constexpr uint32_t kLimbo = kOld + kClasses;
constexpr uint32_t kNoBlock = 255;
static_assert(kLimbo < kNoBlock);

struct PlanParams {
  Graph graph;
  Arcs arcs;
  Rows rows;
  Scan scan;
  uint32_t most;    // segments there may be
  uint32_t held;    // there are snapshots
  uint32_t newest;  // of them
  uint32_t unused;
};

// Part is the arcs of a segment, the sum of the deltas before, and by how much its row becomes longer.
struct Part {
  uint32_t first, last, shift, longer;
};

// Planned is the degree that a row had, and the groups that it is in.
struct Planned {
  uint32_t degree, now, old;
};

// plan_one finds the class of the new row of a vertex, and where the block of the old one goes.
template <int Bits>
__device__ __forceinline__ Planned plan_one(const PlanParams& p, uint32_t i, uint32_t u, const Part& part, uint32_t& limbo) {
  uint32_t c = 0, old = kNoBlock, degree = 0, before = 0;
  uint32_t* from = nullptr;
  if (u != kNone) {
    if (u < p.graph.vertices) {
      uint32_t* record = record_of(p.graph, u);
      const Word128 head = load_weak(reinterpret_cast<const Word128*>(record));
      degree = uint32_t(head.x), before = uint32_t(head.x >> 32);
      from = before != 0 ? block<Bits>(p.graph, uint32_t(head.y), before).ids : record + kInline;
      if (before != 0 && p.held && uint32_t(head.y >> 32) <= p.newest) {
        old = kLimbo;
        limbo += units_of(before);
      } else if (before != 0) {
        old = kOld + before;
      }
    }
    c = class_of<Bits>(degree + part.longer);
  }
  const uint32_t now = c != 0 ? c : kNoBlock;
  const uint32_t* inlined = p.rows.records + uint64_t(i) * kRecordWords + kInline;  // where it goes without a block
  Word128* move = reinterpret_cast<Word128*>(p.rows.moves + i);
  move[0] = {uint64_t(from), uint64_t(inlined)};
  move[1] = {part.first | uint64_t(part.last) << 32, part.shift | uint64_t(before | c << 8 | (degree + part.longer == 0 ? kNothingStays : 0)) << 32};
  p.rows.degrees[i] = degree + part.longer;
  p.rows.groups[i] = now;
  p.rows.groups[p.most + i] = old;
  return {degree, now, old};
}

// plan_any is plan_one of a segment that there may be.
template <int Bits>
__device__ __forceinline__ uint32_t plan_any(const PlanParams& p, uint32_t i, uint32_t& limbo) {
  if (i >= p.arcs.control->segments) {
    p.rows.groups[i] = p.rows.groups[p.most + i] = kNoBlock;
    return 0;
  }
  const uint32_t first = p.rows.firsts[i], last = p.rows.firsts[i + 1], shift = p.rows.shifts[first];
  return plan_one<Bits>(p, i, p.rows.vertices[i], {first, last, shift, p.rows.shifts[last] - shift}, limbo).degree;
}

// plan does so for all, and adds up degrees. Where there are more segments than may be, keys had too few bits, and the host plans again.
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
