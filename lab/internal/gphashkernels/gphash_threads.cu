// Lookups and changes of an index by single threads, for measurements. This is the starting point
// of section 4.4 of the GPHash paper. A thread works on a key alone, without its warp, and reads
// one slot after the other. Everything else is as in the kernels of gphash.cu, with the same
// parameters. This includes the state after a crash, lookups alongside changes, and the order of
// operations on one key. Keys that find no slot are left to gphash_change_crowded. Values are
// replaced, and not combined.
#include "change.cuh"
#include "lookup.cuh"
#include "tuning.cuh"

namespace weft::gphash {

// ---- slots ------------------------------------------------------------------------

// same_words reports whether a slot has the key of an item that has the same tag.
__device__ __forceinline__ bool same_words(const Table& t, const Place& at, const Item& it) {
  for (uint32_t i = 0; i < t.key_words; i++)
    if (load_relaxed_system(t.pool + at.key(t) + i) != row_word(it.key, t.key_size, i)) return false;
  return true;
}

// Vacancy is the first free slot of the emptiest bucket among those read.
struct Vacancy {
  uint32_t most;  // number of free slots in that bucket
  Place at;
};

// find_in looks for a key in a bucket, slot by slot. It reads the control word of a slot first.
__device__ __forceinline__ bool find_in(const Table& t, const Level& l, uint64_t b, const Item& it, Place& at, Vacancy& open) {
  Place p{l.base + b * t.bucket_words, words_of(t, l, b), 0, {0}}, first{};
  uint32_t free = 0;
  for (p.slot = 0; p.slot < t.slots; p.slot++) {
    p.was.bits = load_acquire_system(p.words + p.slot);
    if (p.was.state() == kEmpty && free++ == 0) first = p;
    if (p.was.state() != kFull || load_relaxed_system(p.words + t.slots + p.slot) != it.tag) continue;
    if (!sound(t, p.was) || !same_words(t, p, it)) continue;
    at = p;
    return true;
  }
  if (free > open.most) open = {free, first};
  return false;
}

// find looks for a key in all candidate buckets. Like search, it begins with the levels that are
// being drained.
__device__ __forceinline__ bool find(const Table& t, const Item& it, Place& at, Vacancy& open) {
  const uint32_t taking = t.live - t.closed;
  for (uint32_t i = 0; i < t.live; i++) {
    const uint32_t k = i < t.closed ? taking + i : i - t.closed;
    const Level& l = t.levels[k];
    if (k == 0) open.most = 0;
    for (uint32_t j = 0; j < t.hashes; j++) {
      const uint64_t b = bucket_of(l, it.hash, j);
      bool seen = false;  // whether another function has selected the bucket
      for (uint32_t other = 0; other < j; other++) seen |= bucket_of(l, it.hash, other) == b;
      if (!seen && find_in(t, l, b, it, at, open)) return true;
    }
  }
  return false;
}

// ---- lookups ----------------------------------------------------------------------

// get_alone is get for a single thread.
__device__ __forceinline__ bool get_alone(const Table& t, const Item& it, uint8_t* row) {
  for (;;) {
    const uint32_t moved = load_acquire(&t.clocks->moves_ended);
    Place at;
    Vacancy open{};
    const bool hit = find(t, it, at, open);
    for (uint32_t i = 0; row && i < t.value_words; i++)
      put_word(row, t.value_size, i, hit ? load_relaxed_system(t.pool + at.was.block() + i) : 0);
    fence();
    const bool changed = hit ? load_relaxed_system(at.words + at.slot) != at.was.bits
                             : load_relaxed(&t.clocks->moves_begun) != moved;
    if (!changed) return hit;
  }
}

__device__ __forceinline__ void get_batch(const GetParams& p) {
  const bool hit = look_up<1>(p, [&](const Item& it, uint8_t* value) WEFT_INLINE { return get_alone(p.table, it, value); });
  if (p.lookup.hits) count(p.lookup.hits, hit);
}

// ---- operations on one key ------------------------------------------------------

// Alone holds the operations of a launch on one key. The range from begin to end has all operations
// with one prefix, which may include operations on other keys.
struct Alone {
  const ChangeParams& p;
  Item item;
  uint32_t begin, end;

