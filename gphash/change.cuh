// Changes of an index by a GPU. A batch is sorted by the first bits of the hashes of its keys. So
// the batch changes one region of the pool after the other, which is ten times as fast as random
// access. Operations on one key are adjacent. A warp resolves the operations on a key in their
// order, and then changes the key's slot once. A key competes only with keys that want the same
// free slot.
//
// The order of stores is that of change.go, with fewer fences. One fence lies between the stores of
// value, tag and key and the store of the word that publishes them. Another fence precedes each
// reuse, in the next launch (space.cuh).
//
// In a large batch, a warp has a round of several operations. It processes one key after the other,
// and writes the key's value. Then, after a single fence, each lane publishes one key. Values have
// memory in the sorted order (space.cuh), so their checksums are adjacent. The writes of these
// checksums cross the bus together.
#pragma once

#include "redo.cuh"

namespace weft::gphash {

// Sorted holds the operations of a launch in the order of their hashes.
struct Sorted {
  const uint64_t* hashes;    // hash of each row
  const uint32_t* prefixes;  // upper half of each hash, ascending
  const uint32_t* rows;
  const uint64_t* fresh;  // memory for the value of each operation; 0: none is left
};

struct ChangeParams {
  Table table;
  Space space;
  Changes changes;
  Sorted sorted;
  List spilled;     // first operation of each key without a slot
  uint32_t* late;   // one bit per hash prefix of kLateBits: operations must rerun
  uint32_t* lacked; // set if a value finds no memory
  // Entries of an atomic batch, or null. The index is the sorted position of a key's first
  // operation.
  Entry* entries;
  uint64_t fullest; // from this number of keys on, no key is moved for another
  uint32_t regions; // log2 of the number of regions
  uint32_t still;   // 1: no key is moved at all
  uint32_t round;   // operations per warp: 1 to kWarp
  uint32_t unused;
};

constexpr uint32_t kLateBits = 16;
constexpr uint32_t kLongRun = 1 << 10;  // operations; only a few keys share a prefix by chance

// kUpdate is op.Update, which other structures do not have.
constexpr uint32_t kUpdate = kNone + 1;

// ---- operations on one key ------------------------------------------------------

// From is the source of a value.
enum From : uint32_t { kPool, kRow, kCombined };

// Held is the state of a key after some of its operations.
struct Held {
  bool there;
  From from;
  uint32_t row;
  uint64_t is;  // place of the value in the pool, or the combined value
};

// Ops are the operations of a launch on one key. One warp resolves them.
struct Ops {
  const ChangeParams& p;
  Item item;
  uint32_t begin, end;  // positions among the sorted operations
  bool others;          // some operations in between are on other keys

  __device__ __forceinline__ const uint8_t* key(uint32_t row) const {
    return static_cast<const uint8_t*>(p.changes.keys) + uint64_t(row) * p.table.key_size;
  }
  __device__ __forceinline__ const uint8_t* value(uint32_t row) const {
    return static_cast<const uint8_t*>(p.changes.vals) + uint64_t(row) * p.table.value_size;
  }
  __device__ __forceinline__ uint8_t* out(uint32_t row) const {
    return static_cast<uint8_t*>(p.changes.out) + uint64_t(row) * p.table.value_size;
  }
  // is reports whether a row has the key. One lane executes it.
  __device__ __forceinline__ bool is(uint32_t row) const {
    return p.sorted.hashes[row] == item.hash && same_row(key(row), item.key, p.table.key_size);
  }
  // lanes_of_key assigns one operation to each lane, from number `from` on. It returns the lanes
  // with an operation on this key.
  __device__ __forceinline__ uint32_t lanes_of_key(uint32_t from, uint32_t& row) const {
    uint32_t at = from + lane_index();
    bool yes = at < end;
    row = yes ? p.sorted.rows[at] : 0;
    if (yes && others) yes = is(row);
    return ballot(kAll, yes);
  }
  __device__ __forceinline__ uint32_t kind(uint32_t row) const {
    const Changes& c = p.changes;
    uint32_t kind = c.kinds ? load_once(c.kinds + row) : c.kind;
    if (kind <= kDelete || kind == kUpdate) return kind;
    bool combines = p.table.value_size == 4 || p.table.value_size == 8;
    return combines && reduces(kind) && kind <= ((c.flags & kFloat) ? kMax : kOr) ? kind : uint32_t(kNone);
  }

