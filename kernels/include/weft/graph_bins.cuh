// Writing the rows of a batch in bins (package graph, gpu_small.go), after graph_few.cuh has
// planned the rows. A block of threads writes the rows of a bin to other blocks of memory, and then
// their records. The device checks whether memory suffices for all rows, so it need not wait for
// the host.
#pragma once

#include "graph_few.cuh"

namespace weft::graph {

// ---- memory ----------------------------------------------------------------

// Pile is a stack of the free blocks of a class.
struct Pile {
  uint32_t* at;
  uint32_t top;
  uint32_t size;  // capacity
};

// Grant describes the source of new blocks of a class, and the place for freed blocks. If r is less
// than taken, needed block number r is entry list + r of the list of free blocks. Otherwise the
// block lies in new memory, which begins at unit base.
struct Grant {
  uint32_t* freed;
  uint32_t list;
  uint32_t taken;
  uint32_t base;
  uint32_t top;  // top of the pile after the batch
};

// Granted says whether memory suffices for all rows of the batch, and how many vertices have a
// record after the batch.
struct Granted {
  uint32_t all;
  uint32_t vertices;
  uint32_t chunks;
  uint32_t unused;
};

struct PlaceFewParams {
  Control* control;
  Binned binned;
  const Pile* piles;
  Grant* grants;
  Granted* granted;
  uint32_t* list;     // free blocks that are taken
  uint64_t covered;   // number of vertices in the bins
  uint64_t units;     // number of allocated units
  uint64_t room;      // capacity in units
  uint32_t vertices;  // number of vertices that have records
  uint32_t records;   // capacity for records
  uint32_t ghosts;    // capacity for blocks that go to snapshots
  uint32_t bins;
};

// grant checks whether memory suffices for all rows. Each thread computes, for its class, how many
// blocks of the pile are taken and where these begin in the list. All blocks of threads compute the
// same, and the first one stores the result.
__device__ __forceinline__ bool grant(const PlaceFewParams& p, uint32_t& taken, uint32_t& list, Shared<uint64_t> sums, Shared<uint32_t> others) {
  const uint32_t c = thread_in_block(), *groups = p.binned.groups;
  const bool is = c != 0 && c < kClasses;
  const uint32_t need = is ? groups[c] : 0, released = is ? groups[kOld + c] : 0;
  const Pile pile = is ? p.piles[c] : Pile{nullptr, 0, 0};
  taken = need < pile.top ? need : pile.top;
  const uint64_t fresh = uint64_t(need - taken) * (is ? units_of(c) : 0), base = p.units + block_running(fresh, sums);
  list = block_running(taken, others);
  const uint32_t top = pile.top - taken + released, end = p.control->end, records = end > p.vertices ? end : p.vertices;
  const bool other = p.control->bad != 0 || p.control->crowded != 0 || p.control->all > p.covered || groups[kRetired] > p.ghosts || records > p.records || p.control->chunks > p.binned.room;
  const bool all = count_block(other || top > pile.size || base + fresh > p.room) == 0;
  if (block_index() != 0) return all;
  if (is) p.grants[c] = {pile.at + (pile.top - taken), list, taken, uint32_t(base), top};
  if (c == 0) *p.granted = {all, records, p.control->chunks, 0}, p.control->granted = all;
  return all;
}

// place_few numbers the blocks of memory for the rows of each bin. It copies the free blocks that
// are taken to a list. The list is necessary because freed blocks may overwrite these places of the
// piles while rows are written.
__device__ __forceinline__ void place_few(const PlaceFewParams& p) {
  __shared__ uint64_t shared_units[kBlockWarps];
  __shared__ uint32_t shared_sums[kBlockWarps];
  __shared__ uint32_t shared_lists[kGroups];
  const uint32_t thread = thread_in_block(), first = block_index() * kTogether, end = first + kTogether < p.bins ? first + kTogether : p.bins;
  uint32_t taken, list, before = 0;
  if (!grant(p, taken, list, shared(shared_units), shared(shared_sums))) return;
  constexpr uint32_t kSome = 16;
  for (uint32_t i = 0; i < block_index() && first < p.bins; i += kSome) {
#pragma unroll
    for (uint32_t k = 0; k < kSome; k++) before += i + k < block_index() ? p.binned.sums[(i + k) * kGroups + thread] : 0;
  }
  for (uint32_t i = first; i < end; i += kSome) {
    uint32_t n[kSome], *count = p.binned.counts + i * kGroups + thread;
#pragma unroll
    for (uint32_t k = 0; k < kSome; k++) n[k] = i + k < end ? count[k * kGroups] : 0;
#pragma unroll
    for (uint32_t k = 0; k < kSome; k++) {
      if (i + k < end) count[k * kGroups] = before;
      before += n[k];
    }
  }
  const Shared<uint32_t> lists = shared(shared_lists);
  store_weak(lists + thread, list);
  if (thread == kBlock - 1) store_weak(shared(shared_sums), list);
  sync_block();
  const uint32_t all = load_weak(shared(shared_sums));
  for (uint32_t i = uint32_t(thread_index()); i < all; i += uint32_t(threads_in_grid())) {
    uint32_t c = 0;  // the last class that begins at i or before
#pragma unroll
    for (uint32_t step = kGroups / 2; step != 0; step /= 2) c += load_weak(lists + c + step) <= i ? step : 0;
    const Pile pile = p.piles[c];
    p.list[i] = pile.at[pile.top - 1 - (i - load_weak(lists + c))];
  }
}

// ---- a bin -----------------------------------------------------------------

struct WriteFewParams {
  Graph graph;       // vertices is the capacity
  Arcs arcs;
  Bins bins;
  Binned binned;
  const Granted* granted;
  const Grant* grants;
  Pile* piles;
  const uint32_t* list;
  Ghost* ghosts;
  const void* weights;   // weights of operations
  uint64_t* present;     // number of present vertices
  uint32_t* zero;        // words to set to zero
  uint32_t zeros;
  uint32_t epoch;
  uint32_t directed;
  // Only a sweep, which deletes vertices, uses this field and the following ones (graph_sweep.cuh).
  uint32_t width;
  const uint32_t* doomed;
  uint32_t vertices;
  uint32_t unused;
};

constexpr uint32_t kRows = kBlock;     // number of rows that a block writes together
// kRecordStride is the number of words between two records. With this stride, records of
// neighboring threads begin in different banks, and weights of 64 bits are aligned.
constexpr uint32_t kRecordStride = 10;

// Writing is the shared memory of a block that writes rows.
struct Writing {
  uint64_t from[kRows], to[kRows];  // addresses of ids; `to` is 0 for a row in its record
  alignas(16) uint32_t records[kRows * kRecordStride];
  uint32_t targets[kBinArcs], shifts[kBinArcs + 1], nets[kBinArcs / 4];
  uint32_t arcs[kRows], classes[kRows], olds[kRows + 1];
  uint32_t groups[2 * kRows], ranks[2 * kRows];
  uint32_t counts[2 * kGroups];
  uint32_t lists[kClasses], taken[kClasses], bases[kClasses];  // of grants
  uint32_t sums[kBlockWarps];
};

// ArcsHere holds arcs of a bin in shared memory: their targets, their fates, and the total growth
// of rows by all earlier arcs.
struct ArcsHere {
  Shared<uint32_t> targets, shifts, nets;
  __device__ __forceinline__ uint32_t net(uint32_t i) const { return load_weak(nets + i / 4) >> i % 4 * 8 & 0xff; }
};

// load_arcs loads n arcs of a bin into shared memory, from arc `from` on.
__device__ __forceinline__ ArcsHere load_arcs(const Arcs& a, const Bins& b, uint64_t from, uint32_t n, Writing* w) {
  const ArcsHere here = {shared(w->targets), shared(w->shifts), shared(w->nets)};
  const uint32_t lane = lane_index(), warp = thread_in_block() / kWarp, rows = (n + kBlock - 1) / kBlock, first = warp * rows * kWarp + lane;
  const uint64_t mask = (uint64_t(1) << b.bits) - 1;
  const bool ones = !a.multi && !a.empties;
  uint32_t sum = 0;
  for (uint32_t row = 0; row < rows; row += kInFlight) {
    uint32_t net[kInFlight], delta[kInFlight];
    uint64_t word[kInFlight];
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      const uint32_t i = first + (row + k) * kWarp;
      const bool is = row + k < rows && i < n;
      net[k] = is ? a.nets[from + i] : 0, word[k] = is ? b.words[from + i] : 0, delta[k] = is ? a.places[from + i] : 0;
    }
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      if (row + k >= rows) break;
      const uint32_t i = first + (row + k) * kWarp;
      delta[k] = net[k] == kAdded ? 1 : net[k] == kRemoved ? delta[k] : 0;
      const uint32_t up_to = ones ? sum_of_ones(delta[k]) : running(delta[k]);
      uint32_t four = net[k] << lane % 4 * 8;
      four |= shuffle_xor(kAll, four, 1);
      four |= shuffle_xor(kAll, four, 2);
      if (i < n) {
        store_weak(here.targets + i, uint32_t(word[k] >> b.low & mask));
        store_weak(here.shifts + i, sum + up_to - delta[k]);
        if (lane % 4 == 0) store_weak(here.nets + i / 4, four);
      }
      sum += shuffle(kAll, up_to, kWarp - 1);
    }
  }
  if (lane == 0) store_weak(shared(w->sums) + warp, sum);
  sync_block();
  uint32_t before = 0;
  for (uint32_t k = 0; k < warp; k++) before += load_weak(shared(w->sums) + k);
  for (uint32_t row = 0; row < rows; row++) {
    const uint32_t i = first + row * kWarp;
    if (i < n) store_weak(here.shifts + i, before + load_weak(here.shifts + i));
  }
  if (thread_in_block() == kBlock - 1) store_weak(here.shifts + n, before + sum);
  sync_block();
  return here;
}

