// Clevel hashing on a GPU. Each thread runs one operation, independently of other threads.
// clevel.go explains the structure. Here it has two levels, which are sized for the capacity. No
// level is added or drained.
#include "baseline.cuh"

namespace weft::baseline {

constexpr uint32_t kSlots = 8, kLevels = 2;

// The number of blocks that must fit on a multiprocessor, which limits the registers of a thread. A
// thread holds two buckets in registers.
constexpr int kBlocks = 3;

struct ClevelParams {
  Index index;
  Batch batch;
  uint64_t levels[kLevels];  // first words of levels, the lower one first
  uint32_t bits;             // bits of a bucket number in the lower level
  uint32_t unused;
};

// ---- slots --------------------------------------------------------------------------

constexpr uint32_t kAddressBits = 48;
constexpr uint64_t kTagMask = (1 << 14) - 1;

// named returns a slot word with the address of a record, like newSlotWord in clevel.go.
__device__ __forceinline__ uint64_t named(uint64_t record, uint64_t hash) { return record | (hash & kTagMask) << kAddressBits; }
__device__ __forceinline__ uint64_t record_of(uint64_t is) { return is & ((1ul << kAddressBits) - 1); }
__device__ __forceinline__ bool may(uint64_t is, uint64_t hash) { return is != 0 && is >> kAddressBits == (hash & kTagMask); }

// same_key reports whether a record has the given key. A record does not change while a slot may
// have its address.
__device__ __forceinline__ bool same_key(const Index& x, uint64_t is, const uint8_t* key) {
  const uint64_t* record = x.pool + record_of(is);
  for (uint32_t i = 0; i < x.key_words; i++)
    if (record[i] != row_word(key, x.key_size, i)) return false;
  return true;
}

// bucket_of returns the first word of a candidate bucket of a key.
__device__ __forceinline__ uint64_t bucket_of(const ClevelParams& p, uint32_t level, uint64_t h, bool second) {
  if (second) h = hash(h, 0x9e3779b97f4a7c15ul);
  const uint32_t bits = p.bits + level;
  return p.levels[level] + (bits == 0 ? 0 : h >> (64 - bits)) * kSlots;
}

// Bucket is a bucket as read by a thread.
struct Bucket {
  uint64_t at;
  Word128 pairs[kSlots / 2];

  __device__ __forceinline__ Bucket(const ClevelParams& p, uint64_t at) : at(at) {
#pragma unroll
    for (uint32_t i = 0; i < kSlots / 2; i++) pairs[i] = load_relaxed(reinterpret_cast<const Word128*>(p.index.pool + at) + i);
  }
  // each calls f(slot, word) for all slots.
  template <class F>
  __device__ __forceinline__ void each(F f) const {
#pragma unroll
    for (uint32_t i = 0; i < kSlots / 2; i++) f(2 * i, pairs[i].x), f(2 * i + 1, pairs[i].y);
  }
  // word returns the word of a slot, by a selection among registers.
  __device__ __forceinline__ uint64_t word(uint32_t slot) const {
    uint64_t w = 0;
    each([&](uint32_t s, uint64_t is) WEFT_INLINE { w = s == slot ? is : w; });
    return w;
  }
  // where returns a bit for each slot with a word that f accepts.
  template <class F>
  __device__ __forceinline__ uint32_t where(F f) const {
    uint32_t bits = 0;
    each([&](uint32_t s, uint64_t is) WEFT_INLINE { bits |= uint32_t(f(is)) << s; });
    return bits;
  }
};

// ---- searches -----------------------------------------------------------------------

// Seen is the result of a search: the position of a key, and a slot where it could be inserted.
struct Seen {
  uint64_t slot, is;  // slot with the key, and its word; 0: absent
  uint64_t vacant;    // an empty slot in the lowest level that has one, or 0
};

// meet must run after slots are read, and before the records with their addresses are read.
__device__ __forceinline__ void meet(const ClevelParams& p) {
  if (!p.batch.alone) fence();  // pairs with the fences that precede swaps of slots
}

// find_in looks for a key in a bucket.
__device__ __forceinline__ bool find_in(const ClevelParams& p, const Bucket& b, const Operation& op, Seen& s) {
  uint32_t votes = b.where([&](uint64_t is) WEFT_INLINE { return may(is, op.hash); });
  if (votes != 0) meet(p);
  for (; votes != 0; votes &= votes - 1) {
    s.is = b.word(lowest(votes)), s.slot = b.at + lowest(votes);
    if (same_key(p.index, s.is, op.key)) return true;
  }
  s.slot = 0;
  return false;
}

// find looks for a key from the lower level up. It reads both buckets of a level at once.
__device__ __forceinline__ Seen find(const ClevelParams& p, const Operation& op) {
  Seen s{0, 0, 0};
#pragma unroll 1
  for (uint32_t level = 0; level < kLevels; level++) {
    const Bucket a(p, bucket_of(p, level, op.hash, false)), b(p, bucket_of(p, level, op.hash, true));
    if (find_in(p, a, op, s) || find_in(p, b, op, s)) return s;
    if (s.vacant != 0) continue;
    auto empty = [](uint64_t is) WEFT_INLINE { return is == 0; };
    const uint32_t in_a = a.where(empty), in_b = b.where(empty);
    if (popcount(in_a) >= popcount(in_b) && in_a != 0) s.vacant = a.at + lowest(in_a);
    else if (in_b != 0) s.vacant = b.at + lowest(in_b);
  }
  return s;
}

// swap changes a slot and makes the change durable, unless another thread has changed the slot.
// After an insertion, the fence puts the swap and later reads in a single order with those of other
// insertions. unite depends on this order.
__device__ __forceinline__ bool swap(const ClevelParams& p, uint64_t slot, uint64_t from, uint64_t to, bool inserts = false) {
  if (cas_relaxed(p.index.pool + slot, from, to) != from) return false;
  if (inserts) fence_sc_system();
  else fence_system();
  return true;
}

// ---- changes ------------------------------------------------------------------------

// unite removes duplicates after an insertion, because another thread may have inserted the same
// key concurrently. Each thread searches for the other record after its own swap. The fences of
// both threads are in a single order, so at least one thread finds the other record. The first
// record in search order stays. A thread that finds an earlier record withdraws its own record and
// repeats the put. A thread that finds a later record removes it, as if the own put came last.
// unite returns the number of records removed, or -1 if it has withdrawn its own record.
__device__ __forceinline__ int unite(const ClevelParams& p, const Operation& op, uint64_t mine, uint64_t is) {
  bool behind = false;
  int gone = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < 2 * kLevels; i++) {
    const Bucket b(p, bucket_of(p, i / 2, op.hash, i % 2 != 0));
    const bool here = mine - b.at < kSlots;
    for (uint32_t votes = b.where([&](uint64_t is) WEFT_INLINE { return may(is, op.hash); }); votes != 0; votes &= votes - 1) {
      const uint64_t slot = b.at + lowest(votes), other = b.word(lowest(votes));
      if (slot == mine) {
        behind = true;
        continue;
      }
      meet(p);
      if (!same_key(p.index, other, op.key)) continue;
      behind |= here && mine < slot;  // another thread has emptied slot mine
      if (!behind) return swap(p, mine, is, 0) ? -1 : gone;
      if (swap(p, slot, other, 0)) give(p.index, record_of(other)), gone++;
    }
    behind |= here;
  }
  return gone;
}

