// Adds rows to the records of their groups. Blocks take rounds of consecutive rows in turn. If most
// rows find their keys there, a block first combines rows in a local table in shared memory. A cell
// of the local table also stores the record of its key, so the local table can always be emptied.
// If a key is in neither table and no record is free, the row overflows. The block lists such rows
// and runs them again after the table has grown.
#pragma once

#include "local.cuh"

namespace weft::groups {

__device__ __forceinline__ uint64_t* record(const Table& t, uint32_t at) { return t.records + uint64_t(at) * t.words; }

// claim returns the record of a key, or claims a free record for the key. It probes linearly from
// record at on, and returns kNone if it finds no record within the given number of probes. A key
// publishes no other data, so relaxed accesses suffice: all other words start at 0, and threads
// only add to them by atomics.
__device__ __forceinline__ uint32_t claim(const Table& t, uint32_t probes, uint64_t key, uint32_t at, uint32_t& claimed) {
  for (uint32_t i = 0; i < probes; i++) {
    uint64_t* place = record(t, at);
    uint64_t there = load_relaxed(place);
    if (there == 0) {
      there = cas_relaxed(place, 0ul, key);
      if (there == 0) {
        claimed++;
        return at;
      }
    }
    if (there == key) return at;
    if (++at == t.slots) at = 0;
  }
  return kNone;
}

__device__ __forceinline__ uint32_t home(const Table& t, uint64_t h) { return reduce(uint32_t(h >> 32), t.slots); }

// State shared by the threads of a block.
struct Control {
  uint32_t stop, hits, claimed, listed;
};

// State of a thread. All fields except hits and claimed are equal in all threads of a block.
struct Work {
  Local local;
  Shared<uint32_t> stop, hits_of_block, claimed_of_block, listed;
  uint32_t hits = 0;     // number of rows in a round that found their key in shared memory
  uint32_t claimed = 0;  // number of records claimed and not yet counted
  uint64_t worth = 0;    // hits of the block since the local table was empty
  uint32_t rest = 0;     // number of rounds left without the local table
  uint32_t pause = 1;    // number of rounds in the next period without the local table
};

// ---- keys ----------------------------------------------------------------------

// The key types of kernels. load stores the key of a row in key, with all bits inverted. It reports
// whether the row is to be added.

// One column of 32 or 64 bits without nulls.
struct OneKey {
  static constexpr bool kFilters = false;
  static __device__ __forceinline__ bool load(const AddParams& p, uint32_t row, uint64_t& key) {
    key = ~key_bits<false>(p.keys, p.key, row);
    return true;
  }
};

// Several columns packed into one word, or the number of a long key.
struct AnyKey {
  static constexpr bool kFilters = true;
  static __device__ __forceinline__ bool load(const AddParams& p, uint32_t row, uint64_t& key) {
    if (p.numbered != 0) {
      const uint32_t number = load_once(static_cast<const uint32_t*>(p.keys) + row);
      key = ~uint64_t(number);
      return number != kNone;
    }
    key = ~key_word(p.columns, p.ncolumns, 0, row);
    return matches_filter(p.filter, p.columns, p.ncolumns, row);
  }
};

// ---- one integer column that is added up ---------------------------------------

// The field types of kernels. They load values, add them to cells or records, and move the content
// of cells to records.
template <bool kNarrow>
struct OneSum {
  static constexpr uint32_t kItems = 4;  // rows that a thread has in flight
  using Value = uint64_t;
  const AddParams& p;
  Type type;
  uint32_t at;

  __device__ __forceinline__ OneSum(const AddParams& p, const Local& l) : p(p), type(p.fields->type), at(first_field(l)) {}
  __device__ __forceinline__ Value load(uint32_t row) const { return load_word<kNarrow>(p.fields->column.values, type, row); }
  __device__ __forceinline__ void add(const Local& l, uint32_t cell, uint32_t, Value v) const {
    add_parts(l, at, cell, parts(type, v));
  }