// peers returns the lanes with the same number, which must be less than 256.
__device__ __forceinline__ uint32_t peers(uint32_t number) {
  uint32_t lanes = kAll;
#pragma unroll
  for (uint32_t bit = 1; bit < kGroups; bit *= 2) {
    const uint32_t set = ballot(kAll, (number & bit) != 0);
    lanes &= number & bit ? set : ~set;
  }
  return lanes;
}

// number computes the rank of each segment in its group. One warp processes the segments in order.
__device__ __forceinline__ void number(Shared<uint32_t> groups, Shared<uint32_t> ranks, Shared<uint32_t> counts, uint32_t n) {
  const uint32_t lane = lane_index();
  for (uint32_t i = lane; i - lane < n; i += kWarp) {
    const uint32_t group = load_weak(groups + i), same = peers(group), below = popcount(same & ((1u << lane) - 1));
    const uint32_t before = load_weak(counts + group);
    sync_warp();
    if (below == 0) store_weak(counts + group, before + popcount(same));
    sync_warp();
    store_weak(ranks + i, before + below);
  }
}

// Stays describes whether an entry of an old row stays, how far it moves, and whether its weight
// changes.
struct Stays {
  bool is, updated;
  uint32_t by;
};

// stays returns the Stays of entry `id` of a row with arcs [first,end). `at` is the first of these
// arcs with a target that is not less than id.
__device__ __forceinline__ Stays stays(const ArcsHere& a, bool multi, uint32_t id, uint32_t at, uint32_t first, uint32_t end) {
  uint32_t net = kStays;
  if (at < end && load_weak(a.targets + at) == id) {
    uint32_t last = at;
    while (!multi && last + 1 < end && load_weak(a.targets + last + 1) == id) last++;
    net = a.net(last);
  }
  return {net != kRemoved, net == kUpdated, load_weak(a.shifts + at) - load_weak(a.shifts + first)};
}

