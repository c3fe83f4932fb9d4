// Deletes many vertices with all their edges (package graph, gpu_sweep.go). Kernels scan all rows
// for neighbors to delete, and rewrite the rows that have any. So no arcs need sorting, and
// directed and undirected graphs take the same steps. A thread block processes a bin, which is a
// range of vertices. The device allocates the planned blocks as for a batch in bins.
#pragma once

#include "graph_bins.cuh"

namespace weft::graph {

struct SweepParams {
  Graph graph;
  Control* control;
  Binned binned;
  const uint32_t* doomed;  // bitmap of the vertices to delete
  uint32_t width;          // number of vertices of a bin: a multiple of kRows
  uint32_t held;           // 1: a snapshot is held
  uint32_t newest;         // epoch of the newest snapshot
  uint32_t loops;          // 1: the graph may have self loops
};

__device__ __forceinline__ bool goes(const uint32_t* doomed, uint32_t u) { return doomed[u / 32] >> u % 32 & 1; }

// A lane reads kQuad entries of a row at a time. kSharing lanes share a short row, which has at
// most kMasked entries, and read it in kTimes rounds. A warp has kGroupsOfWarp such groups of
// lanes. For a short row, a mask of one word records which entries stay.
constexpr uint32_t kQuad = 4, kSharing = 2, kMasked = 32, kGroupsOfWarp = kWarp / kSharing, kTimes = kMasked / (kQuad * kSharing);

// read_two reads entries `at` and at+1 of a row of n entries, with 0 for an entry that does not
// exist. `at` is even, and ids are aligned to 8 bytes in blocks and in records.
__device__ __forceinline__ uint64_t read_two(const uint32_t* ids, uint32_t at, uint32_t n) {
  return at + 1 < n ? *reinterpret_cast<const uint64_t*>(ids + at) : at < n ? ids[at] : 0;
}

// read_quad reads the four entries of a row from `at` on, with 0 for an entry that does not exist.
__device__ __forceinline__ void read_quad(const uint32_t* ids, uint32_t at, uint32_t n, uint32_t (&id)[kQuad]) {
  const uint64_t one = read_two(ids, at, n), other = read_two(ids, at + 2, n);
  id[0] = uint32_t(one), id[1] = uint32_t(one >> 32), id[2] = uint32_t(other), id[3] = uint32_t(other >> 32);
}

// staying returns a mask of the four entries from `at` on: which of them exist and stay. For an
// entry that does not exist, it reads the bit of vertex 0 and ignores the bit. So all loads are
// issued together.
__device__ __forceinline__ uint32_t staying(const uint32_t* doomed, uint32_t at, uint32_t n, const uint32_t (&id)[kQuad]) {
  uint32_t word[kQuad], stay = 0;
#pragma unroll
  for (uint32_t k = 0; k < kQuad; k++) word[k] = doomed[id[k] / 32];
#pragma unroll
  for (uint32_t k = 0; k < kQuad; k++) stay |= (at + k < n ? ~word[k] >> id[k] % 32 & 1 : 0) << k;
  return stay;
}

// ---- plan ------------------------------------------------------------------

// Sweep is the shared memory of a block that scans rows.
struct Sweep {
  uint64_t from[kRows];  // ids of the rows that all threads of the block scan together
  uint32_t degrees[kRows], stay[kRows];
  uint32_t counts[kGroups];
  uint32_t sums[kBlockWarps];
  uint32_t hubs, longer;
};

// ScanResult is the result of a scan of a row: the number of entries that stay. For a short row it
// also has the mask of these entries.
struct ScanResult {
  uint32_t stay, mask;
};

// look_together scans the short rows of a warp. Each group of kSharing lanes scans one row at a
// time. rows is the mask of lanes that have a short row. The function returns the mask of the
// lane's own row.
__device__ __forceinline__ uint32_t look_together(const uint32_t* doomed, uint32_t rows, const uint32_t* ids, uint32_t n) {
  const uint32_t lane = lane_index(), rank = lane % kSharing;
  uint32_t own = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < kWarp; first += kGroupsOfWarp) {
    if ((rows >> first & ((1u << kGroupsOfWarp) - 1)) == 0) continue;
    const uint32_t row = first + lane / kSharing;
    const uint32_t* at = reinterpret_cast<const uint32_t*>(shuffle(kAll, reinterpret_cast<uint64_t>(ids), row));
    uint32_t many = shuffle(kAll, n, row), id[kTimes][kQuad], mask = 0;
    if (!(rows >> row & 1)) many = 0;
#pragma unroll
    for (uint32_t k = 0; k < kTimes; k++) read_quad(at, kQuad * (rank + k * kSharing), many, id[k]);
#pragma unroll
    for (uint32_t k = 0; k < kTimes; k++) mask |= staying(doomed, kQuad * (rank + k * kSharing), many, id[k]) << kQuad * (rank + k * kSharing);
#pragma unroll
    for (uint32_t x = 1; x < kSharing; x *= 2) mask |= shuffle_xor(kAll, mask, x);
    const uint32_t got = shuffle(kAll, mask, lane % kGroupsOfWarp * kSharing);
    if (lane / kGroupsOfWarp == first / kGroupsOfWarp) own = got;
  }
  return own;
}
// look_alone counts the entries that stay in this thread's part of a row. `threads` threads share
// the row, and rank is the number of this thread.
__device__ __forceinline__ uint32_t look_alone(const uint32_t* doomed, const uint32_t* ids, uint32_t n, uint32_t rank, uint32_t threads) {
  uint32_t stay = 0, id[kQuad];
  for (uint32_t at = kQuad * rank; at < n; at += kQuad * threads) {
    read_quad(ids, at, n, id);
    stay += popcount(staying(doomed, at, n, id));
  }
  return stay;
}