  // Two lanes process each row. One lane adds to the count of rows, and the other adds to the sum.
  // So the cache receives both additions in one request.
  __device__ __forceinline__ void add_to(uint32_t at, uint32_t, Value v) const {
    const Parts x = parts(type, v);
    const uint32_t lane = lane_index(), odd = lane % 2;
#pragma unroll
    for (uint32_t half = 0; half < kWarp; half += kWarp / 2) {
      const uint32_t from = half + lane / 2, to = shuffle(kAll, at, from), low = shuffle(kAll, uint32_t(x.low), from);
      if (to != kNone) sum_relaxed(record(p.table, to) + kCount + odd, odd ? uint64_t(int64_t(int32_t(low))) : 1ul);
    }
    if (at != kNone && x.high != 0) sum_relaxed(record(p.table, at) + kFirst + 1, x.high);
  }

  // flush adds the content of a cell to its record.
  __device__ __forceinline__ void flush(const Local& l, uint32_t cell, uint64_t* to) const {
    const uint64_t high = read_halves(l.half(at, 2, cell), l.half(at, 3, cell));
    sum_relaxed(to + kFirst, read_halves(l.half(at, 0, cell), l.half(at, 1, cell)));
    if (high != 0) sum_relaxed(to + kFirst + 1, high);
  }
};

// ---- any fields ----------------------------------------------------------------

// Any adds any fields. With kAll, values may be null or narrower than 32 bits, and fields may keep
// row numbers.
template <bool kAll>
struct Any {
  static constexpr uint32_t kItems = 1;
  struct Value {};
  const AddParams& p;

  __device__ __forceinline__ Any(const AddParams& p, const Local&) : p(p) {}
  __device__ __forceinline__ Value load(uint32_t) const { return {}; }
  __device__ __forceinline__ void add(const Local& l, uint32_t cell, uint32_t row, Value) const {
    for (uint32_t i = 0; i < p.nfields; i++) {
      const Field& f = p.fields[i];
      if (kAll && is_null(f.column, row) != (f.op == kNulls)) continue;
      if (kAll && f.op >= kNulls) {
        if (f.op == kNulls) {
          add_relaxed(l.half(f.local, 0, cell), 1u);
        } else {
          raise(l.word(f.local, cell), number(f, row));
        }
        continue;
      }
      const uint64_t v = load_word<kAll>(f.column.values, f.type, row);
      switch (f.op) {
        case kSum: add_parts(l, f.local, cell, parts(f.type, v)); break;
        case kSumFloat: sum_float_relaxed(l.word(f.local, cell), as_double(v)); break;
        default: raise(l.word(f.local, cell), ranked(f.op, f.type, v));
      }
    }
  }
  __device__ __forceinline__ void add_to(uint32_t at, uint32_t row, Value) const {
    if (at == kNone) return;
    uint64_t* to = record(p.table, at);
    sum_relaxed(to + kCount, 1ul);
    for (uint32_t i = 0; i < p.nfields; i++) {
      const Field& f = p.fields[i];
      if (kAll && is_null(f.column, row) != (f.op == kNulls)) continue;
      if (kAll && f.op >= kNulls) {
        if (f.op == kNulls) {
          sum_relaxed(to + f.at, 1ul);
        } else {
          put(f, to + f.at, number(f, row));
        }
        continue;
      }
      const uint64_t v = load_word<kAll>(f.column.values, f.type, row);
      put(f, to + f.at, f.op < kMin ? v : ranked(f.op, f.type, v));
    }
  }
  __device__ __forceinline__ void flush(const Local& l, uint32_t cell, uint64_t* to) const {
    for (uint32_t i = 0; i < p.nfields; i++) {
      const Field& f = p.fields[i];
      if (kAll && f.op == kNulls) {
        sum_relaxed(to + f.at, uint64_t(load_weak(l.half(f.local, 0, cell))));
        continue;
      }
      if (f.op != kSum) {
        put(f, to + f.at, load_weak(l.word(f.local, cell)));
        continue;
      }
      const uint64_t high = read_halves(l.half(f.local, 2, cell), l.half(f.local, 3, cell));
      sum_relaxed(to + f.at, read_halves(l.half(f.local, 0, cell), l.half(f.local, 1, cell)));
      if (high != 0) sum_relaxed(to + f.at + 1, high);
    }
  }