// ---- rows of a bin ---------------------------------------------------------

// put_entry writes an entry of a new row, and its weight unless that is null. If `whole` is false,
// it writes only the weight. The entry goes to the block of the row, or to the place where the
// record of the row is built.
template <int Bits, class Memory>
__device__ __forceinline__ void put_entry(Memory* w, uint32_t row, uint32_t at, uint32_t id, bool whole, const typename Shape<Bits>::W* weight) {
  using W = typename Shape<Bits>::W;
  const uint64_t to = load_weak(shared(w->to) + row);
  if (to != 0) {
    uint32_t* ids = reinterpret_cast<uint32_t*>(to);
    if (whole) ids[at] = id;
    if constexpr (Shape<Bits>::weighted) {
      if (weight) weights_at<Bits>(ids, load_weak(shared(w->classes) + row) >> 8)[at] = *weight;
    }
    return;
  }
  const Shared<uint32_t> record = shared(w->records) + row * kRecordStride;
  if (whole) store_weak(record + (kInline + at), id);
  if constexpr (Shape<Bits>::weighted) {
    if (weight) store_weak(Shared<W>{(record + Shape<Bits>::inline_weights).address} + at, *weight);
  }
}

// row_of returns the row of an entry. The lanes of a warp search for the same entry together.
__device__ __forceinline__ uint32_t row_of(Shared<uint32_t> olds, uint32_t entry) {
  constexpr uint32_t kEach = kRows / kWarp;
  const uint32_t lane = lane_index(), some = (popcount(ballot(kAll, load_weak(olds + lane * kEach) <= entry)) - 1) * kEach;
  return some + popcount(ballot(kAll, lane < kEach && load_weak(olds + (some + lane % kEach)) <= entry)) - 1;
}

