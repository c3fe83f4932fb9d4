// Byte strings of any length on a GPU (strings.go, gpu_strings.go). A slot has the hash of a key,
// and its control word points to the record (records.go). Before the kernels run, the host writes
// the records that a batch may store. Afterwards it frees the records without references. A warp
// resolves the operations on a key as for keys in slots (change.cuh). Then it stores a reference to
// a record in the slot, or deletes the slot.
#pragma once

#include "buckets.cuh"

namespace weft::gphash {

// ---- keys -----------------------------------------------------------------------

// Strings holds the keys of a batch. A span has the first word and the length of a key. `words`
// contains all keys, with zeros after the last byte of a key.
struct Strings {
  const uint64_t* spans;  // first word << 20 | length in bytes
  const uint64_t* words;
};

constexpr uint32_t kSpanBits = 20;  // twin: spanBits of package batch

// String is a key.
struct String {
  const uint64_t* words;
  uint32_t size;  // bytes

  __device__ __forceinline__ uint32_t count() const { return (size + 7) / 8; }
  // differs reports whether word i of the key differs from w, without the bytes after the end of
  // the key.
  __device__ __forceinline__ bool differs(uint32_t i, uint64_t w) const {
    const uint32_t left = size - 8 * i;
    return (words[i] ^ w) << (left < 8 ? 8 * (8 - left) : 0) != 0;
  }
};

__device__ __forceinline__ String string_of(const Strings& s, uint64_t row) {
  const uint64_t span = s.spans[row];
  return {s.words + (span >> kSpanBits), uint32_t(span & ((1ul << kSpanBits) - 1))};
}

// same_string reports whether two keys are the same. One lane executes it.
__device__ __forceinline__ bool same_string(const String& a, const String& b) {
  if (a.size != b.size) return false;
  for (uint32_t i = 0; i < a.count(); i++)
    if (a.words[i] != b.words[i]) return false;
  return true;
}

struct StringsHashParams {
  Table table;
  Strings keys;
  uint64_t* hashes;
  uint32_t* prefixes;
  uint64_t n;
};

__device__ __forceinline__ void hash_strings(const StringsHashParams& p) {
  const Table& t = p.table;
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid()) {
    const String key = string_of(p.keys, i);
    auto word = [&](uint32_t i) WEFT_INLINE { return key.words[i]; };
    const uint64_t h = t.fast ? fast_hash(t.seed0, t.seed1, key.size, word) : sip13(t.seed0, t.seed1, key.size, word);
    p.hashes[i] = h;
    p.prefixes[i] = uint32_t(h >> 32);
  }
}

// ---- records -----------------------------------------------------------------------

// Header is the first word of a record: the lengths of the key and the value, and a checksum (twin:
// header in records.go).
struct Header {
  uint64_t bits;

  static constexpr uint32_t kKeyBits = 13;

  __device__ __forceinline__ uint32_t key() const { return uint32_t(bits >> 32) & ((1u << kKeyBits) - 1); }
  __device__ __forceinline__ uint32_t value() const { return uint32_t(bits >> (32 + kKeyBits)); }
  __device__ __forceinline__ uint64_t words() const { return 1 + (key() + 7) / 8 + (uint64_t(value()) + 7) / 8; }
};

// has_key reports whether the record of a control word belongs to a key, and stores the record's
// header. The warp reads the header and the key at the same time. It reads nothing outside the
// pool, whatever the pool contains.
__device__ __forceinline__ bool has_key(const Table& t, Control c, const String& key, Header& header) {
  if (!sound(t, c)) return false;
  const uint64_t* record = t.pool + c.block();
  const uint64_t left = t.first + t.span - c.block();
  const uint32_t lane = lane_index(), words = key.count();
  const uint64_t mine = lane <= words && lane < left ? load_relaxed_system(record + lane) : 0;
  header.bits = shuffle(kAll, mine, 0);
  if (header.key() != key.size || header.words() > left) return false;
  bool differs = lane != 0 && lane <= words && key.differs(lane - 1, mine);
  for (uint32_t i = kWarp - 1 + lane; i < words; i += kWarp) differs |= key.differs(i, load_relaxed_system(record + 1 + i));
  return ballot(kAll, differs) == 0;
}

// Sought is a key to search for.
struct Sought {
  String key;
  uint64_t hash;
};

// pick finds the slot with the record of a key, among the slots that the lanes have read.
__device__ __forceinline__ bool pick(const Table& t, const Seen& s, const Sought& it, Place& at, Header& header) {
  uint32_t votes = ballot(kAll, s.there && s.tag == it.hash && s.control.state() == kFull);
  // orders reads of the record by all lanes after the read of its control word; shuffles do not
  sync_warp();
  for (; votes != 0; votes &= votes - 1) {
    at = place_of(s, lowest(votes));
    if (has_key(t, at.was, it.key, header)) return true;
  }
  return false;
}