  __device__ __forceinline__ Ops ops() const { return {p, item, begin, end, true}; }
  // each calls f(row, kind) for the operations on the key, in order.
  template <class F>
  __device__ __forceinline__ void each(F f) const {
    const Ops all = ops();
    for (uint32_t i = begin; i < end; i++) {
      const uint32_t row = p.sorted.rows[i];
      if (all.is(row)) f(row, all.kind(row));
    }
  }
  // value writes value v of the key to a row of the results.
  __device__ __forceinline__ void value(const Held& v, uint32_t row) const {
    const Ops all = ops();
    for (uint32_t i = 0; i < p.table.value_words; i++)
      put_word(all.out(row), p.table.value_size, i,
               v.from == kPool ? load_relaxed_system(p.table.pool + v.is + i) : row_word(all.value(v.row), p.table.value_size, i));
  }
  __device__ __forceinline__ void clear(uint32_t row) const {
    for (uint32_t i = 0; i < p.table.value_words; i++) put_word(ops().out(row), p.table.value_size, i, 0);
  }
};

// settle_alone returns the state of the key after an operation.
__device__ __forceinline__ Held settle_alone(const Held& v, uint32_t row, uint32_t kind) {
  if (kind == kDelete) return {false, kPool, 0, 0};
  return Ops::stores(v, kind) ? Held{true, kRow, row, 0} : v;
}

// report_alone is report for a single thread.
__device__ __forceinline__ void report_alone(const Alone& a, bool there, uint64_t block) {
  const Changes& c = a.p.changes;
  Held v{there, kPool, 0, block};
  a.each([&](uint32_t row, uint32_t kind) WEFT_INLINE {
    const Held was = v;
    v = settle_alone(v, row, kind);
    const bool stores = v.there && v.from == kRow && v.row == row;
    if (c.ok) store_once(c.ok + row, uint8_t(kind == kGet || kind == kUpdate || kind == kDelete ? was.there : stores && !was.there));
    if (c.out == nullptr) return;
    const bool returns = was.there && (kind == kGet || kind == kPutNew);
    if (returns) a.value(was, row);
    // Values and results may be the same column. So a row is cleared only when no other operation
    // still reads it.
    if (was.there && was.from == kRow && !(v.there && v.from == kRow && v.row == was.row)) a.clear(was.row);
    if (!returns && !stores) a.clear(row);
  });
  if (c.out && v.there && v.from == kRow) a.clear(v.row);
}

// crc32c_alone returns the checksum of the bytes of a row.
__device__ __forceinline__ uint32_t crc32c_alone(const uint8_t* row, uint32_t size) {
  uint32_t crc = ~0u;
  for (uint32_t i = 0; i < size; i++) {
    crc ^= row[i];
    for (uint32_t bit = 0; bit < 8; bit++) crc = crc32c_times_x(crc);
  }
  return ~crc;
}

// claim_alone is claim for a single thread.
__device__ __forceinline__ bool claim_alone(Place& at) {
  const Control claimed = at.was.next(kWriting, 0);
  const bool taken = cas_relaxed(at.words + at.slot, at.was.bits, claimed.bits) == at.was.bits;
  at.was = claimed;
  return taken;
}

// leave appends to a list of memory that the next launch may reuse.
__device__ __forceinline__ void leave(uint64_t* list, uint32_t* count, uint64_t what) {
  store_relaxed(list + add_relaxed(count, 1u), what);
}

// store_alone writes and publishes a value of a key. A new key is written to the claimed slot. The
// slot of a present key gets a new control word.
__device__ __forceinline__ void store_alone(const Alone& a, bool there, const Place& at, uint32_t row, uint64_t block) {
  const ChangeParams& p = a.p;
  const Table& t = p.table;
  const uint8_t* value = a.ops().value(row);
  if (!there) {
    store_relaxed_system(t.pool + at.tag(t), a.item.tag);
    if (at.mirrored(t)) store_relaxed_system(at.words + t.slots + at.slot, a.item.tag);
    for (uint32_t i = 0; i < t.key_words; i++) store_relaxed_system(t.pool + at.key(t) + i, row_word(a.item.key, t.key_size, i));
  }
  for (uint32_t i = 0; i < t.value_words; i++) store_relaxed_system(t.pool + block + i, row_word(value, t.value_size, i));
  store_relaxed_system(t.pool + check_of(t, block), check_word(t, block, a.item.hash, crc32c_alone(value, t.value_size)));
  mark(t, p.space, block, true);
  fence_durable(t);
  say(t, at, at.was.next(kFull, block));
  if (there) return leave(p.space.lists.stale, p.space.lists.counts, at.was.block());
  add_relaxed(&t.counters->live, 1ul);
  add_relaxed(&t.counters->used, 1ul);
}

__device__ __forceinline__ void remove_alone(const Alone& a, const Place& at) {
  const Lists& l = a.p.space.lists;
  say(a.p.table, at, at.was.next(kTomb, 0));
  leave(l.stale, l.counts, at.was.block());
  leave(l.tombs, l.counts + 1, at.control());
  add_relaxed(&a.p.table.counters->live, ~0ul);
}

// change_by_lane runs all operations on a key. It returns false if they require a slot or memory
// that is not available.
__device__ __forceinline__ bool change_by_lane(const Alone& a) {
  const ChangeParams& p = a.p;
  const Table& t = p.table;
  const uint32_t late = uint32_t(a.item.hash >> (64 - kLateBits));
  if (p.changes.first != 0 && (load_relaxed(p.late + late / 32) >> late % 32 & 1)) return false;
  Place at{};
  Vacancy open{};
  const bool there = find(t, a.item, at, open);
  const uint64_t is = there ? at.was.block() : 0;
  Held v{there, kPool, 0, is};
  a.each([&](uint32_t row, uint32_t kind) WEFT_INLINE { v = settle_alone(v, row, kind); });
  if (v.there && v.from == kRow) {
    const uint64_t block = p.sorted.fresh ? p.sorted.fresh[a.begin] : 0;
    if (block == 0) return false;
    while (!there) {
      if (open.most == 0) return false;
      at = open.at;
      if (claim_alone(at)) break;
      Place again{};
      open = {};
      find(t, a.item, again, open);
    }
    store_alone(a, there, at, v.row, block);
  }
  report_alone(a, there, is);
  if (there && !v.there) remove_alone(a, at);
  return true;
}

// change_batch runs all operations on a key in the thread of the first operation.
__device__ __forceinline__ void change_batch(const ChangeParams& p) {
  const uint64_t i = thread_index();
  if (i >= p.changes.n) return;
  const uint32_t at = uint32_t(i), prefix = p.sorted.prefixes[at];
  const Item item = ops_from(p, at, at + 1, true).item;
  const Ops mine{p, item, at, at + 1, true};
  for (uint32_t before = at; before-- > 0 && p.sorted.prefixes[before] == prefix;)
    if (mine.is(p.sorted.rows[before])) return;
  fence();  // a lookup that reads any of these changes also reads that a change has begun
  uint32_t end = at + 1;
  while (end < p.changes.n && p.sorted.prefixes[end] == prefix) end++;
  if (!change_by_lane({p, item, at, end})) p.spilled.items[add_relaxed(p.spilled.count, 1u)] = at + 1;
}

}  // namespace weft::gphash

using namespace weft::gphash;

extern "C" __global__ void __launch_bounds__(kBlock, kGetBlocks) gphash_threads_get(GetParams p) { get_batch(p); }
extern "C" __global__ void __launch_bounds__(kBlock, kChangeBlocks) gphash_threads_change(ChangeParams p) { change_batch(p); }