// keep_here copies the entries of old rows that stay, from entry `begin` on.
template <int Bits>
__device__ __forceinline__ void keep_here(const WriteFewParams& p, const ArcsHere& arcs, uint32_t begin, Writing* w) {
  using W = typename Shape<Bits>::W;
  const Shared<uint32_t> olds = shared(w->olds);
  const uint32_t all = load_weak(olds + kRows), lane = lane_index();
  for (uint32_t base = begin + thread_in_block() / kWarp * kInFlight * kWarp; base < all; base += kInFlight * kBlock) {
    const uint32_t from = base + lane, behind = base + kInFlight * kWarp, first = row_of(olds, base), rows = row_of(olds, (behind < all ? behind : all) - 1) - first + 1;
    uint32_t row[kInFlight], at[kInFlight], end[kInFlight], id[kInFlight];
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) row[k] = first;
    for (uint32_t left = rows; left > 1; left -= left / 2) {
#pragma unroll
      for (uint32_t k = 0; k < kInFlight; k++) row[k] += load_weak(olds + (row[k] + left / 2)) <= from + k * kWarp ? left / 2 : 0;
    }
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      at[k] = end[k] = id[k] = 0;
      if (from + k * kWarp >= all) continue;
      const uint32_t both = load_weak(shared(w->arcs) + row[k]);
      at[k] = both & 0xffff, end[k] = both >> 16;
      id[k] = reinterpret_cast<const uint32_t*>(load_weak(shared(w->from) + row[k]))[from + k * kWarp - load_weak(olds + row[k])];
    }
    find_arcs([&](uint32_t i) { return load_weak(arcs.targets + i); }, id, at, end);
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      if (end[k] == 0) continue;
      const Stays s = stays(arcs, p.arcs.multi, id[k], at[k], load_weak(shared(w->arcs) + row[k]) & 0xffff, end[k]);
      const uint32_t was = from + k * kWarp - load_weak(olds + row[k]);
      if (!s.is) continue;
      const W* weight = nullptr;
      if constexpr (Shape<Bits>::weighted) {
        uint32_t* ids = reinterpret_cast<uint32_t*>(load_weak(shared(w->from) + row[k]));
        if (!s.updated) weight = weights_at<Bits>(ids, load_weak(shared(w->classes) + row[k]) & 0xff) + was;
      }
      put_entry<Bits>(w, row[k], was + s.by, id[k], true, weight);
    }
  }
}