// search finds the slot of a key. If it finds none, `open` holds the slots that it has read last.
// search reads the drained levels first.
template <Reading R>
__device__ __forceinline__ bool search(const Table& t, const Sought& it, Place& at, Seen& open, Header& header) {
  const uint32_t at_once = kWarp / (t.slots * t.hashes);
  for (uint32_t lo = t.live - t.closed; lo < t.live; lo += at_once)
    if (pick(t, see<R>(t, it.hash, lo, lo + at_once < t.live ? lo + at_once : t.live), it, at, header)) return true;
  open = read_open_slots<R>(t, it.hash);
  return pick(t, open, it, at, header);
}

// ---- lookups -----------------------------------------------------------------------

// StringsFindParams are lookups. No change runs at the same time.
struct StringsFindParams {
  Table table;
  Strings keys;
  const uint64_t* hashes;  // hash of each row
  const uint32_t* rows;    // rows in the order of their hashes; null: unsorted
  uint64_t* records;       // output: place of each key's record; 0 if the key is absent
  uint32_t* lengths;       // output: length of the value
  uint64_t n;
};

// find looks up one key per warp.
__device__ __forceinline__ void find(const StringsFindParams& p) {
  const uint64_t at = thread_index() / kWarp;
  if (at >= p.n) return;
  const uint64_t row = p.rows ? p.rows[at] : at;
  Place place;
  Seen open;
  Header header{0};
  const bool hit = search<kAtOnce>(p.table, {string_of(p.keys, row), p.hashes[row]}, place, open, header);
  if (lane_index() != 0) return;
  p.records[row] = hit ? place.was.block() : 0;
  p.lengths[row] = hit ? header.value() : 0;
}

// list lists the records of buckets.
__device__ __forceinline__ void list(const BucketsParams& p) {
  each_bucket(p, [&](const Place& lane) WEFT_INLINE {
    const bool has = lane.slot < p.table.slots && lane.was.state() == kFull && sound(p.table, lane.was);
    const uint32_t votes = ballot(kAll, has);
    if (votes == 0) return;
    uint64_t row = 0;
    if (lane_index() == 0) row = add_relaxed(p.to.count, uint64_t(popcount(votes)));
    row = shuffle(kAll, row, 0) + popcount(votes & ((1u << lane_index()) - 1));
    if (has && row < p.to.rows) static_cast<uint64_t*>(p.to.vals)[row] = lane.was.block();
  });
}

// ---- changes -----------------------------------------------------------------------

// StringsChangeParams are a batch with records as values. The host has written the records that
// operations may store. The value of other operations is 0. Results have the form of Kept.word.
struct StringsChangeParams {
  ChangeParams change;
  Strings keys;
  uint64_t* fates;  // fate of each row, zero before the launch; see below
};

// Bits of fates and results.
// In a fate, kReferenced means that a slot now refers to the record of the row. The other bits are
// the record that has lost its reference.
constexpr uint64_t kReferenced = 1ul << 63;
// In a result, kIsRow means that the other bits are a row of the batch. Otherwise they are the
// place of a record.
constexpr uint64_t kIsRow = 1ul << 63;

// Kept is the state of a key after some of its operations.
struct Kept {
  bool there;
  bool given;  // the value comes from a row of the batch
  uint64_t is;  // number of the row, or place of the record

  __device__ __forceinline__ uint64_t word() const { return given ? kIsRow | is : is; }
};

// StringOps are the operations of a launch on one key. One warp resolves them.
struct StringOps {
  const StringsChangeParams& p;
  Sought it;
  uint32_t begin, end;  // positions among the sorted operations
  bool others;          // some operations in between are on other keys

  // is reports whether a row has the key. One lane executes it.
  __device__ __forceinline__ bool is(uint32_t row) const {
    return p.change.sorted.hashes[row] == it.hash && same_string(string_of(p.keys, row), it.key);
  }
  // lanes_of_key assigns one operation to each lane, from number `from` on. It returns the lanes
  // with an operation on this key.
  __device__ __forceinline__ uint32_t lanes_of_key(uint32_t from, uint32_t& row) const {
    const uint32_t at = from + lane_index();
    bool yes = at < end;
    row = yes ? p.change.sorted.rows[at] : 0;
    if (yes && others) yes = is(row);
    return ballot(kAll, yes);
  }
  __device__ __forceinline__ uint32_t kind(uint32_t row) const {
    const Changes& c = p.change.changes;
    const uint32_t kind = c.kinds ? load_once(c.kinds + row) : c.kind;
    return kind <= kDelete || kind == kUpdate ? kind : uint32_t(kNone);
  }
  // each calls f(number, row, kind) for the operations on this key, in order, until f returns
  // false.
  template <class F>
  __device__ __forceinline__ void each(F f) const {
    for (uint32_t from = begin; from < end; from += kWarp) {
      uint32_t row, votes = lanes_of_key(from, row), kind_of = votes >> lane_index() & 1 ? kind(row) : uint32_t(kNone);
      for (; votes != 0; votes &= votes - 1) {
        const uint32_t l = lowest(votes);
        if (!f(from + l, shuffle(kAll, row, l), shuffle(kAll, kind_of, l))) return;
      }
    }
  }
  // among_many is Ops::among_many.
  __device__ __forceinline__ bool among_many() const { return others && end - begin > kLongRun; }
};