// look scans the rows of a block, one for each thread. A warp scans its long rows one after the
// other. The whole block scans each row of more than kChunk entries.
__device__ __forceinline__ ScanResult look(const uint32_t* doomed, const uint32_t* ids, uint32_t n, Sweep* w) {
  const uint32_t t = thread_in_block(), lane = lane_index();
  const bool hub = n > kChunk;
  ScanResult x = {0, 0};
  x.mask = look_together(doomed, ballot(kAll, n != 0 && n <= kMasked), ids, n);
  x.stay = popcount(x.mask);
  for (uint32_t left = ballot(kAll, n > kMasked && !hub); left != 0; left &= left - 1) {
    const uint32_t from = lowest(left);
    const uint32_t* at = reinterpret_cast<const uint32_t*>(shuffle(kAll, reinterpret_cast<uint64_t>(ids), from));
    const uint32_t stay = prim::sum_of_warp(look_alone(doomed, at, shuffle(kAll, n, from), lane, kWarp));
    if (lane == from) x.stay = stay;
  }
  if (t == 0) store_weak(shared(&w->hubs), 0u);
  if (count_block(hub) == 0) return x;
  uint32_t mine = 0;
  if (hub) {
    mine = add_relaxed(shared(&w->hubs), 1u);
    store_weak(shared(w->from) + mine, reinterpret_cast<uint64_t>(ids));
    store_weak(shared(w->degrees) + mine, n);
    store_weak(shared(w->stay) + mine, 0u);
  }
  sync_block();
  for (uint32_t i = 0, hubs = load_weak(shared(&w->hubs)); i < hubs; i++) {
    const uint32_t* at = reinterpret_cast<const uint32_t*>(load_weak(shared(w->from) + i));
    const uint32_t stay = prim::sum_of_warp(look_alone(doomed, at, load_weak(shared(w->degrees) + i), t, kBlock));
    if (lane == 0) add_relaxed(shared(w->stay) + i, stay);
  }
  sync_block();
  if (hub) x.stay = load_weak(shared(w->stay) + mine);
  sync_block();
  return x;
}