 private:
  // number returns a word for a row number: inverted for first rows, and plus one for last rows.
  // A field keeps the maximum of these words.
  __device__ __forceinline__ uint64_t number(const Field& f, uint32_t row) const {
    return f.op == kFirstRow ? ~(p.base + row) : p.base + row + 1;
  }
  __device__ __forceinline__ void put(const Field& f, uint64_t* to, uint64_t v) const {
    if (f.op == kSumFloat) {
      sum_float_relaxed(to, as_double(v));
    } else if (f.op != kSum) {
      if (v > load_relaxed(to)) max_relaxed(to, v);
    } else {
      const Parts x = parts(f.type, v);
      sum_relaxed(to, x.low);
      if (x.high != 0) sum_relaxed(to + 1, x.high);
    }
  }
};

// ---- rows ----------------------------------------------------------------------

// list appends a row that overflowed to the list of the block.
__device__ __forceinline__ void list(const AddParams& p, const Work& w, uint32_t row) {
  const uint32_t at = add_relaxed(w.listed, 1u);
  p.lists[uint64_t(block_index()) * p.round + at] = row;
  if (at == 0) store_relaxed(&p.head->full, 1u);
}

// combine adds a row in shared memory and returns kNone. If the key of the row does not fit there,
// combine returns the record to which the caller adds the row. If no record is free either, combine
// lists the row and returns kNone.
template <class Fields>
__device__ __forceinline__ uint32_t combine(const AddParams& p, const Fields& fields, Work& w, uint64_t key, uint32_t row, typename Fields::Value v) {
  const uint64_t h = hash(key, p.table.seed);
  uint32_t cell = w.local.cells, at = kNone;
  bool missing = false;
  if (key != 0) cell = find_local(w.local, key, h, missing);
  if (missing || cell == kNone) {
    at = claim(p.table, p.probes, key, home(p.table, h), w.claimed);
    if (at == kNone) {
      list(p, w, row);
      return kNone;
    }
  }
  if (cell == kNone) return at;
  if (missing) {
    const uint64_t there = cas_relaxed(w.local.key(cell), 0ul, key);
    if (there != 0 && there != key) return at;
    if (there == 0) store_weak(w.local.record(cell), at);
  }
  if (!missing) w.hits++;
  add_relaxed(w.local.count(cell), 1u);
  fields.add(w.local, cell, row, v);
  return kNone;
}

// combine_tile adds a tile of rows in shared memory.
template <class Keys, class Fields>
__device__ __forceinline__ void combine_tile(const AddParams& p, const Fields& fields, Work& w, uint32_t first, uint32_t end) {
  constexpr uint32_t kItems = Fields::kItems;
  uint32_t meant = 0;  // one bit per row: whether the row is to be added
  uint64_t keys[kItems];
  typename Fields::Value values[kItems];
#pragma unroll
  for (uint32_t i = 0; i < kItems; i++) {
    const uint32_t row = first + i * kThreads;
    keys[i] = 0, values[i] = {};
    if (row < end) {
      if (Keys::load(p, row, keys[i])) meant |= 1u << i;
      values[i] = fields.load(row);
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < kItems; i++) {
    const uint32_t row = first + i * kThreads;
    uint32_t at = kNone;
    if (Keys::kFilters ? (meant >> i & 1) != 0 : row < end) at = combine(p, fields, w, keys[i], row, values[i]);
    if (ballot(kAll, at != kNone) != 0) fields.add_to(at, row, values[i]);
  }
}

// direct_tile adds a tile of rows to their records. row_of(i) returns row i of this thread in the
// tile, or kNone.
template <class Keys, class Fields, class RowOf>
__device__ __forceinline__ void direct_tile(const AddParams& p, const Fields& fields, Work& w, RowOf row_of) {
  constexpr uint32_t kItems = Fields::kItems;
  uint64_t keys[kItems], there[kItems];
  typename Fields::Value values[kItems];
  uint32_t rows[kItems], homes[kItems];
#pragma unroll
  for (uint32_t i = 0; i < kItems; i++) {
    rows[i] = row_of(i), keys[i] = 0, values[i] = {};
    if (rows[i] != kNone) {
      values[i] = fields.load(rows[i]);
      if (!Keys::load(p, rows[i], keys[i])) rows[i] = kNone, keys[i] = 0;
    }
  }
  // Load the keys of all records before the first of them is used.
#pragma unroll
  for (uint32_t i = 0; i < kItems; i++) {
    homes[i] = home(p.table, hash(keys[i], p.table.seed)), there[i] = 0;
    if (keys[i] != 0) there[i] = load_relaxed(record(p.table, homes[i]));
  }
#pragma unroll
  for (uint32_t i = 0; i < kItems; i++) {
    uint32_t at = kNone;
    if (rows[i] != kNone) {
      at = keys[i] == 0 ? p.table.slots : there[i] == keys[i] ? homes[i] : claim(p.table, p.probes, keys[i], homes[i], w.claimed);
      if (at == kNone) list(p, w, rows[i]);
    }
    sync_warp();  // wait for the lanes that have probed further
    fields.add_to(at, rows[i], values[i]);
  }
}

// ---- tables in shared memory -----------------------------------------------------

__device__ __forceinline__ void clear_local(const Work& w) {
  for (uint32_t i = thread_in_block(); i < kLocalBytes / 4; i += kThreads) store_weak(Shared<uint32_t>{w.local.base + 4 * i}, 0u);
}

// flush adds the content of the local table to the records and clears the table. Before the call,
// all threads of the block must have finished using the table. After the call, the caller
// synchronizes the block before the next use of the table.
template <class Fields>
__device__ __forceinline__ void flush(const AddParams& p, const Fields& fields, const Work& w) {
  for (uint32_t cell = thread_in_block(); cell < w.local.places(); cell += kThreads) {
    const uint32_t n = load_weak(w.local.count(cell));
    if (n == 0) continue;
    uint64_t* to = record(p.table, cell == w.local.cells ? p.table.slots : load_weak(w.local.record(cell)));
    sum_relaxed(to + kCount, uint64_t(n));
    fields.flush(w.local, cell, to);
  }
  sync_block();
  clear_local(w);
}

// maybe_flush decides after a round whether the block keeps the content of its local table. hits is
// the number of the block's rows that found their key there. If hits is small, maybe_flush flushes
// the table. If the table was not useful, the next rounds run without it.
template <class Fields>
__device__ __forceinline__ void maybe_flush(const AddParams& p, const Fields& fields, Work& w, uint32_t rows, uint32_t hits) {
  w.worth += hits;
  if (hits >= rows / kMinHitShare) return;
  flush(p, fields, w);
  if (w.worth >= uint64_t(kMinHitsPerCell) * w.local.places()) {
    w.pause = 1;  // the keys in the table have become rare, but new keys may be as frequent
  } else {
    w.rest = w.pause;
    if (w.pause < kMaxPauseRounds) w.pause *= 2;
  }
  w.worth = 0;
}

// ---- the kernel ------------------------------------------------------------------

// add_listed adds the rows that the block listed in the previous launch. It lists rows again if
// they still overflow. It overwrites only list entries that all threads have read.
template <class Keys, class Fields>
__device__ __forceinline__ void add_listed(const AddParams& p, const Fields& fields, Work& w) {
  const uint32_t n = p.listed[block_index()];
  const uint32_t* rows = p.lists + uint64_t(block_index()) * p.round;
  constexpr uint32_t kItems = Fields::kItems;
  for (uint32_t lo = 0; lo < n; lo += kItems * kThreads) {
    uint32_t mine[kItems];
#pragma unroll
    for (uint32_t i = 0; i < kItems; i++) {
      const uint32_t at = lo + i * kThreads + thread_in_block();
      mine[i] = at < n ? rows[at] : kNone;
    }
    sync_block();  // all threads read their entries before any thread writes
    direct_tile<Keys>(p, fields, w, [&](uint32_t i) { return mine[i]; });
  }
}

// can_continue adds the number of records that the block has claimed to head->used. It reports
// whether the block may begin another round.
__device__ __forceinline__ bool can_continue(const AddParams& p, Work& w) {
  if (w.claimed != 0) add_relaxed(w.claimed_of_block, w.claimed);
  w.claimed = 0;
  sync_block();  // thread 0 reads the sum next; also, all rows that overflowed are now listed
  if (thread_in_block() == 0) {
    const uint32_t claimed = exchange_relaxed(w.claimed_of_block, 0u);
    const uint32_t used = claimed != 0 ? add_relaxed(&p.head->used, claimed) + claimed : load_relaxed(&p.head->used);
    const bool over = used > p.limit;
    if (over) store_relaxed(&p.head->full, 1u);
    store_weak(w.stop, uint32_t(over || load_relaxed(&p.head->full) != 0));
    store_weak(w.hits_of_block, 0u);
  }
  sync_block();
  return load_weak(w.stop) == 0;
}

// round adds rows first to end-1.
template <class Keys, class Fields>
__device__ __forceinline__ void round(const AddParams& p, const Fields& fields, Work& w, uint32_t first, uint32_t end) {
  const uint32_t rank = thread_in_block();
  constexpr uint32_t tile = Fields::kItems * kThreads;
  if (w.rest != 0) {
    w.rest--;
    for (uint32_t lo = first; lo < end; lo += tile) {
      direct_tile<Keys>(p, fields, w, [&](uint32_t i) {
        const uint32_t row = lo + i * kThreads + rank;
        return row < end ? row : kNone;
      });
    }
    return;
  }
  for (uint32_t lo = first; lo < end; lo += tile) combine_tile<Keys>(p, fields, w, lo + rank, end);
  if (w.hits != 0) add_relaxed(w.hits_of_block, w.hits);
  w.hits = 0;
  sync_block();
  maybe_flush(p, fields, w, end - first, load_weak(w.hits_of_block));
}

template <class Keys, class Fields>
__device__ __forceinline__ void add(const AddParams& p) {
  __shared__ uint64_t memory[kLocalBytes / 8];
  __shared__ Control control;
  Work w{{shared(memory).address, p.cells}, shared(&control.stop), shared(&control.hits), shared(&control.claimed), shared(&control.listed)};
  const Fields fields(p, w.local);
  const uint32_t me = block_index(), blocks = blocks_in_grid();
  clear_local(w);
  if (thread_in_block() == 0) {
    store_weak(w.claimed_of_block, 0u);
    store_weak(w.listed, 0u);
  }
  sync_block();
  add_listed<Keys>(p, fields, w);
  uint32_t done = p.rounds[me];
  while (can_continue(p, w)) {
    const uint64_t first = (uint64_t(done) * blocks + me) * p.round;
    if (first >= p.n) break;
    round<Keys>(p, fields, w, uint32_t(first), uint32_t(p.n - first < p.round ? p.n : first + p.round));
    done++;
  }
  flush(p, fields, w);
  if (thread_in_block() == 0) {
    p.rounds[me] = done;
    p.listed[me] = load_weak(w.listed);
  }
}

}  // namespace weft::groups