// stores reports whether an operation stores the value of its row for the key (twin: scenario in
// gpu_strings.go).
__device__ __forceinline__ bool stores(const Kept& v, uint32_t kind) { return kind == kPut || kind == (v.there ? kUpdate : uint32_t(kPutNew)); }

// apply_op updates the state of the key by an operation.
__device__ __forceinline__ void apply_op(Kept& v, uint32_t row, uint32_t kind) {
  if (kind == kDelete) v.there = false;
  if (stores(v, kind)) v = {true, true, row};
}

// Total is the result of the operations on a key.
struct Total {
  Kept before, after;  // before the first operation that stores, and after all operations
  uint32_t first;       // first operation that stores; end: none stores
};

__device__ __forceinline__ Total total_of(const StringOps& ops, const Kept& is) {
  Total sum{is, is, ops.end};
  ops.each([&](uint32_t at, uint32_t row, uint32_t kind) WEFT_INLINE {
    if (sum.first == ops.end && stores(sum.after, kind)) sum.first = at, sum.before = sum.after;
    apply_op(sum.after, row, kind);
    return true;
  });
  if (sum.first == ops.end) sum.before = sum.after;
  return sum;
}

// report writes the results of the operations before number `end`: flags, and what Get and PutNew
// find.
__device__ __forceinline__ void report(const StringOps& ops, const Kept& is, uint32_t end) {
  const Changes& c = ops.p.change.changes;
  if (c.ok == nullptr && c.out == nullptr) return;
  Kept v = is;
  ops.each([&](uint32_t at, uint32_t row, uint32_t kind) WEFT_INLINE {
    if (at >= end) return false;
    if (lane_index() == 0) {
      if (c.ok) store_once(c.ok + row, uint8_t(kind == kGet || kind == kUpdate || kind == kDelete ? v.there : stores(v, kind) && !v.there));
      if (c.out && v.there && (kind == kGet || kind == kPutNew)) static_cast<uint64_t*>(c.out)[row] = v.word();
    }
    apply_op(v, row, kind);
    return true;
  });
}

// fail lists the operations from number `first` on, so that they run again.
__device__ __forceinline__ void fail(const StringOps& ops, uint32_t first) {
  const Changes& c = ops.p.change.changes;
  for (uint32_t from = ops.begin; from < ops.end; from += kWarp) {
    uint32_t row, votes = ops.lanes_of_key(from, row);
    const bool yes = (votes >> lane_index() & 1) && from + lane_index() >= first;
    record(c.failed, c.first + row, yes);
    if (yes && c.ok) store_once(c.ok + row, uint8_t(0));
  }
}

// note records the new state of a slot for the log of an atomic batch.
__device__ __forceinline__ void note(const StringOps& ops, const Place& at, Control becomes) {
  if (lane_index() == 0) ops.p.change.entries[ops.begin] = {at.bucket, at.words, at.was.bits, becomes.bits, 0, at.slot, 0};
}

// put stores the record of a row for a key. A new key uses its claimed slot. A key with a slot gets
// a new control word there.
__device__ __forceinline__ void put(const StringOps& ops, bool there, const Place& at, uint64_t row, uint64_t block) {
  const Table& t = ops.p.change.table;
  const bool logged = ops.p.change.entries != nullptr;
  if (lane_index() == 0) ops.p.fates[row] = kReferenced | (there ? at.was.block() : 0);
  if (!there) write_slot(t, at, ops.it.hash, [](uint32_t) WEFT_INLINE { return 0ul; }, logged);
  if (logged) return note(ops, at, at.was.next(kFull, block));
  publish(t, at, block);
  if (there || lane_index() != 0) return;
  add_relaxed(&t.counters->live, 1ul);
  add_relaxed(&t.counters->used, 1ul);
}