// subtract_loops subtracts the self loops of a vertex to delete from the number of loops.
__device__ __forceinline__ void subtract_loops(const SweepParams& p, const Ids& row, uint32_t u) {
  const uint32_t behind = upper_bound(row.at, row.n, u), loops = behind - lower_bound(row.at, behind, u);
  if (loops != 0) add_relaxed(&p.control->loops, 0 - loops);
}

// sweep_rows scans the rows of kRows vertices from `first` on, one for each thread. It plans the
// rows that become shorter and returns their number. `segments` is the number of rows that the
// block has planned before.
template <int Bits>
__device__ __forceinline__ uint32_t sweep_rows(const SweepParams& p, uint32_t first, uint32_t segments, uint32_t& longer, uint32_t& limbo, Sweep* w) {
  const uint32_t u = first + thread_in_block();
  const Ids row = ids(p.graph, u);
  const bool dies = row.n != 0 && goes(p.doomed, u);
  if (dies && p.loops) subtract_loops(p, row, u);
  const ScanResult x = look(p.doomed, row.at, dies ? 0 : row.n, w);
  const bool becomes = x.stay != row.n;
  const uint32_t before = block_running(uint32_t(becomes), shared(w->sums));
  if (becomes) {
    const Planned plan = plan_row<Bits>(p.graph, u, x.stay - row.n, p.held, p.newest, limbo);
    const uint32_t now = plan.now != 0 ? plan.now : kNoBlock;
    if (now != kNoBlock) add_relaxed(shared(w->counts) + now, 1u);
    if (plan.old != kNoBlock) add_relaxed(shared(w->counts) + plan.old, 1u);
    p.binned.segments[uint64_t(block_index()) * p.binned.most + segments + before] = {u, x.mask, plan.then, now | plan.old << 16};
    longer += x.stay - row.n;
  }
  return count_block(becomes);
}

// sweep scans the rows of a bin and plans the rows that become shorter.
template <int Bits>
__device__ __forceinline__ void sweep(const SweepParams& p) {
  __shared__ Sweep memory;
  if (p.control->bad != 0) return;
  Sweep* w = &memory;
  const uint32_t bin = block_index(), t = thread_in_block(), begin = bin * p.width;
  uint32_t segments = 0, longer = 0, limbo = 0;
  store_weak(shared(w->counts) + t, 0u);
  if (t == 0) store_weak(shared(&w->longer), 0u);
  sync_block();
  for (uint32_t at = 0; at < p.width && begin + at < p.graph.vertices; at += kRows) segments += sweep_rows<Bits>(p, begin + at, segments, longer, limbo, w);
  if (longer != 0) add_relaxed(shared(&w->longer), longer);
  if (limbo != 0) add_relaxed(&p.control->limbo, limbo);
  sync_block();
  if (t == 0) {
    add_relaxed(&p.control->segments, segments);
    add_relaxed(&p.control->arcs, load_weak(shared(&w->longer)));
    p.binned.numbers[bin] = segments;
  }
  const uint32_t of = load_weak(shared(w->counts) + t);
  p.binned.counts[bin * kGroups + t] = of;
  if (of == 0) return;
  add_relaxed(p.binned.groups + t, of);
  add_relaxed(p.binned.sums + bin / kTogether * kGroups + t, of);
}

// ---- write -----------------------------------------------------------------

// Rewriting is the shared memory of a block that rewrites rows without the deleted entries.
struct Rewriting {
  uint64_t from[kRows], to[kRows];  // addresses of ids; to is 0 for a new row in a record
  alignas(16) uint32_t records[kRows * kRecordStride];
  // degrees and masks of the old rows; classes of the old (bits 0 to 7) and the new rows
  uint32_t degrees[kRows], masks[kRows], classes[kRows];
  uint32_t groups[2 * kRows], ranks[2 * kRows];
  uint32_t counts[2 * kGroups];
  uint32_t lists[kClasses], taken[kClasses], bases[kClasses];  // copies of the grants
  uint32_t sums[kBlockWarps];
};