  // each calls f(number, row, kind) for the operations on this key, in order, until f returns
  // false.
  template <class F>
  __device__ __forceinline__ void each(F f) const {
    for (uint32_t from = begin; from < end; from += kWarp) {
      uint32_t row, votes = lanes_of_key(from, row), kind_of = votes >> lane_index() & 1 ? kind(row) : uint32_t(kNone);
      for (; votes != 0; votes &= votes - 1) {
        uint32_t l = lowest(votes);
        if (!f(from + l, shuffle(kAll, row, l), shuffle(kAll, kind_of, l))) return;
      }
    }
  }

  // word returns the value of v, which has at most 8 bytes.
  __device__ __forceinline__ uint64_t word(const Held& v) const {
    if (v.from == kPool) return load_relaxed_system(p.table.pool + v.is);
    return v.from == kRow ? row_word(value(v.row), p.table.value_size, 0) : v.is;
  }

  // stores reports whether an operation stores a value for the key.
  __device__ __forceinline__ static bool stores(const Held& v, uint32_t kind) {
    return kind == kPut || kind == (v.there ? kUpdate : uint32_t(kPutNew)) || reduces(kind);
  }

  // apply_op updates the state of the key by an operation.
  __device__ __forceinline__ void apply_op(Held& v, uint32_t row, uint32_t kind) const {
    if (kind == kDelete) v.there = false;
    if (!stores(v, kind)) return;
    if (v.there && reduces(kind)) {
      uint64_t a = word(v), b = row_word(value(row), p.table.value_size, 0);
      if (p.table.value_size == 4) v.is = combine(kind, p.changes.flags, uint32_t(a), uint32_t(b));
      else v.is = combine(kind, p.changes.flags, a, b);
      v.from = kCombined;
      return;
    }
    v = {true, kRow, row, 0};
  }

  // reads_key reports whether any operation reads the key. The other operations only change it.
  __device__ __forceinline__ bool reads_key() const {
    bool yes = false;
    each([&](uint32_t, uint32_t, uint32_t kind) WEFT_INLINE { return !(yes = kind == kGet || (kind == kPutNew && p.changes.out)); });
    return yes;
  }

  // among_many reports whether many other operations have the same prefix and some are on other
  // keys. The region has only one warp, which would read them again for each key. Such a key finds
  // no slot, as if no key could be moved.
  __device__ __forceinline__ bool among_many() const { return others && end - begin > kLongRun; }