__device__ __forceinline__ void remove(const StringOps& ops, const Place& at) {
  const ChangeParams& p = ops.p.change;
  const Lists& l = p.space.lists;
  if (lane_index() == 0) ops.p.fates[p.sorted.rows[ops.begin]] = at.was.block();
  if (p.entries) return note(ops, at, at.was.next(kTomb, 0));
  if (lane_index() != 0) return;
  say(p.table, at, at.was.next(kTomb, 0));
  store_relaxed(l.tombs + add_relaxed(l.counts + 1, 1u), at.control());
  add_relaxed(&p.table.counters->live, ~0ul);
}

// change_string runs all operations on a key.
template <Crowded C>
__device__ __forceinline__ void change_string(const StringOps& ops) {
  const ChangeParams& p = ops.p.change;
  const Table& t = p.table;
  Place at;
  Seen open;
  Header header;
  const bool there = search<kInOrder>(t, ops.it, at, open, header);
  const Kept is{there, false, there ? at.was.block() : 0};
  const Total sum = total_of(ops, is);
  bool failed = false;
  if (sum.after.there && sum.after.given) {
    const uint64_t row = sum.after.is, block = static_cast<const uint64_t*>(p.changes.vals)[row];
    bool taken = there || (block != 0 && take(t, ops.it.hash, open, at));
    if (C == kSpill && block != 0 && !taken && !ops.among_many()) {
      if (lane_index() == 0) p.spilled.items[add_relaxed(p.spilled.count, 1u)] = ops.begin + 1;
      return;
    }
    if (C == kForce && block != 0 && !taken) taken = claim_occupied<kInRecords>(p, ops.it.hash, at);
    failed = block == 0 || !taken;
    if (block == 0) store_relaxed(p.lacked, 1u);
    if (!failed) put(ops, there, at, row, block);
  }
  const Kept& after = failed ? sum.before : sum.after;
  report(ops, is, failed ? sum.first : ops.end);
  if (there && !after.there) remove(ops, at);
  if (failed) fail(ops, sum.first);
}

// string_ops_from returns the operations on the key of operation number `at`, which is the first on
// that key.
__device__ __forceinline__ StringOps string_ops_from(const StringsChangeParams& p, uint32_t at, uint32_t end, bool others) {
  const uint32_t row = p.change.sorted.rows[at];
  return {p, {string_of(p.keys, row), p.change.sorted.hashes[row]}, at, end, others};
}

// has_others reports whether any later operation before `end` is on another key than the first.
__device__ __forceinline__ bool has_others(const StringsChangeParams& p, uint32_t begin, uint32_t end) {
  const StringOps first = string_ops_from(p, begin, end, false);
  bool other = false;
  for (uint32_t at = begin + 1 + lane_index(); at < end; at += kWarp) other |= !first.is(p.change.sorted.rows[at]);
  return ballot(kAll, other) != 0;
}

// leads reports whether operation number `at` is the first on its key in its run. Mostly the
// previous operation is on the same key.
__device__ __forceinline__ bool leads(const StringsChangeParams& p, uint32_t at) {
  const StringOps ops = string_ops_from(p, at, at + 1, true);
  if (ballot(kAll, ops.is(p.change.sorted.rows[at - 1])) != 0) return false;
  for (uint32_t from = run_begin(p.change, at); from < at; from += kWarp) {
    const uint32_t i = from + lane_index();
    if (ballot(kAll, i < at && ops.is(p.change.sorted.rows[i])) != 0) return false;
  }
  return true;
}

// change_strings is change for records. The warp of the first operation on a key runs all
// operations on that key.
__device__ __forceinline__ void change_strings(const StringsChangeParams& p) {
  const uint64_t i = thread_index() / kWarp;
  if (i >= p.change.changes.n) return;
  const uint32_t at = uint32_t(i);
  const bool first = at == 0 || p.change.sorted.prefixes[at - 1] != p.change.sorted.prefixes[at];
  if (!first && !leads(p, at)) return;
  const uint32_t end = run_end(p.change, at);
  change_string<kSpill>(string_ops_from(p, at, end, !first || has_others(p, at, end)));
}

__device__ __forceinline__ void change_crowded_strings(const StringsChangeParams& p) {
  each_crowded(p.change, [&](uint32_t at, uint32_t end) WEFT_INLINE {
    change_string<kForce>(string_ops_from(p, at, end, has_others(p, at, end)));
  });
}

// follow_strings is follow for records.
__device__ __forceinline__ void follow_strings(const StringsChangeParams& p) {
  each_moved(p.change, [&](uint32_t i, const Entry&, Control becomes) WEFT_INLINE {
    const StringOps ops = string_ops_from(p, i, i + 1, false);
    Place at;
    Seen open;
    Header header;
    if (search<kInOrder>(p.change.table, ops.it, at, open, header)) note(ops, at, at.was.next(State(becomes.state()), becomes.block()));
  });
}

}  // namespace weft::gphash