// enter_one writes the new neighbor or weight of an arc to a new row. It returns the number of
// vertices that this adds. place is the place in the old row.
template <int Bits>
__device__ __forceinline__ uint32_t enter_one(const WriteFewParams& p, const ArcsHere& arcs, uint32_t i, uint32_t row, uint32_t first, uint32_t place, uint64_t word, Writing* w) {
  using W = typename Shape<Bits>::W;
  const uint32_t net = arcs.net(i), id = load_weak(arcs.targets + i);
  if (net != kAdded && net != kUpdated) return 0;
  const W* weight = nullptr;
  if constexpr (Shape<Bits>::weighted) weight = static_cast<const W*>(p.weights) + (uint32_t(word & ((uint64_t(1) << p.bins.low) - 1)) >> p.arcs.two);
  put_entry<Bits>(w, row, place + load_weak(arcs.shifts + i) - load_weak(arcs.shifts + first), id, net == kAdded, weight);
  // In an undirected graph, the target's own row also becomes longer. That row marks the target as
  // present.
  return p.directed && net == kAdded ? mark_present(p.graph, id) : 0;
}

// enter_here calls enter_one for the arcs of new rows, from arc `first` on, and adds up the
// results.
template <int Bits>
__device__ __forceinline__ uint32_t enter_here(const WriteFewParams& p, const ArcsHere& arcs, uint64_t base, uint32_t first, uint32_t last, Writing* w) {
  uint32_t fresh = 0;
  for (uint32_t from = first + thread_in_block(); from < last; from += kInFlight * kBlock) {
    uint32_t place[kInFlight];
    uint64_t word[kInFlight] = {};
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      const uint32_t i = from + k * kBlock;
      place[k] = i < last ? p.arcs.places[base + i] : 0;
      if constexpr (Shape<Bits>::weighted) word[k] = i < last ? p.bins.words[base + i] : 0;
    }
#pragma unroll
    for (uint32_t k = 0; k < kInFlight; k++) {
      const uint32_t i = from + k * kBlock;
      if (i >= last) break;
      uint32_t row = 0;
#pragma unroll
      for (uint32_t step = kRows / 2; step != 0; step /= 2) row += (load_weak(shared(w->arcs) + (row + step)) & 0xffff) <= i ? step : 0;
      fresh += enter_one<Bits>(p, arcs, i, row, load_weak(shared(w->arcs) + row) & 0xffff, place[k], word[k], w);
    }
  }
  return fresh;
}

// Mine is the row that a thread plans and commits.
struct Mine {
  uint32_t vertex, then, now, old;  // then is the new degree; now and old are groups
  Word128 head;                     // the old record
};

// block_of returns the block for request number r of class c.
template <class Memory>
__device__ __forceinline__ uint32_t block_of(const WriteFewParams& p, uint32_t c, uint32_t r, Memory* w) {
  const uint32_t taken = load_weak(shared(w->taken) + c);
  return r < taken ? p.list[load_weak(shared(w->lists) + c) + r] : load_weak(shared(w->bases) + c) + (r - taken) * units_of(c);
}

// release_here frees the old block of a row, or leaves it to snapshots.
__device__ __forceinline__ void release_here(const WriteFewParams& p, const Mine& m, uint32_t r) {
  const uint32_t block = uint32_t(m.head.y);
  if (m.old == kRetired) {
    p.ghosts[r] = {block, uint32_t(m.head.x >> 32), uint32_t(m.head.y >> 32), p.epoch};
  } else if (m.old != kNoBlock) {
    p.grants[m.old - kOld].freed[r] = block;
  }
}

// begin_record stores the old address, the old class and the new class of a thread's row. It also
// begins the record of the row.
template <class Memory>
__device__ __forceinline__ void begin_record(const Mine& m, uint64_t from, Memory* w) {
  const uint32_t t = thread_in_block();
  store_weak(shared(w->from) + t, from);
  store_weak(shared(w->classes) + t, uint32_t(m.head.x >> 32) | (m.now != kNoBlock ? m.now : 0) << 8);
  store_weak(shared(w->groups) + t, m.now);
  store_weak(shared(w->groups) + kRows + t, m.old);
  for (uint32_t i = kInline; i < kRecordWords; i++) store_weak(shared(w->records) + (t * kRecordStride + i), 0u);
}