  // uniform reports whether all operations are of one kind and none returns a value. Then the first
  // or the last operation decides.
  __device__ __forceinline__ bool uniform() const {
    return p.changes.kinds == nullptr && p.changes.out == nullptr && p.changes.kind <= kDelete;
  }
};

// Sum is the result of the operations on a key.
struct Sum {
  Held before, after;  // before the first operation that stores, and after all operations
  uint32_t first;       // first operation that stores; end: none stores
};

// sum_up resolves all operations on a key. `there` is true if the index has the key.
__device__ __forceinline__ Sum sum_up(const Ops& ops, bool there, uint64_t block) {
  const Held is{there, kPool, 0, block};
  Sum sum{is, is, ops.end};
  if (ops.uniform() && !ops.others) {
    uint32_t kind = ops.p.changes.kind, at = kind == kPut ? ops.end - 1 : ops.begin;
    if (Ops::stores(is, kind)) sum.first = ops.begin;
    ops.apply_op(sum.after, ops.p.sorted.rows[at], kind);
    return sum;
  }
  ops.each([&](uint32_t at, uint32_t row, uint32_t kind) WEFT_INLINE {
    if (sum.first == ops.end && Ops::stores(sum.after, kind)) sum.first = at, sum.before = sum.after;
    ops.apply_op(sum.after, row, kind);
    return true;
  });
  if (sum.first == ops.end) sum.before = sum.after;
  return sum;
}

// report writes the results of the operations before number `end`: flags, and the values of Get and
// PutNew. Values and results may be one column. So if a later operation reads a row, report clears
// the row after that.
__device__ __forceinline__ void report(const Ops& ops, bool there, uint64_t block, uint32_t end) {
  const Changes& c = ops.p.changes;
  const Table& t = ops.p.table;
  if (c.ok == nullptr && c.out == nullptr) return;
  Held v{there, kPool, 0, block};
  ops.each([&](uint32_t at, uint32_t row, uint32_t kind) WEFT_INLINE {
    if (at >= end) return false;
    const bool stores = Ops::stores(v, kind), returns = v.there && (kind == kGet || kind == kPutNew);
    if (c.ok && lane_index() == 0)
      store_once(c.ok + row, uint8_t(kind == kGet || kind == kUpdate || kind == kDelete ? v.there : stores && !v.there));
    if (c.out == nullptr) {
      ops.apply_op(v, row, kind);
      return true;
    }
    if (returns) {
      if (v.from == kPool) read_value(t, v.is, ops.out(row));
      else if (v.from == kCombined && lane_index() == 0) put_word(ops.out(row), t.value_size, 0, v.is);
      else if (v.from == kRow)
        for (uint32_t i = lane_index(); i < t.value_words; i += kWarp)
          put_word(ops.out(row), t.value_size, i, row_word(ops.value(v.row), t.value_size, i));
    }
    const Held was = v;
    ops.apply_op(v, row, kind);
    sync_warp();
    auto reads = [&](uint32_t row) WEFT_INLINE { return v.there && v.from == kRow && v.row == row; };
    if (was.there && was.from == kRow && !reads(was.row)) clear_value(t, ops.out(was.row));
    if (!returns && !reads(row)) clear_value(t, ops.out(row));
    sync_warp();
    return true;
  });
  if (c.out && v.there && v.from == kRow) clear_value(t, ops.out(v.row));
}

// report_uniform is report for operations of one kind. Only the first can have changed the key.
__device__ __forceinline__ void report_uniform(const Ops& ops, bool there) {
  if (ops.p.changes.ok == nullptr) return;
  const bool changed = ops.p.changes.kind == kDelete ? there : !there;
  for (uint32_t from = ops.begin; from < ops.end; from += kWarp) {
    uint32_t row, votes = ops.lanes_of_key(from, row);
    if (votes >> lane_index() & 1)
      store_once(ops.p.changes.ok + row, uint8_t(changed && from + lane_index() == ops.begin));
  }
}

// fail lists the operations from number `first` on, so that they run again.
__device__ __forceinline__ void fail(const Ops& ops, uint32_t first) {
  const Changes& c = ops.p.changes;
  for (uint32_t from = ops.begin; from < ops.end; from += kWarp) {
    uint32_t row, votes = ops.lanes_of_key(from, row);
    bool yes = (votes >> lane_index() & 1) && from + lane_index() >= first;
    record(c.failed, c.first + row, yes);
    if (yes && c.ok) store_once(c.ok + row, uint8_t(0));
    if (!yes || c.out == nullptr || c.out == c.vals) continue;
    // the column of results may become the column of values
    for (uint32_t i = 0; i < ops.p.table.value_words; i++)
      put_word(ops.out(row), ops.p.table.value_size, i, c.vals ? row_word(ops.value(row), ops.p.table.value_size, i) : 0);
  }
  uint32_t late = uint32_t(ops.item.hash >> (64 - kLateBits));
  if (lane_index() == 0) or_relaxed(ops.p.late + late / 32, 1u << late % 32);
}

// ---- slots ------------------------------------------------------------------------

// say changes the control word of a slot, first in the pool and then in the mirror.
__device__ __forceinline__ void say(const Table& t, const Place& at, Control c) {
  store_relaxed_system(t.pool + at.control(), c.bits);
  if (at.mirrored(t)) store_relaxed_system(at.words + at.slot, c.bits);
}

// claim takes a slot for a key, unless another warp was faster. It stores the claiming word in
// `was`. Only threads of this device compete for the slot. While a device has mapped a pool, the
// host reads and changes slots only after the device's launches. So the swap has device scope. A
// swap of system scope would also promise atomicity to the host, which a bus without atomics does
// not keep. As for every store here, a fence of system scope makes the swap durable and orders it
// for the host. That is the thread's next fence before the slot is published. If a key has left the
// slot, it is the next fence before the slot is overwritten.
__device__ __forceinline__ bool claim(const Table& t, Place& at) {
  const Control claimed = at.was.next(kWriting, 0);
  bool lost = false;
  if (lane_index() == 0) lost = cas_relaxed(at.words + at.slot, at.was.bits, claimed.bits) != at.was.bits;
  if (ballot(kAll, lost) != 0) return false;
  at.was = claimed;
  return true;
}

// write_slot writes the tag and the key of a claimed slot. In an atomic batch, the tag goes to the
// pool later, with the control word.
template <class Word>
__device__ __forceinline__ void write_slot(const Table& t, const Place& at, uint64_t tag, Word word, bool logged = false) {
  const uint32_t lane = lane_index();
  if (lane == 0) {
    if (!logged) store_relaxed_system(t.pool + at.tag(t), tag);
    if (at.mirrored(t)) store_relaxed_system(at.words + t.slots + at.slot, tag);
  }
  if (lane < t.key_words) store_relaxed_system(t.pool + at.key(t) + lane, word(lane));
}

// publish publishes a slot. The key and the value must have been written before.
__device__ __forceinline__ void publish(const Table& t, const Place& at, uint64_t block) {
  sync_warp();
  if (lane_index() == 0) {
    fence_durable(t);
    say(t, at, at.was.next(kFull, block));
  }
}

// succeed moves the cache entry and the heat of a replaced value to the new value. It returns the
// address of the cache entry, or null. A value that replaces none is cold, whatever its memory held
// before.
__device__ __forceinline__ uint64_t* succeed(const Table& t, bool replaces, uint64_t was, uint64_t block) {
  if (t.cached == nullptr) return nullptr;
  uint32_t y = kNotCached, heat = 0;
  if (lane_index() == 0) {
    if (replaces) {
      const uint64_t from = number_of(t, was);
      y = load_relaxed(t.cached + from), heat = load_relaxed(t.heat + from);
      store_relaxed(t.cached + from, kNotCached);
    }
    const uint64_t to = number_of(t, block);
    store_relaxed(t.cached + to, y);
    store_relaxed(t.heat + to, heat);
  }
  y = shuffle(kAll, y, 0);
  return y == kNotCached ? nullptr : t.cache + uint64_t(y) * t.value_words;
}

// store writes the value of a key to the value's own memory, and also to the cache. It returns the
// word with the value's checksum. Concurrent lookups read the pool.
__device__ __forceinline__ uint64_t store(const Ops& ops, const Held& v, uint64_t block, uint64_t* cached) {
  const Table& t = ops.p.table;
  auto word = [&](uint32_t i) WEFT_INLINE { return v.from == kRow ? row_word(ops.value(v.row), t.value_size, i) : v.is; };
  for (uint32_t i = lane_index(); i < t.value_words; i += kWarp) {
    store_relaxed_system(t.pool + block + i, word(i));
    if (cached) store_relaxed_system(cached + i, word(i));
  }
  uint32_t crc = crc32c_warp(t.value_size, [&](uint32_t i) WEFT_INLINE { return uint32_t(word(i / 2) >> 32 * (i % 2)); });
  return check_word(t, block, ops.item.hash, crc);
}

// note records the new state of a slot for the log of an atomic batch.
__device__ __forceinline__ void note(const Ops& ops, const Place& at, Control becomes, uint64_t check) {
  if (lane_index() != 0) return;
  ops.p.entries[ops.begin] = {at.bucket, at.words, at.was.bits, becomes.bits, check, at.slot, 0};
}

// ---- rounds -----------------------------------------------------------------------

// Becoming is the new state of a slot. One lane publishes it.
struct Becoming {
  uint64_t at;      // index of the slot's control word in the pool
  uint64_t* read;   // address where lookups read it; null: in the pool
  uint64_t bits;    // new control word
  uint64_t check;   // word with the checksum of the new value, if any
  uint64_t stale;   // block of the old value; 0: none
};

// Round is the work that a warp must still publish: one slot for each of its first n lanes.
struct Round {
  uint32_t n;
  Becoming mine;
};

// become assigns the new state of a slot to the next lane.
__device__ __forceinline__ void become(Round& r, const Table& t, const Place& at, Control c, uint64_t check, uint64_t stale) {
  if (lane_index() == r.n) r.mine = {at.control(), at.mirrored(t) ? at.words + at.slot : nullptr, c.bits, check, stale};
  r.n++;
}

// finish publishes the new states of keys. Everything except the checksums has been written before.
// finish lists the replaced values and deleted slots for the next launch.
__device__ __forceinline__ void finish(const ChangeParams& p, Round& r) {
  if (r.n == 0) return;
  const Table& t = p.table;
  const Lists& l = p.space.lists;
  const Control c{r.mine.bits};
  const bool mine = lane_index() < r.n, full = mine && c.state() == kFull, replaces = mine && r.mine.stale != 0;
  if (full) {
    store_relaxed_system(t.pool + check_of(t, c.block()), r.mine.check);
    mark(t, p.space, c.block(), true);
  }
  sync_warp();  // lanes publish what other lanes have written
  if (mine) {
    fence_durable(t);
    store_relaxed_system(t.pool + r.mine.at, c.bits);
    if (r.mine.read) store_relaxed_system(r.mine.read, c.bits);
  }
  add(l.stale, l.counts, replaces, r.mine.stale);
  add(l.tombs, l.counts + 1, mine && !full, r.mine.at);
  const uint32_t came = popcount(ballot(kAll, full && !replaces)), went = popcount(ballot(kAll, mine && !full));
  if (lane_index() == 0 && came != went) add_relaxed(&t.counters->live, uint64_t(came) - went);
  if (lane_index() == 0 && came != 0) add_relaxed(&t.counters->used, uint64_t(came));
  r.n = 0;
}

__device__ __forceinline__ void remove(const Ops& ops, const Place& at, Round& r) {
  const Control c = at.was.next(kTomb, 0);
  if (ops.p.entries) return note(ops, at, c, 0);
  become(r, ops.p.table, at, c, 0, at.was.block());
}

// take claims a free slot among the slots in `open`. If another warp was faster, take reads the
// slots again.
__device__ __forceinline__ bool take(const Table& t, uint64_t hash, Seen& open, Place& at) {
  for (;; open = read_open_slots<kInOrder>(t, hash)) {
    if (!vacant(t, open, at)) return false;
    if (claim(t, at)) return true;
  }
}

// ---- moves of other keys ----------------------------------------------------------

// hash_of returns the hash of the key of a slot. word(i) reads word i of the key.
template <Keys K, class Word>
__device__ __forceinline__ uint64_t hash_of(const Table& t, uint64_t tag, Word word) {
  return K == kInRecords || t.key_words ? tag : hash_key(t, word);
}

// displace_key moves another key from a candidate slot of this key to a free slot elsewhere. It
// claims the slot that the moved key leaves.
template <Keys K>
__device__ __forceinline__ bool displace_key(const Table& t, uint64_t hash, Place& from) {
  Seen s = read_open_slots<kInOrder>(t, hash);
  for (uint32_t votes = ballot(kAll, s.there && s.control.state() == kFull); votes != 0; votes &= votes - 1) {
    from = place_of(s, lowest(votes));
    const uint64_t tag = shuffle(kAll, s.tag, lowest(votes));
    auto word = [&](uint32_t i) WEFT_INLINE { return t.key_words ? load_relaxed_system(t.pool + from.key(t) + i) : tag; };
    Place to;
    if (!vacant(t, read_open_slots<kInOrder>(t, hash_of<K>(t, tag, word)), to) || !claim(t, to)) continue;
    write_slot(t, to, tag, word);
    publish(t, to, from.was.block());
    if (lane_index() == 0) fence_durable(t);  // the key is in two slots now, and stays in one
    sync_warp();
    const bool taken = claim(t, from);
    if (lane_index() == 0) {
      if (from.mirrored(t)) store_relaxed_system(t.pool + from.control(), from.was.bits);
      fence_durable(t);  // the key's removal is durable before the slot is overwritten
    }
    sync_warp();
    return taken;
  }
  return false;
}

// claim_occupied claims the slot of another key. Lookups that miss that key meanwhile search again.
template <Keys K>
__device__ __forceinline__ bool claim_occupied(const ChangeParams& p, uint64_t hash, Place& at) {
  const Table& t = p.table;
  if (p.still || load_relaxed(&t.counters->live) >= p.fullest) return false;
  if (lane_index() == 0) add_relaxed(&t.clocks->moves_begun, 1u);
  fence();
  sync_warp();
  const bool taken = displace_key<K>(t, hash, at);
  sync_warp();
  if (lane_index() == 0) add_release(&t.clocks->moves_ended, 1u);
  return taken;
}

// ---- the change of a key ---------------------------------------------------------

// Crowded selects what happens to a key that finds no slot: kSpill lists it, kForce moves another
// key.
enum Crowded { kSpill, kForce };

// put stores a value for a key. A new key uses its claimed slot. A key with a slot gets a new
// control word there.
__device__ __forceinline__ void put(const Ops& ops, bool there, const Place& at, const Held& v, uint64_t block, Round& r) {
  const Table& t = ops.p.table;
  const bool logged = ops.p.entries != nullptr;
  if (!there) write_slot(t, at, ops.item.tag, [&](uint32_t i) WEFT_INLINE { return row_word(ops.item.key, t.key_size, i); }, logged);
  const uint64_t check = store(ops, v, block, succeed(t, there, at.was.block(), block));
  const Control c = at.was.next(kFull, block);
  if (logged) return note(ops, at, c, check);
  become(r, t, at, c, check, there ? at.was.block() : 0);
}

// change_key runs all operations on a key, but does not publish the result.
template <Crowded C>
__device__ __forceinline__ void change_key(const Ops& ops, Round& r) {
  const ChangeParams& p = ops.p;
  const Table& t = p.table;
  uint32_t late = uint32_t(ops.item.hash >> (64 - kLateBits));
  if (p.changes.first != 0 && ballot(kAll, load_relaxed(p.late + late / 32) >> late % 32 & 1) != 0) return fail(ops, 0);
  Place at;
  Seen open;
  const bool there = search<kInOrder>(t, ops.item, at, open);
  const uint64_t is = there ? at.was.block() : 0;
  // once per key, like get, and before another value takes over the heat
  if (t.cache_read && ops.reads_key()) {
    if (t.levels->heat) warm_buckets(t, ops.item.hash);
    if (t.cached && there && p.changes.out) warm_value(t, is);
  }
  const Sum sum = sum_up(ops, there, is);
  bool failed = false;
  if (sum.after.there && (!there || sum.after.from != kPool)) {
    const uint64_t block = p.sorted.fresh ? p.sorted.fresh[ops.begin] : 0;
    bool taken = there || (block != 0 && take(t, ops.item.hash, open, at));
    if (C == kSpill && block != 0 && !taken && !ops.among_many()) {
      if (lane_index() == 0) p.spilled.items[add_relaxed(p.spilled.count, 1u)] = ops.begin + 1;
      return;
    }
    if (C == kForce && block != 0 && !taken) taken = claim_occupied<kInSlots>(p, ops.item.hash, at);
    failed = block == 0 || !taken;
    if (block == 0) store_relaxed(p.lacked, 1u);
    if (!failed) put(ops, there, at, sum.after, block, r);
  }
  const Held& after = failed ? sum.before : sum.after;
  if (ops.uniform() && !ops.others && !failed) report_uniform(ops, there);
  else report(ops, there, is, failed ? sum.first : ops.end);
  if (there && !after.there) remove(ops, at, r);
  if (failed) fail(ops, sum.first);
}

// ops_from returns the operations on the key of operation number `at`, which is the first on that
// key.
__device__ __forceinline__ Ops ops_from(const ChangeParams& p, uint32_t at, uint32_t end, bool others) {
  const uint32_t row = p.sorted.rows[at];
  const uint8_t* key = static_cast<const uint8_t*>(p.changes.keys) + uint64_t(row) * p.table.key_size;
  return {p, item_of(p.table, key, p.sorted.hashes[row]), at, end, others};
}

// run_end returns the end of the run of operations with the prefix of operation number `at`.
__device__ __forceinline__ uint32_t run_end(const ChangeParams& p, uint32_t at) {
  const uint32_t prefix = p.sorted.prefixes[at];
  for (uint32_t from = at + 1;; from += kWarp) {
    uint32_t i = from + lane_index();
    uint32_t votes = ballot(kAll, i >= p.changes.n || p.sorted.prefixes[i] != prefix);
    if (votes != 0) return from + lowest(votes);
  }
}

// has_others reports whether any later operation before `end` is on another key than the first.
__device__ __forceinline__ bool has_others(const ChangeParams& p, uint32_t begin, uint32_t end) {
  if (end == begin + 1) return false;
  const Ops first = ops_from(p, begin, end, false);
  bool other = false;
  for (uint32_t at = begin + 1 + lane_index(); at < end; at += kWarp) other |= !first.is(p.sorted.rows[at]);
  return ballot(kAll, other) != 0;
}

// run_begin returns the first operation with the prefix of operation number `at`.
__device__ __forceinline__ uint32_t run_begin(const ChangeParams& p, uint32_t at) {
  const uint32_t prefix = p.sorted.prefixes[at];
  uint32_t lo = 0;
  for (uint32_t hi = at; lo < hi;) {
    const uint32_t mid = lo + (hi - lo) / 2;
    if (p.sorted.prefixes[mid] < prefix) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

// repeats reports whether an operation is on the key of the previous operation. One lane executes
// it.
__device__ __forceinline__ bool repeats(const ChangeParams& p, uint32_t at) {
  const uint64_t row = p.sorted.rows[at], before = p.sorted.rows[at - 1];
  const uint8_t* keys = static_cast<const uint8_t*>(p.changes.keys);
  const uint32_t size = p.table.key_size;
  return p.sorted.hashes[row] == p.sorted.hashes[before] && same_row(keys + row * size, keys + before * size, size);
}

// leads reports whether operation number `at` is the first on its key in its run.
__device__ __forceinline__ bool leads(const ChangeParams& p, uint32_t at) {
  const Ops ops = ops_from(p, at, at + 1, true);
  for (uint32_t from = run_begin(p, at); from < at; from += kWarp) {
    const uint32_t i = from + lane_index();
    if (ballot(kAll, i < at && ops.is(p.sorted.rows[i])) != 0) return false;
  }
  return true;
}

// each_key calls change_one(ops, round) once per key. The warp of the key's first operation makes
// the call. The operations with the same prefix follow this operation, and mostly all are on this
// key. Each other key among them is the work of the warp with its own first operation. An attacker
// with the hash function can make many keys with one prefix. Several warps share such keys.
template <class R, class F>
__device__ __forceinline__ void each_key(const ChangeParams& p, F change_one) {
  const uint64_t from = thread_index() / kWarp * p.round;
  if (from >= p.changes.n) return;
  const uint32_t mine = uint32_t(from) + lane_index();
  const bool there = lane_index() < p.round && mine < p.changes.n;
  const bool first = there && (mine == 0 || p.sorted.prefixes[mine - 1] != p.sorted.prefixes[mine]);
  const uint32_t firsts = ballot(kAll, first);
  uint32_t votes = firsts | ballot(kAll, there && !first && !repeats(p, mine));
  if (votes == 0) return;
  fence();  // a lookup that reads any of these stores also reads that a change has begun
  R r{};
  for (; votes != 0; votes &= votes - 1) {
    const uint32_t at = uint32_t(from) + lowest(votes);
    const bool repeated = (firsts >> lowest(votes) & 1) == 0;  // not the first key with its prefix
    if (repeated && !leads(p, at)) continue;
    const uint32_t end = run_end(p, at);
    change_one(ops_from(p, at, end, repeated || has_others(p, at, end)), r);
  }
  finish(p, r);
}

__device__ __forceinline__ void change(const ChangeParams& p) {
  each_key<Round>(p, [](const Ops& ops, Round& r) WEFT_INLINE { change_key<kSpill>(ops, r); });
}

// each_crowded calls change_one(at, end) for the keys that each_key has left over. One warp per
// region makes the calls, and no other warp changes anything in the region. Operation number `at`
// is the first on a key. The operations with its prefix end before number `end`.
template <class F>
__device__ __forceinline__ void each_crowded(const ChangeParams& p, F change_one) {
  const uint32_t n = load_relaxed(p.spilled.count);
  const uint64_t region = thread_index() / kWarp;
  if (n == 0 || region >> p.regions != 0) return;
  fence();
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = load_relaxed(p.spilled.items + i) - 1;  // cleared after it has run
    if (at >= p.changes.n || uint64_t(p.sorted.prefixes[at]) << p.regions >> 32 != region) continue;
    change_one(at, run_end(p, at));
    sync_warp();
    if (lane_index() == 0) store_relaxed(p.spilled.items + i, 0u);
  }
}

__device__ __forceinline__ void change_crowded(const ChangeParams& p) {
  each_crowded(p, [&](uint32_t at, uint32_t end) WEFT_INLINE {
    Round r{};
    change_key<kForce>(ops_from(p, at, end, has_others(p, at, end)), r);
    finish(p, r);
  });
}

// each_moved calls f(number, entry, new control word) for keys of an atomic batch that were moved
// for other keys of the batch.
template <class F>
__device__ __forceinline__ void each_moved(const ChangeParams& p, F f) {
  if (load_relaxed(p.spilled.count) == 0) return;
  for (uint64_t i = thread_index() / kWarp; i < p.changes.n; i += threads_in_grid() / kWarp) {
    const Entry& e = p.entries[i];
    const Control becomes{e.becomes};
    if (e.becomes == 0 || Control{e.was}.state() != kFull || load_relaxed_system(e.words + e.slot) == e.was) continue;
    f(uint32_t(i), e, becomes);
    sync_warp();
  }
}

// follow finds the keys of each_moved again, and records their new slots.
__device__ __forceinline__ void follow(const ChangeParams& p) {
  each_moved(p, [&](uint32_t i, const Entry& e, Control becomes) WEFT_INLINE {
    const Ops ops = ops_from(p, i, i + 1, false);
    const uint64_t check = e.check;
    Place at;
    Seen open;
    if (search<kInOrder>(p.table, ops.item, at, open)) note(ops, at, at.was.next(State(becomes.state()), becomes.block()), check);
  });
}

}  // namespace weft::gphash