// put_quad writes the entries that stay, of four entries of an old row from `at` on. stay is their
// mask. The first of them goes to index `place` of the new row.
template <int Bits>
__device__ __forceinline__ void put_quad(uint32_t row, uint32_t at, uint32_t stay, uint32_t place, const uint32_t (&id)[kQuad], Rewriting* w) {
  using W = typename Shape<Bits>::W;
#pragma unroll
  for (uint32_t k = 0; k < kQuad; k++) {
    if (!(stay >> k & 1)) continue;
    const W* weight = nullptr;
    if constexpr (Shape<Bits>::weighted) {
      uint32_t* ids = reinterpret_cast<uint32_t*>(load_weak(shared(w->from) + row));
      weight = weights_at<Bits>(ids, load_weak(shared(w->classes) + row) & 0xff) + at + k;
    }
    put_entry<Bits>(w, row, place++, id[k], true, weight);
  }
}

// keep_short writes the new rows for the short rows of a warp. `base` is the index of the warp's
// first row in the block.
template <int Bits>
__device__ __forceinline__ void keep_short(uint32_t rows, uint32_t base, Rewriting* w) {
  const uint32_t lane = lane_index();
#pragma unroll 1
  for (uint32_t first = 0; first < kWarp; first += kGroupsOfWarp) {
    const uint32_t row = first + lane / kSharing;
    if (!(rows >> row & 1)) continue;
    const uint32_t mask = load_weak(shared(w->masks) + (base + row)), n = load_weak(shared(w->degrees) + (base + row));
    const uint32_t* ids = reinterpret_cast<const uint32_t*>(load_weak(shared(w->from) + (base + row)));
    uint32_t id[kTimes][kQuad];
#pragma unroll
    for (uint32_t k = 0; k < kTimes; k++) read_quad(ids, kQuad * (lane % kSharing + k * kSharing), n, id[k]);
#pragma unroll
    for (uint32_t k = 0; k < kTimes; k++) {
      const uint32_t at = kQuad * (lane % kSharing + k * kSharing);
      put_quad<Bits>(base + row, at, mask >> at & ((1u << kQuad) - 1), popcount(mask & ((1u << at) - 1)), id[k], w);
    }
  }
}

// keep_long writes one new row. All lanes of a warp share the row.
template <int Bits>
__device__ __forceinline__ void keep_long(const uint32_t* doomed, uint32_t row, Rewriting* w) {
  const uint32_t lane = lane_index(), n = load_weak(shared(w->degrees) + row);
  const uint32_t* ids = reinterpret_cast<const uint32_t*>(load_weak(shared(w->from) + row));
  for (uint32_t at = kQuad * lane, place = 0; at - kQuad * lane < n; at += kQuad * kWarp) {
    uint32_t id[kQuad];
    read_quad(ids, at, n, id);
    const uint32_t stay = staying(doomed, at, n, id), many = popcount(stay), up_to = running(many);
    put_quad<Bits>(row, at, stay, place + up_to - many, id, w);
    place += shuffle(kAll, up_to, kWarp - 1);
  }
}

// copy_huge_row writes one new row. All threads of the block share the row.
template <int Bits>
__device__ __forceinline__ void copy_huge_row(const uint32_t* doomed, uint32_t row, Rewriting* w) {
  const uint32_t t = thread_in_block(), n = load_weak(shared(w->degrees) + row);
  const uint32_t* ids = reinterpret_cast<const uint32_t*>(load_weak(shared(w->from) + row));
  for (uint32_t at = kQuad * t, place = 0; at - kQuad * t < n; at += kQuad * kBlock) {
    uint32_t id[kQuad];
    read_quad(ids, at, n, id);
    const uint32_t stay = staying(doomed, at, n, id), many = popcount(stay), before = block_running(many, shared(w->sums));
    put_quad<Bits>(row, at, stay, place + before, id, w);
#pragma unroll
    for (uint32_t k = 0; k < kBlockWarps; k++) place += load_weak(shared(w->sums) + k);
    sync_block();
  }
}