// place_rows finds the new block of each thread's row, and returns it. All threads must have called
// begin_record.
template <class Memory>
__device__ __forceinline__ uint32_t place_rows(const WriteFewParams& p, const Mine& m, uint32_t rows, Memory* w) {
  const uint32_t t = thread_in_block();
  sync_block();
  if (t < 2 * kWarp) {
    const uint32_t half = t / kWarp;
    number(shared(w->groups) + half * kRows, shared(w->ranks) + half * kRows, shared(w->counts) + half * kGroups, rows);
  }
  sync_block();
  uint32_t block = 0;
  uint64_t to = 0;
  if (m.now != kNoBlock) {
    block = block_of(p, m.now, load_weak(shared(w->ranks) + t), w);
    to = uint64_t(p.graph.pool + uint64_t(block) * p.graph.unit);
  }
  store_weak(shared(w->to) + t, to);
  sync_block();
  return block;
}

// load_grants loads the grants of a bin into shared memory.
template <class Memory>
__device__ __forceinline__ void load_grants(const WriteFewParams& p, uint32_t bin, Memory* w) {
  const uint32_t t = thread_in_block(), count = p.binned.counts[bin * kGroups + t];
  store_weak(shared(w->counts) + t, count);
  store_weak(shared(w->counts) + kGroups + t, count);
  if (t != 0 && t < kClasses) {
    const Grant g = p.grants[t];
    store_weak(shared(w->lists) + t, g.list), store_weak(shared(w->taken) + t, g.taken), store_weak(shared(w->bases) + t, g.base);
  }
}

// begin_row finds the old row of a segment and the group of its new block. Each thread does so for
// its own segment.
template <int Bits>
__device__ __forceinline__ Mine begin_row(const WriteFewParams& p, uint32_t segment, bool is, uint32_t none, Writing* w) {
  const uint32_t t = thread_in_block();
  Mine m = {kNone, 0, kNoBlock, kNoBlock, {0, 0}};
  uint32_t arcs = none | none << 16, degree = 0;
  uint64_t from = 0;
  if (is) {
    const Segment s = p.binned.segments[segment];
    m.vertex = s.vertex, m.then = s.then, m.now = s.groups & 0xffff, m.old = s.groups >> 16, arcs = s.arcs;
  }
  if (m.vertex < p.granted->vertices) {
    uint32_t* record = record_of(p.graph, m.vertex);
    m.head = load_weak(reinterpret_cast<const Word128*>(record));
    const uint32_t c = uint32_t(m.head.x >> 32);
    from = uint64_t(c != 0 ? block<Bits>(p.graph, uint32_t(m.head.y), c).ids : record + kInline);
    if (m.then != 0 && c < kLargeClass) degree = uint32_t(m.head.x);
  }
  begin_record(m, from, w);
  store_weak(shared(w->arcs) + t, arcs);
  const uint32_t before = block_running(degree, shared(w->sums));
  store_weak(shared(w->olds) + t, before);
  if (t == kBlock - 1) store_weak(shared(w->olds) + kRows, before + degree);
  return m;
}

// write_record stores a new record in the graph, and frees the block of the old row.
template <class Memory>
__device__ __forceinline__ void write_record(const WriteFewParams& p, const Mine& m, uint32_t block, Memory* w) {
  const uint32_t t = thread_in_block();
  const Shared<uint32_t> words = shared(w->records) + t * kRecordStride;
  Word128* record = reinterpret_cast<Word128*>(record_of(p.graph, m.vertex));
  if (m.now != kNoBlock) {
    record[0] = {m.then | uint64_t(m.now) << 32, block | uint64_t(p.epoch) << 32};
    record[1] = {0, 0};
  } else {
    record[0] = {m.then, load_weak(words + 2) | uint64_t(load_weak(words + 3)) << 32};
    record[1] = {load_weak(words + 4) | uint64_t(load_weak(words + 5)) << 32, load_weak(words + 6) | uint64_t(load_weak(words + 7)) << 32};
  }
  release_here(p, m, load_weak(shared(w->ranks) + (kRows + t)));
}

// commit_row writes the record of a thread's row. If the row has neighbors, commit_row marks the
// vertex as present, and returns whether the vertex was absent.
__device__ __forceinline__ uint32_t commit_row(const WriteFewParams& p, const Mine& m, uint32_t block, Writing* w) {
  if (m.vertex >= p.granted->vertices) return 0;  // nothing was deleted from an absent vertex
  write_record(p, m, block, w);
  return m.then != 0 ? mark_present(p.graph, m.vertex) : 0;
}

