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

struct ArcsParams {
  const uint32_t* from;
  const uint32_t* to;
  const uint8_t* kinds;
  uint64_t* keys;
  Control* control;
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
    p.keys[i << p.two] = stays ? uint64_t(u) << p.bits | v : none;
    if (p.two) p.keys[2 * i + 1] = stays && u != v ? uint64_t(v) << p.bits | u : none;
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
__device__ __forceinline__ Fate fate_among(const SettleParams& p, const Row<Bits>& old, uint64_t i) {
  const Arcs& a = p.arcs;
  const uint64_t key = a.keys[i], end = i + upper_bound(a.keys + i, a.n - i, key);
  const uint32_t v = target_of(a, i), behind = upper_bound(old.ids, old.degree, v), parallels = behind - lower_bound(old.ids, behind, v);
  const bool head = i == 0 || a.keys[i - 1] != key, is = puts(a, i);
  const auto deleted = [&](uint64_t from) { return p.deletions ? p.deletions[end] != p.deletions[from] : !is; };
  Fate f = {is || (head ? parallels != 0 : puts(a, i - 1)), kStays, behind, 0};
  if (head && parallels != 0 && deleted(i)) {
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

// get_arcs reads arcs of a lane, a warp apart, and looks for them in their rows at a time.
template <int Bits>
__device__ __forceinline__ void get_arcs(const SettleParams& p, uint64_t i, Arc<Bits> (&x)[kItems]) {
  const Arcs& a = p.arcs;
  const uint64_t none = dropped(a.bits);
  uint32_t left[kItems], most = 0;
#pragma unroll
  for (uint32_t r = 0; r < kItems; r++, i += kWarp) {
    x[r] = {none, {nullptr, nullptr, 0}, true, false, false, false, false, 0};
    if (i >= a.n) continue;
    const uint64_t key = a.keys[i], before = i != 0 ? a.keys[i - 1] : 0, after = i + 1 < a.n ? a.keys[i + 1] : 0;
    x[r].key = key, x[r].drops = key == none;
    x[r].head = i == 0 || before != key, x[r].tail = i + 1 == a.n || after != key;
    x[r].begins = i == 0 || before >> a.bits != key >> a.bits || (before == none) != x[r].drops;
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
__device__ __forceinline__ Settled settle_one(const SettleParams& p, const Arc<Bits>& x, uint64_t i) {
  const Arcs& a = p.arcs;
  const uint32_t u = uint32_t(x.key >> a.bits), v = target(a, x.key);
  Fate f = {false, kStays, 0, 0};
  if (!x.drops && empties(a, x)) {
    f = emptied(p, x.old, u);
  } else if (!x.drops) {
    f = a.multi ? fate_among(p, x.old, i) : fate(p, x, i);
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

// add_up_both adds up what warps have found, each of two warps one of both: before becomes what comes before this warp, and it returns what comes up to the
// end of the block.
__device__ __forceinline__ void add_up_both(Sums* s, const Scan& scan, uint32_t tile, uint32_t one, uint32_t other, uint32_t (&before)[2], uint32_t (&up_to)[2]) {
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
  before[0] = first + below[0], before[1] = second + below[1];
  up_to[0] = first + all[0], up_to[1] = second + all[1];
}

// settle decides what becomes of each edge, and what its operations return; and it finds where segments begin, and adds up by how much rows become longer. A warp
// takes arcs that follow each other.
template <int Bits>
__device__ __forceinline__ void settle(const SettleParams& p) {
  const Arcs& a = p.arcs;
  __shared__ Sums sums;
  __shared__ uint32_t shared_shifts[kMostTiles * kScanTile], shared_heads[kMostTiles * kScanTile];
  const uint32_t tile = prim::begin_tile(&sums.tile, p.scan.next), lane = lane_index(), warp = thread_in_block() / kWarp;
  const uint32_t rows = p.tiles * kItems, place = warp * rows * kWarp + lane;
  const uint64_t first = uint64_t(tile) * p.tiles * kScanTile + place;
  const Shared<uint32_t> shifts = shared(shared_shifts) + place, heads_up_to = shared(shared_heads) + place;
  uint32_t shift = 0, heads = 0, changed = 0;
  for (uint32_t row = 0; row < rows; row += kItems) {
    Arc<Bits> x[kItems];
    get_arcs(p, first + row * kWarp, x);
#pragma unroll
    for (uint32_t r = 0; r < kItems; r++) {
      const uint64_t i = first + (row + r) * kWarp;
      const Settled s = i < a.n ? settle_one(p, x[r], i) : Settled{0, false};
      const uint32_t begin = ballot(kAll, x[r].begins), sum = up_to_lane(s.delta);
      store_weak(shifts + (row + r) * kWarp, shift + sum - s.delta);
      store_weak(heads_up_to + (row + r) * kWarp, (heads + popcount(begin << (kWarp - 1 - lane))) << 1 | x[r].begins);
      heads += popcount(begin);
      shift += shuffle(kAll, sum, kWarp - 1);
      changed += s.done;
    }
  }
  add_up(&a.control->changed, changed);
  uint32_t before[2], up_to[2];
  add_up_both(&sums, p.scan, tile, heads, shift, before, up_to);
  for (uint32_t row = 0; row < rows; row++) {
    const uint64_t i = first + row * kWarp;
    if (i >= a.n) break;
    const uint32_t head = load_weak(heads_up_to + row * kWarp), segment = before[0] + (head >> 1) - 1;
    p.shifts[i] = before[1] + load_weak(shifts + row * kWarp);
    a.segments[i] = segment;
    if (!(head & 1)) continue;
    p.firsts[segment] = uint32_t(i);
    p.vertices[segment] = a.keys[i] == dropped(a.bits) ? kNone : source_of(a, i);
  }
  if (a.n - uint64_t(tile) * p.tiles * kScanTile <= p.tiles * kScanTile && thread_in_block() == 0) {
    p.firsts[up_to[0]] = a.n;
    p.shifts[a.n] = up_to[1];
    a.control->segments = up_to[0];
    a.control->arcs = up_to[1];
  }
}

// ---- plan ------------------------------------------------------------------

// Rows is what becomes of the rows of a batch's vertices, one segment of its arcs each.
struct Rows {
  const uint32_t* firsts;   // arcs; behind the last, how many there are
  const uint32_t* vertices;
  const uint32_t* shifts;   // of each arc: sum of the deltas before
  uint32_t* degrees;        // before
  uint64_t* olds;           // where the rows before would begin, side by side, and where the last ends
  uint32_t* groups;         // of as many segments as there may be: of their new blocks, and then of the blocks before
  uint32_t* blocks;         // new ones
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

__device__ __forceinline__ uint32_t degree_then(const Rows& r, uint32_t i) {
  return r.degrees[i] + r.shifts[r.firsts[i + 1]] - r.shifts[r.firsts[i]];
}

// plan_one finds the class of a new row, and where the block of the old one goes. It returns the degree that was.
template <int Bits>
__device__ __forceinline__ uint32_t plan_one(const PlanParams& p, uint32_t i, uint32_t& limbo) {
  uint32_t c = 0, old = kNoBlock, degree = 0;
  const uint32_t u = i < p.arcs.control->segments ? p.rows.vertices[i] : kNone;
  if (u != kNone) {
    if (u < p.graph.vertices) {
      const uint32_t* record = record_of(p.graph, u);
      degree = record[kDegree];
      const uint32_t before = record[kClass];
      if (before != 0 && p.held && record[kBorn] <= p.newest) {
        old = kLimbo;
        limbo += units_of(before);
      } else if (before != 0) {
        old = kOld + before;
      }
    }
    c = class_of<Bits>(degree + p.rows.shifts[p.rows.firsts[i + 1]] - p.rows.shifts[p.rows.firsts[i]]);
  }
  p.rows.degrees[i] = degree;
  p.rows.groups[i] = c != 0 ? c : kNoBlock;
  p.rows.groups[p.most + i] = old;
  return degree;
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
    const uint64_t degree = i < p.most ? plan_one<Bits>(p, i, limbo) : 0, up_to = running(degree);
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

// ---- blocks ----------------------------------------------------------------

// Stack is the free blocks of a class, and where new ones of a batch come from: block r is number top-1-r of the stack as long
// as r is less than taken, and then from a unit on, one behind the other.
struct Stack {
  uint32_t* at;
  uint32_t top;
  uint32_t taken;
  uint32_t base;
  uint32_t unused;
};

// Sorted is segments by a group, stably: where each group begins, the groups, and the segments.
struct Sorted {
  const uint32_t* firsts;
  const uint32_t* groups;
  const uint32_t* segments;
};

struct PlaceParams {
  Sorted sorted;
  const Stack* stacks;
  uint32_t* blocks;
};

// place gives rows their blocks.
__device__ __forceinline__ void place(const PlaceParams& p) {
  for (uint64_t i = thread_index(); i < p.sorted.firsts[kClasses]; i += threads_in_grid()) {
    const uint32_t c = p.sorted.groups[i], r = uint32_t(i) - p.sorted.firsts[c];
    const Stack s = p.stacks[c];
    p.blocks[p.sorted.segments[i]] = r < s.taken ? s.at[s.top - 1 - r] : s.base + (r - s.taken) * units_of(c);
  }
}

// Ghost is a block that only snapshots have.
struct Ghost {
  uint32_t block;
  uint32_t size;  // its class
  uint32_t born;
  uint32_t died;
};

struct WriteParams {
  Graph graph;
  Arcs arcs;
  Rows rows;
  Sorted sorted;
  const Stack* stacks;
  Ghost* ghosts;
  const void* weights;   // of operations
  uint64_t* present;     // vertices that are there
  uint32_t segments;
  uint32_t most;         // segments there might have been
  uint32_t epoch;
  uint32_t directed;
};

// release frees the blocks that rows had, or leaves them to snapshots.
__device__ __forceinline__ void release(const WriteParams& p) {
  const uint32_t* firsts = p.sorted.firsts;
  for (uint64_t i = firsts[kOld + 1] + thread_index(); i < firsts[kNoBlock]; i += threads_in_grid()) {
    const uint32_t group = p.sorted.groups[i];
    const uint32_t* record = record_of(p.graph, p.rows.vertices[p.sorted.segments[i] - p.most]);
    if (group == kLimbo) {
      p.ghosts[uint32_t(i) - firsts[kLimbo]] = {record[kBlockUnit], record[kClass], record[kBorn], p.epoch};
    } else {
      const Stack s = p.stacks[group - kOld];
      s.at[s.top - s.taken + uint32_t(i) - firsts[group]] = record[kBlockUnit];
    }
  }
}

// ---- rows ------------------------------------------------------------------

// new_row is the row of a segment to be.
template <int Bits>
__device__ __forceinline__ Row<Bits> new_row(const WriteParams& p, uint32_t segment) {
  const uint32_t c = p.rows.groups[segment];
  if (c == kNoBlock) return record_row<Bits>(p.rows.records + uint64_t(segment) * kRecordWords);
  return block<Bits>(p.graph, p.rows.blocks[segment], c);
}

// find_arcs finds for each key the first arc that is not less, among those of a row from at to end.
__device__ __forceinline__ void find_arcs(const Arcs& a, const uint64_t (&key)[kAhead], uint32_t (&at)[kAhead], const uint32_t (&end)[kAhead]) {
  uint32_t left[kAhead], most = 0;
#pragma unroll
  for (uint32_t k = 0; k < kAhead; k++) left[k] = end[k] - at[k], most |= left[k];
  while (most != 0) {
    most = 0;
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) {
      if (left[k] == 0) continue;
      const uint32_t half = left[k] / 2;
      const bool less = a.keys[at[k] + half] < key[k];
      at[k] += less ? half + 1 : 0;
      left[k] = less ? left[k] - half - 1 : half;
      most |= left[k];
    }
  }
}

// keep copies what stays of old rows.
template <int Bits>
__device__ __forceinline__ void keep(const WriteParams& p) {
  const Arcs& a = p.arcs;
  for_each_elements(p.rows.olds, p.segments, [&](const Elements& e) {
    Row<Bits> old[kAhead];
    uint32_t first[kAhead], at[kAhead], end[kAhead];
    uint64_t key[kAhead];
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) {
      first[k] = end[k] = 0;
      if (e.row[k] == kNoRow) continue;
      const uint32_t u = p.rows.vertices[e.row[k]];
      old[k] = row<Bits>(p.graph, u);
      first[k] = p.rows.firsts[e.row[k]], end[k] = p.rows.firsts[e.row[k] + 1];
      key[k] = uint64_t(u) << a.bits;
    }
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) {
      at[k] = first[k];
      if (end[k] != 0) key[k] |= old[k].ids[e.at[k]];
    }
    find_arcs(a, key, at, end);
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) {
      if (end[k] == 0) continue;
      uint8_t net = kStays;
      if (at[k] < end[k] && a.keys[at[k]] == key[k]) {
        net = a.nets[a.multi ? at[k] : at[k] + upper_bound(a.keys + at[k], end[k] - at[k], key[k]) - 1];
      }
      const uint32_t shift = p.rows.shifts[first[k]];
      const bool none = p.rows.shifts[end[k]] - shift == 0 - old[k].degree;  // nothing stays
      if (net == kRemoved || none) continue;
      const uint32_t then = uint32_t(e.at[k]) + p.rows.shifts[at[k]] - shift;
      const Row<Bits> to = new_row<Bits>(p, e.row[k]);
      to.ids[then] = target(a, key[k]);
      if constexpr (Shape<Bits>::weighted) {
        if (net != kUpdated) to.weights[then] = old[k].weights[e.at[k]];
      }
    }
  });
}

// enliven notes that there is a vertex, and returns whether there was none.
__device__ __forceinline__ uint32_t enliven(const Graph& g, uint32_t u) {
  uint32_t* word = g.alive + u / 32;
  const uint32_t bit = 1u << u % 32;
  return !(load_relaxed(word) & bit) && !(or_relaxed(word, bit) & bit);
}

// enter writes new neighbors and weights to new rows.
template <int Bits>
__device__ __forceinline__ void enter(const WriteParams& p) {
  using W = typename Shape<Bits>::W;
  const Arcs& a = p.arcs;
  uint64_t fresh = 0;
  for (uint64_t i = thread_index(); i < a.n; i += threads_in_grid()) {
    const uint8_t net = a.nets[i];
    if (net != kAdded && net != kUpdated) continue;
    const uint32_t segment = a.segments[i], v = target_of(a, i), then = a.places[i] + p.rows.shifts[i] - p.rows.shifts[p.rows.firsts[segment]];
    const Row<Bits> to = new_row<Bits>(p, segment);
    if constexpr (Shape<Bits>::weighted) to.weights[then] = static_cast<const W*>(p.weights)[a.rows[i] >> a.two];
    if (net != kAdded) continue;
    to.ids[then] = v;
    if (p.directed) fresh += enliven(p.graph, v);  // in an undirected graph it has a row that has become longer, too
  }
  add_up(p.present, fresh);
}

// write writes rows anew, to other blocks. Every entry, of an old row or new, finds its place by itself.
template <int Bits>
__device__ __forceinline__ void write(const WriteParams& p) {
  release(p);
  keep<Bits>(p);
  enter<Bits>(p);
}

// commit makes new records those of the graph. What has neighbors is there.
template <int Bits>
__device__ __forceinline__ void commit(const WriteParams& p) {
  uint64_t fresh = 0;
  for (uint64_t i = thread_index(); i < p.segments; i += threads_in_grid()) {
    const uint32_t u = p.rows.vertices[i];
    if (u >= p.graph.vertices) continue;  // nothing was deleted from what is not there
    const uint32_t degree = degree_then(p.rows, uint32_t(i)), group = p.rows.groups[i], c = group == kNoBlock ? 0 : group;
    const uint32_t* now = p.rows.records + i * kRecordWords;
    uint32_t words[kRecordWords] = {degree, c};
#pragma unroll
    for (uint32_t w = kInline; w < kRecordWords; w++) {
      const uint32_t id = w - kInline, of = (w - Shape<Bits>::inline_weights) * 4;
      const bool used = w < Shape<Bits>::inline_weights ? id < degree : of < degree * (Shape<Bits>::entry - 4);
      words[w] = c == 0 && used ? now[w] : 0;
    }
    if (c != 0) {
      words[kBlockUnit] = p.rows.blocks[i];
      words[kBorn] = p.epoch;
    }
    Word128* record = reinterpret_cast<Word128*>(record_of(p.graph, u));
#pragma unroll
    for (uint32_t w = 0; w < 2; w++) record[w] = {words[4 * w] | uint64_t(words[4 * w + 1]) << 32, words[4 * w + 2] | uint64_t(words[4 * w + 3]) << 32};
    if (degree != 0) fresh += enliven(p.graph, u);
  }
  add_up(p.present, fresh);
}

}  // namespace weft::graph
