// Lookups and changes of an index that stores slot states in the words of keys, for measurements.
// This is the form of sections 3.1 and 3.2.3 of the GPHash paper, for 8-byte keys. Three reserved
// keys mark a slot as free, being written, or deleted. The other word of a slot holds only the
// address of the value. A warp therefore first reads the key words of all its buckets, which are
// half of their words. Then it reads one word of the slot that has its key.
//
// Everything else is as in the kernels of gphash.cu, with the same parameters. This includes
// levels, positions of keys, memory of values, the order of operations, and fences. Keys are never
// moved.
//
// The word of the value keeps the form of a control word, with the number of the launch as its
// version. The pool can therefore be converted back to the form of gphash.cu. After a crash, the
// pool has neither form.
#include "buckets.cuh"
#include "lookup.cuh"
#include "tuning.cuh"

namespace weft::gphash {

// ---- slots ------------------------------------------------------------------------

// Key words of slots without a key.
constexpr uint64_t kEmptyKey = 0, kInsertKey = 1, kTombKey = 2;

__device__ __forceinline__ bool reserved(uint64_t key) { return key <= kTombKey; }

// read_keys makes a warp read the keys of all candidate slots. vacant tests the state in control.
// So read_keys sets this state, by whether the key word marks the slot as free.
template <Reading R>
__device__ __forceinline__ Seen read_keys(const Table& t, uint64_t hash) {
  const uint32_t lane = lane_index(), per = t.slots * t.hashes, k = lane / per, j = lane % per / t.slots;
  Seen s{k < t.live, lane % per % t.slots, 0, nullptr, {0}, kInsertKey};
  const Level& l = t.levels[s.there ? k : 0];
  const uint64_t b = bucket_of(l, hash, j);
  for (uint32_t i = 0; i + 1 < t.hashes; i++) {  // a bucket that two functions select is read once
    const uint64_t other = shuffle(kAll, b, s.there ? k * per + i * t.slots : 0);
    if (i < j && other == b) s.there = false;
  }
  if (!s.there) return s;
  s.bucket = l.base + b * t.bucket_words, s.words = t.pool + s.bucket;
  uint64_t* at = s.words + t.slots + s.slot;
  s.tag = R == kInOrder ? load_acquire_system(at) : load_relaxed_system(at);
  if (s.tag != kEmptyKey) s.control = s.control.next(kWriting, 0);
  return s;
}

// find_key finds the slot of a key and then the address of its value. open receives the slots that
// the warp has read. With kInOrder, changes may run concurrently. find_key then reads the key again
// after the word of the value, because an insertion of another key may have written that word.
template <Reading R>
__device__ __forceinline__ bool find_key(const Table& t, const Item& it, Place& at, Seen& open) {
  for (;;) {
    open = read_keys<R>(t, it.hash);
    const uint32_t votes = ballot(kAll, open.there && open.tag == it.tag);
    sync_warp();
    if (votes == 0) return false;
    at = place_of(open, lowest(votes));
    bool changed = false;
    if (lane_index() == 0) {
      at.was.bits = R == kInOrder ? load_acquire_system(at.words + at.slot) : load_relaxed_system(at.words + at.slot);
      if (R == kInOrder) changed = load_acquire_system(at.words + t.slots + at.slot) != it.tag;
    }
    at.was.bits = shuffle(kAll, at.was.bits, 0);
    const bool again = ballot(kAll, changed) != 0;
    sync_warp();
    if (!again) return sound(t, at.was);
  }
}

// ---- lookups ----------------------------------------------------------------------

// get_reserved is get for an index with states in the words of keys.
__device__ __forceinline__ bool get_reserved(const Table& t, const Item& it, uint8_t* row) {
  if (reserved(it.tag)) return false;
  Place at;
  Seen open;
  const uint32_t quiet = load_acquire(&t.clocks->ended);
  bool hit = find_key<kAtOnce>(t, it, at, open);
  if (hit) copy_value(t, t.pool + at.was.block(), row);
  fence();
  if (ballot(kAll, load_relaxed(&t.clocks->begun) != quiet) == 0) return hit;
  for (;;) {
    hit = find_key<kInOrder>(t, it, at, open);
    if (!hit) return false;
    copy_value(t, t.pool + at.was.block(), row);
    fence();
    const uint64_t* words = at.words + at.slot;
    const bool changed = load_relaxed_system(words + t.slots) != it.tag || load_relaxed_system(words) != at.was.bits;
    if (ballot(kAll, changed) == 0) return true;
  }
}

__device__ __forceinline__ void get_batch(const GetParams& p) {
  const Table& t = p.table;
  const bool hit = look_up<kWarp>(p, [&](const Item& it, uint8_t* value) WEFT_INLINE {
    const bool hit = get_reserved(t, it, value);
    if (!hit) clear_value(t, value);
    return hit;
  });
  if (p.lookup.hits) count(p.lookup.hits, hit && lane_index() == 0);
}

// ---- changes ----------------------------------------------------------------------

// bits of ChangeParams.lacked, as in variant.GPHash
constexpr uint32_t kLacksMemory = 1, kHasReserved = 2;

// Turn is a word of the pool that one lane of a round publishes.
struct Turn {
  uint64_t at, bits;  // the word, and its new content
  uint64_t block;     // memory of the key's new value; 0: none
  uint64_t check;     // word with the checksum of the new value
  uint64_t stale;     // memory of the previous value; 0: none
};

struct Turns {
  uint32_t n;
  Turn mine;
};

__device__ __forceinline__ void turn(Turns& r, const Turn& to) {
  if (lane_index() == r.n) r.mine = to;
  r.n++;
}

// finish publishes the words of a round, like finish for Round.
__device__ __forceinline__ void finish(const ChangeParams& p, Turns& r) {
  if (r.n == 0) return;
  const Table& t = p.table;
  const Lists& l = p.space.lists;
  const bool mine = lane_index() < r.n, full = mine && r.mine.block != 0, replaces = mine && r.mine.stale != 0;
  if (full) {
    store_relaxed_system(t.pool + check_of(t, r.mine.block), r.mine.check);
    mark(t, p.space, r.mine.block, true);
  }
  sync_warp();  // lanes publish data that other lanes have written
  if (mine) {
    fence_durable(t);
    store_relaxed_system(t.pool + r.mine.at, r.mine.bits);
  }
  add(l.stale, l.counts, replaces, r.mine.stale);
  add(l.tombs, l.counts + 1, mine && !full, r.mine.at);
  const uint32_t came = popcount(ballot(kAll, full && !replaces)), went = popcount(ballot(kAll, mine && !full));
  if (lane_index() == 0 && came != went) add_relaxed(&t.counters->live, uint64_t(came) - went);
  if (lane_index() == 0 && came != 0) add_relaxed(&t.counters->used, uint64_t(came));
  r.n = 0;
}

// claim_key claims a free slot by the word of its key. It tries the slots in open, and then slots
// that have become free meanwhile.
__device__ __forceinline__ bool claim_key(const Table& t, uint64_t hash, Seen& open, Place& at) {
  for (;; open = read_keys<kAtOnce>(t, hash)) {
    if (!vacant(t, open, at)) return false;
    bool lost = false;
    if (lane_index() == 0) lost = cas_relaxed(at.words + t.slots + at.slot, kEmptyKey, kInsertKey) != kEmptyKey;
    if (ballot(kAll, lost) == 0) return true;
  }
}

// put_reserved writes a value, and records the word that publishes the value. For a new key, this
// is the word of the key.
__device__ __forceinline__ void put_reserved(const Ops& ops, bool there, const Place& at, const Held& v, uint64_t block, Turns& r) {
  const Table& t = ops.p.table;
  const uint64_t version = load_relaxed(&t.clocks->begun) & ((1u << Control::kVersionBits) - 1);
  const uint64_t value = (uint64_t(kFull) << Control::kVersionBits | version) << Control::kBlockBits | block;
  if (!there && lane_index() == 0) store_relaxed_system(t.pool + at.control(), value);
  const uint64_t check = store(ops, v, block, nullptr);
  if (there) return turn(r, {at.control(), value, block, check, at.was.block()});
  turn(r, {at.tag(t), ops.item.tag, block, check, 0});
}

// change_reserved is change_key for an index with states in the words of keys. It refuses the three
// reserved keys. Changes read without ordering, because no other warp changes the slot of their
// key, and a compare-and-swap claims a free slot.
__device__ __forceinline__ void change_reserved(const Ops& ops, Turns& r) {
  const ChangeParams& p = ops.p;
  const Table& t = p.table;
  if (reserved(ops.item.tag)) {
    or_relaxed(p.lacked, kHasReserved);
    return fail(ops, 0);
  }
  const uint32_t late = uint32_t(ops.item.hash >> (64 - kLateBits));
  if (p.changes.first != 0 && ballot(kAll, load_relaxed(p.late + late / 32) >> late % 32 & 1) != 0) return fail(ops, 0);
  Place at;
  Seen open;
  const bool there = find_key<kAtOnce>(t, ops.item, at, open);
  const uint64_t is = there ? at.was.block() : 0;
  const Sum sum = sum_up(ops, there, is);
  bool failed = false;
  if (sum.after.there && (!there || sum.after.from != kPool)) {
    const uint64_t block = p.sorted.fresh ? p.sorted.fresh[ops.begin] : 0;
    if (block == 0) or_relaxed(p.lacked, kLacksMemory);
    failed = block == 0 || !(there || claim_key(t, ops.item.hash, open, at));
    if (!failed) put_reserved(ops, there, at, sum.after, block, r);
  }
  const Held& after = failed ? sum.before : sum.after;
  if (ops.uniform() && !ops.others && !failed) report_uniform(ops, there);
  else report(ops, there, is, failed ? sum.first : ops.end);
  if (there && !after.there) turn(r, {at.tag(t), kTombKey, 0, 0, is});
  if (failed) fail(ops, sum.first);
}

__device__ __forceinline__ void change_batch(const ChangeParams& p) {
  each_key<Turns>(p, [](const Ops& ops, Turns& r) WEFT_INLINE { change_reserved(ops, r); });
}

// recycle_reserved frees the values and slots in the lists. It frees a slot by the word of its key.
__device__ __forceinline__ void recycle_reserved(const RecycleParams& p) {
  const Table& t = p.table;
  const Lists& l = p.space.lists;
  const uint32_t stale = load_relaxed(l.counts), tombs = load_relaxed(l.counts + 1);
  for (uint64_t i = thread_index(); i < stale; i += threads_in_grid()) mark(t, p.space, l.stale[i], false);
  for (uint64_t i = thread_index(); i < tombs; i += threads_in_grid()) store_relaxed_system(t.pool + l.tombs[i], kEmptyKey);
  if (thread_index() == 0 && tombs != 0) add_relaxed(&t.counters->used, -uint64_t(tombs));
}

// ---- conversion -------------------------------------------------------------------

// to_keys writes the key for free slots to slots without a key. It sets crowded if a slot has a
// reserved key.
__device__ __forceinline__ void to_keys(const BucketsParams& p) {
  const Table& t = p.table;
  each_bucket(p, [&](const Place& lane) WEFT_INLINE {
    if (lane.slot >= t.slots) return;
    uint64_t* key = t.pool + lane.tag(t);
    if (lane.was.state() != kFull) store_relaxed_system(key, kEmptyKey);
    else if (reserved(load_relaxed_system(key))) store_relaxed(p.crowded, 1u);
  });
}

// to_words frees the slots that have a reserved key, by their control words.
__device__ __forceinline__ void to_words(const BucketsParams& p) {
  const Table& t = p.table;
  each_bucket(p, [&](const Place& lane) WEFT_INLINE {
    if (lane.slot < t.slots && lane.was.state() != kEmpty && reserved(load_relaxed_system(t.pool + lane.tag(t))))
      store_relaxed_system(t.pool + lane.control(), lane.was.next(kEmpty, 0).bits);
  });
}

}  // namespace weft::gphash

using namespace weft::gphash;

#define GPHASH_RESERVED(name, blocks) extern "C" __global__ void __launch_bounds__(kBlock, blocks) gphash_reserved_##name

GPHASH_RESERVED(get, kGetBlocks)(GetParams p) { get_batch(p); }
GPHASH_RESERVED(change, kChangeBlocks)(ChangeParams p) { change_batch(p); }
GPHASH_RESERVED(recycle, 1)(RecycleParams p) { recycle_reserved(p); }
GPHASH_RESERVED(to_keys, 1)(BucketsParams p) { to_keys(p); }
GPHASH_RESERVED(to_words, 1)(BucketsParams p) { to_words(p); }