// write writes a record and makes it durable.
__device__ __forceinline__ void write(const Index& x, uint64_t record, const Operation& op) {
  for (uint32_t i = 0; i < x.key_words; i++) store(x, record + i, row_word(op.key, x.key_size, i));
  for (uint32_t i = 0; i < x.value_words; i++) store(x, record + x.key_words + i, row_word(op.val, x.value_size, i));
  fence_system();
}

// put inserts a key or replaces its record. It returns the increase in the number of keys.
__device__ __forceinline__ int put(const ClevelParams& p, const Operation& op) {
  const Index& x = p.index;
  const uint64_t record = take(x), is = named(record, op.hash);
  if (record != 0) write(x, record, op);
  for (;;) {
    const Seen s = record != 0 ? find(p, op) : Seen{0, 0, 0};
    if (s.slot != 0) {
      if (!swap(p, s.slot, s.is, is)) continue;
      give(x, record_of(s.is));
      return 0;
    }
    if (s.vacant == 0) {
      if (record != 0) give(x, record);
      add_relaxed(&x.tally->failed, 1u);
      return 0;
    }
    if (!swap(p, s.vacant, 0, is, true)) continue;
    const int gone = unite(p, op, s.vacant, is);
    if (gone >= 0) return 1 - gone;
  }
}

__device__ __forceinline__ int remove(const ClevelParams& p, const Operation& op) {
  for (;;) {
    const Seen s = find(p, op);
    if (s.slot == 0) return 0;
    if (!swap(p, s.slot, s.is, 0)) continue;
    give(p.index, record_of(s.is));
    return -1;
  }
}

// answer writes the value of a lookup, or zeros.
__device__ __forceinline__ void answer(const Index& x, uint64_t is, uint8_t* out) {
  if (out == nullptr) return;
  const uint64_t* value = x.pool + record_of(is) + x.key_words;
  for (uint32_t i = 0; i < x.value_words; i++) put_word(out, x.value_size, i, is != 0 ? value[i] : 0);
}

// run runs a batch, one operation per thread.
__device__ __forceinline__ void run(const ClevelParams& p) {
  const Index& x = p.index;
  const uint64_t i = thread_index();
  int64_t changed = 0;
  if (i < p.batch.n) {
    const Operation op = operation(x, p.batch, i);
    bool ok = false;
    if (op.kind == kGet) {
      const Seen s = find(p, op);
      ok = s.slot != 0;
      answer(x, ok ? s.is : 0, op.out);
      if (p.batch.alone) changed = ok;
    } else {
      changed = op.kind == kDelete ? remove(p, op) : put(p, op);
      ok = op.kind == kDelete ? changed != 0 : changed > 0;
      answer(x, 0, op.out);
    }
    if (p.batch.ok) store_once(p.batch.ok + i, uint8_t(ok));
  }
  sync_warp();
  uint64_t sum = uint64_t(changed);
  for (uint32_t step = 1; step < kWarp; step *= 2) sum += shuffle_xor(kAll, sum, step);
  if (lane_index() == 0 && sum != 0) add_relaxed(&x.tally->changed, sum);
}

}  // namespace weft::baseline

extern "C" __global__ void __launch_bounds__(weft::baseline::kBlock, weft::baseline::kBlocks) clevel_run(weft::baseline::ClevelParams p) {
  weft::baseline::run(p);
}