// begin_rewriting finds the old row of a segment and begins the new record. Each thread processes
// one segment, if `is` is true.
template <int Bits>
__device__ __forceinline__ Mine begin_rewriting(const WriteFewParams& p, uint32_t segment, bool is, Rewriting* w) {
  const uint32_t t = thread_in_block();
  Mine m = {kNone, 0, kNoBlock, kNoBlock, {0, 0}};
  uint32_t mask = 0, degree = 0;
  uint64_t from = 0;
  if (is) {
    const Segment s = p.binned.segments[segment];
    m.vertex = s.vertex, m.then = s.then, m.now = s.groups & 0xffff, m.old = s.groups >> 16, mask = s.arcs;
    uint32_t* record = record_of(p.graph, m.vertex);
    m.head = load_weak(reinterpret_cast<const Word128*>(record));
    const uint32_t c = uint32_t(m.head.x >> 32);
    from = uint64_t(c != 0 ? block<Bits>(p.graph, uint32_t(m.head.y), c).ids : record + kInline);
    if (m.then != 0) degree = uint32_t(m.head.x);
  }
  begin_record(m, from, w);
  store_weak(shared(w->degrees) + t, degree);
  store_weak(shared(w->masks) + t, mask);
  return m;
}

// rewrite writes the new rows of the segments of a bin from `segment` on, at most kRows of them.
template <int Bits>
__device__ __forceinline__ void rewrite(const WriteFewParams& p, uint32_t segment, uint32_t rows, Rewriting* w) {
  const uint32_t t = thread_in_block(), base = t - lane_index();
  const Mine m = begin_rewriting<Bits>(p, segment + t, t < rows, w);
  const uint32_t block = place_rows(p, m, rows, w);
  const uint32_t n = load_weak(shared(w->degrees) + t);
  const bool hub = n > kChunk;
  keep_short<Bits>(ballot(kAll, n != 0 && n <= kMasked), base, w);
  for (uint32_t left = ballot(kAll, n > kMasked && !hub); left != 0; left &= left - 1) keep_long<Bits>(p.doomed, base + lowest(left), w);
  if (count_block(hub) != 0) {
    for (uint32_t row = 0; row < rows; row++) {
      if (load_weak(shared(w->degrees) + row) > kChunk) copy_huge_row<Bits>(p.doomed, row, w);
    }
  }
  sync_block();
  if (t < rows) write_record(p, m, block, w);
}

// bury deletes the vertices of a bin that are to be deleted: it clears their bits and counts them.
__device__ __forceinline__ void bury(const WriteFewParams& p, uint32_t bin) {
  uint64_t gone = 0;
  const uint32_t words = p.width / 32, first = bin * words;
  for (uint32_t i = first + thread_in_block(); i < first + words && i < (p.vertices + 31) / 32; i += kBlock) {
    const uint32_t alive = p.graph.alive[i], doomed = p.doomed[i];
    gone += popcount(alive & doomed);
    p.graph.alive[i] = alive & ~doomed;
  }
  add_warp_sum(p.present, 0 - gone);
}

// sweep_write writes the rows of a bin that become shorter. It also deletes the vertices of the bin
// that are to be deleted.
template <int Bits>
__device__ __forceinline__ void sweep_write(const WriteFewParams& p) {
  __shared__ Rewriting memory;
  if (!p.granted->all) return;
  Rewriting* w = &memory;
  const uint32_t bin = block_index(), segments = p.binned.numbers[bin];
  load_grants(p, bin, w);
  sync_block();
  for (uint32_t first = 0; first < segments; first += kRows) {
    rewrite<Bits>(p, bin * p.binned.most + first, segments - first < kRows ? segments - first : kRows, w);
    sync_block();
  }
  bury(p, bin);
  clear_counters(p, bin, 0);
}

}  // namespace weft::graph