// write_rows writes up to kRows rows of a bin, for the segments from `first` on.
template <int Bits>
__device__ __forceinline__ uint32_t write_rows(const WriteFewParams& p, const ArcsHere& arcs, uint32_t bin, uint32_t first, uint32_t segments, uint32_t n, Writing* w) {
  const uint32_t t = thread_in_block(), rows = segments - first < kRows ? segments - first : kRows;
  const Mine m = begin_row<Bits>(p, bin * p.binned.most + first + t, t < rows, n, w);
  const uint32_t block = place_rows(p, m, rows, w);
  const uint64_t base = uint64_t(bin) * p.bins.size;
  keep_here<Bits>(p, arcs, 0, w);
  const uint32_t begin = load_weak(shared(w->arcs)) & 0xffff, end = load_weak(shared(w->arcs) + (rows - 1)) >> 16;
  uint32_t fresh = enter_here<Bits>(p, arcs, base, begin, end, w);
  sync_block();
  fresh += commit_row(p, m, block, w);
  return fresh;
}

// clear_counters zeroes the words that the next batch adds to.
__device__ __forceinline__ void clear_counters(const WriteFewParams& p, uint32_t bin, uint32_t n) {
  const uint32_t t = thread_in_block();
  if (n != 0 && t == 0) p.bins.counts[bin * kCountStride] = 0;
  if (bin % kTogether == 0) p.binned.sums[bin / kTogether * kGroups + t] = 0;
  if (bin != 0) return;
  if (t != 0 && t < kClasses) p.piles[t].top = p.grants[t].top;
  for (uint32_t i = t; i < p.zeros; i += kBlock) p.zero[i] = 0;
}

// write_few writes the rows of a bin. If a row is cut into chunks, write_few writes only its new
// entries and its record. write_chunks then copies the entries that stay.
template <int Bits>
__device__ __forceinline__ void write_few(const WriteFewParams& p) {
  __shared__ Writing writing;
  if (!p.granted->all) return;
  Writing* w = &writing;
  const uint32_t bin = block_index(), n = p.bins.counts[bin * kCountStride];
  uint32_t fresh = 0;
  if (n != 0) {
    const uint32_t segments = p.binned.numbers[bin];
    load_grants(p, bin, w);
    const ArcsHere arcs = load_arcs(p.arcs, p.bins, uint64_t(bin) * p.bins.size, n, w);
    for (uint32_t first = 0; first < segments; first += kRows) {
      fresh += write_rows<Bits>(p, arcs, bin, first, segments, n, w);
      sync_block();
    }
  }
  add_warp_sum(p.present, fresh);
  clear_counters(p, bin, n);
}

// write_chunks copies the entries that stay in large rows, after their records are written. A block
// copies one chunk at a time.
template <int Bits>
__device__ __forceinline__ void write_chunks(const WriteFewParams& p) {
  __shared__ Writing writing;
  if (!p.granted->all) return;
  Writing* w = &writing;
  const uint32_t t = thread_in_block();
  for (uint32_t i = block_index(); i < p.granted->chunks; i += blocks_in_grid()) {
    const Chunk c = p.binned.chunks[i];
    const Segment s = p.binned.segments[c.segment];
    const uint32_t first = s.arcs & 0xffff, n = (s.arcs >> 16) - first, now = s.groups & 0xffff;
    const uint64_t base = uint64_t(c.segment / p.binned.most) * p.bins.size + first;
    const uint32_t block = record_of(p.graph, s.vertex)[kBlockUnit];
    sync_block();
    store_weak(shared(w->olds) + t, t == 0 ? 0 : c.last);
    if (t == 0) store_weak(shared(w->olds) + kRows, c.last);
    store_weak(shared(w->from) + t, uint64_t(c.from));
    store_weak(shared(w->to) + t, uint64_t(p.graph.pool + uint64_t(block) * p.graph.unit));
    store_weak(shared(w->arcs) + t, n << 16);
    store_weak(shared(w->classes) + t, c.before | now << 8);
    const ArcsHere arcs = load_arcs(p.arcs, p.bins, base, n, w);
    keep_here<Bits>(p, arcs, c.first, w);
  }
}

}  // namespace weft::graph
