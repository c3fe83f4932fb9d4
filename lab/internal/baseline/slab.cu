// A slab hash with an undo log on a GPU. Each warp runs one operation at a time, and its lanes read
// a slab together. slab.go explains the structure, and undo.go explains the log. Each warp has a
// log. The locks of buckets are in device memory, where they cost little. They are not in the pool,
// because they are useless after a crash. They are sequence locks, so lookups write nothing.
#include "baseline.cuh"

namespace weft::baseline {

// The number of blocks that must fit on a multiprocessor, which limits the registers of a thread.
// The number is large because operations wait for host memory most of the time. slabBlocks in
// gpu.go is the same number.
constexpr int kBlocks = 6;

// Words of a slab, as in slab.go.
constexpr uint32_t kSlots = 7, kLink = 1, kValues = 2, kKeys = kValues + kSlots;

struct SlabParams {
  Index index;
  Batch batch;
  uint32_t* locks;  // locks of buckets, odd during a change
  uint64_t first, buckets;
  uint64_t slabs;  // first word of the slabs that chains take after the first slab
  uint64_t logs;
  uint32_t slab_words, log_words;
  uint32_t slab_limit;  // number of slabs
  uint32_t no_log;
};

// ---- searches -----------------------------------------------------------------------

// Chain is the result of searching the slabs of a bucket.
struct Chain {
  uint64_t slab;    // slab with the key, or the last one
  uint64_t value;   // first word of the key's value
  uint64_t free;    // slab with the first free slot, or 0
  uint32_t slot, free_slot;
  bool hit;
};

// differing returns a bit for each slot of a slab that has a different key. first is the word of
// the slab that this lane has read.
__device__ __forceinline__ uint32_t differing(const Index& x, uint64_t slab, uint64_t first, const uint8_t* key) {
  const uint32_t lane = lane_index(), end = kKeys + kSlots * x.key_words;
  if (x.key_words == 1) return ballot(kAll, lane >= kKeys && lane < end && first != row_word(key, x.key_size, 0)) >> kKeys;
  uint32_t bits = 0;
  for (uint32_t i = lane; i < end; i += kWarp) {
    if (i < kKeys) continue;
    const uint64_t is = i == lane ? first : load(x, slab + i);
    if (is != row_word(key, x.key_size, (i - kKeys) % x.key_words)) bits |= 1u << (i - kKeys) / x.key_words;
  }
  for (uint32_t step = 1; step < kWarp; step *= 2) bits |= shuffle_xor(kAll, bits, step);
  return bits;
}

// search looks for a key in a bucket, and for a free slot.
__device__ __forceinline__ Chain search(const SlabParams& p, uint64_t bucket, const uint8_t* key) {
  const Index& x = p.index;
  const uint32_t lane = lane_index(), all = (1u << kSlots) - 1;
  Chain c{bucket, 0, 0, 0, 0, false};
  for (uint64_t slab = bucket; slab != 0;) {
    const uint64_t word = lane < p.slab_words ? load(x, slab + lane) : 0;
    const uint32_t used = ballot(kAll, word != 0) >> kValues & all;
    const uint32_t match = used & ~differing(x, slab, word, key);
    c.slab = slab;
    if (match != 0) {
      c.hit = true, c.slot = lowest(match), c.value = shuffle(kAll, word, kValues + c.slot);
      return c;
    }
    if (c.free == 0 && used != all) c.free = slab, c.free_slot = lowest(~used);
    slab = shuffle(kAll, word, kLink);
  }
  return c;
}

// answer writes the value of a lookup, or zeros.
__device__ __forceinline__ void answer(const Index& x, const Chain& c, uint8_t* out) {
  if (out == nullptr) return;
  for (uint32_t i = lane_index(); i < x.value_words; i += kWarp) put_word(out, x.value_size, i, c.hit ? load(x, c.value + i) : 0);
}

// get looks up a key. It repeats the search if the bucket has changed meanwhile.
__device__ __forceinline__ bool get(const SlabParams& p, uint64_t bucket, const uint32_t* lock, const Operation& op) {
  for (;;) {
    // Pairs with the fences in commit, and with unlock_bucket.
    const uint32_t number = p.batch.alone ? 0 : load_acquire(lock);
    if (ballot(kAll, number % 2 != 0) != 0) {
      pause(100);
      continue;
    }
    const Chain c = search(p, bucket, op.key);
    answer(p.index, c, op.out);
    if (p.batch.alone) return c.hit;
    fence();
    if (ballot(kAll, load_relaxed(lock) != number) == 0) return c.hit;
  }
}

// ---- the log ------------------------------------------------------------------------

// Undo is the log of a warp.
struct Undo {
  const Index& x;
  uint64_t at;
  bool off;

  // save logs n words that are about to change, at addresses word(i), and makes the log valid.
  // Previous writes are then durable, too.
  template <class Word>
  __device__ __forceinline__ void save(uint32_t n, Word word) const {
    if (off) return;
    for (uint32_t i = lane_index(); i < 2 * n; i += kWarp) store(x, at + 1 + i, i % 2 == 0 ? word(i / 2) : load(x, word(i / 2)));
    sync_warp();
    if (lane_index() == 0) {
      fence_system();
      store(x, at, n);
      fence_system();
    }
    sync_warp();
  }
  // commit makes the change durable and the log invalid.
  __device__ __forceinline__ void commit() const {
    sync_warp();
    if (lane_index() != 0) return;
    fence_system();
    if (off) return;
    store(x, at, 0);
    fence_system();
  }
};

// ---- changes ------------------------------------------------------------------------

// lock_bucket takes the lock of a bucket. Only this warp then changes the bucket.
__device__ __forceinline__ void lock_bucket(const SlabParams& p, uint32_t* lock) {
  while (lane_index() == 0) {
    const uint32_t number = load_relaxed(lock);
    if (number % 2 == 0 && cas_acquire(lock, number, number + 1) == number) break;
    pause(100);
  }
  sync_warp();
  // A lookup that reads any of the next stores also reads that the lock is taken. Pairs with get.
  if (p.batch.kinds) fence();
}

// unlock_bucket publishes the changes of the warp, after the fences of commit.
__device__ __forceinline__ void unlock_bucket(uint32_t* lock) {
  sync_warp();
  if (lane_index() == 0) store_relaxed(lock, load_relaxed(lock) + 1);
}

__device__ __forceinline__ void write_value(const Index& x, uint64_t to, const uint8_t* val) {
  for (uint32_t i = lane_index(); i < x.value_words; i += kWarp) store(x, to + i, row_word(val, x.value_size, i));
}

// write_pair writes a key and the address of its value to a slot.
__device__ __forceinline__ void write_pair(const Index& x, uint64_t slab, uint32_t slot, const uint8_t* key, uint64_t value) {
  for (uint32_t i = lane_index(); i < x.key_words; i += kWarp) store(x, slab + kKeys + slot * x.key_words + i, row_word(key, x.key_size, i));
  if (lane_index() == 0) store(x, slab + kValues + slot, value);
}

// overwrite replaces the value of a key in place.
__device__ __forceinline__ void overwrite(const SlabParams& p, const Undo& log, const Chain& c, const uint8_t* val) {
  log.save(p.index.value_words, [&](uint32_t i) WEFT_INLINE { return c.value + i; });
  write_value(p.index, c.value, val);
  log.commit();
}

// append writes a pair to an unused slab, and links the slab to a chain.
__device__ __forceinline__ bool append(const SlabParams& p, const Undo& log, const Chain& c, const Operation& op, uint64_t value) {
  const Index& x = p.index;
  uint32_t number = 0;
  if (lane_index() == 0) number = add_relaxed(&x.tally->slabs, 1u);
  number = shuffle(kAll, number, 0);
  if (number >= p.slab_limit) return false;
  const uint64_t fresh = p.slabs + uint64_t(number) * p.slab_words;
  for (uint32_t i = lane_index(); i < p.slab_words; i += kWarp) store(x, fresh + i, 0);
  sync_warp();
  write_pair(x, fresh, 0, op.key, value);
  log.save(1, [&](uint32_t) WEFT_INLINE { return c.slab + kLink; });
  if (lane_index() == 0) store(x, c.slab + kLink, fresh);
  log.commit();
  return true;
}

// insert writes a pair to a free slot, or to a new slab at the end of the chain. The memory of the
// value was free, so it needs no log.
__device__ __forceinline__ bool insert(const SlabParams& p, const Undo& log, const Chain& c, const Operation& op) {
  const Index& x = p.index;
  uint64_t value = 0;
  if (lane_index() == 0) value = take(x);
  value = shuffle(kAll, value, 0);
  if (value == 0) return false;
  write_value(x, value, op.val);
  if (c.free == 0) {
    if (append(p, log, c, op, value)) return true;
    if (lane_index() == 0) give(x, value);
    return false;
  }
  const uint64_t at = c.free + kValues + c.free_slot, key = c.free + kKeys + c.free_slot * x.key_words;
  log.save(1 + x.key_words, [&](uint32_t i) WEFT_INLINE { return i == 0 ? at : key + (i - 1); });
  write_pair(x, c.free, c.free_slot, op.key, value);
  log.commit();
  return true;
}

__device__ __forceinline__ void remove(const SlabParams& p, const Undo& log, const Chain& c) {
  const uint64_t at = c.slab + kValues + c.slot;
  log.save(1, [&](uint32_t) WEFT_INLINE { return at; });
  if (lane_index() == 0) store(p.index, at, 0);
  log.commit();
  if (lane_index() == 0) give(p.index, c.value);
}

// change runs a Put or a Delete, and returns the increase in the number of keys.
__device__ __forceinline__ int change(const SlabParams& p, uint64_t bucket, uint32_t* lock, const Undo& log, const Operation& op) {
  int delta = 0;
  lock_bucket(p, lock);
  const Chain c = search(p, bucket, op.key);
  if (op.kind == kDelete) {
    if (c.hit) remove(p, log, c), delta = -1;
  } else if (c.hit) {
    overwrite(p, log, c, op.val);
  } else if (insert(p, log, c, op)) {
    delta = 1;
  } else if (lane_index() == 0) {
    add_relaxed(&p.index.tally->failed, 1u);
  }
  unlock_bucket(lock);
  return delta;
}

// run runs a batch, one operation per warp at a time.
__device__ __forceinline__ void run(const SlabParams& p) {
  const Index& x = p.index;
  const uint64_t me = thread_index() / kWarp;
  const Undo log{x, p.logs + me * p.log_words, p.no_log != 0};
  uint64_t changed = 0;
  for (uint64_t i = me; i < p.batch.n; i += threads_in_grid() / kWarp) {
    const Operation op = operation(x, p.batch, i);
    const uint64_t number = reduce(op.hash, p.buckets), bucket = p.first + number * p.slab_words;
    bool ok = false;
    if (op.kind == kGet) {
      ok = get(p, bucket, p.locks + number, op);
      if (p.batch.alone) changed += ok;
    } else {
      const int delta = change(p, bucket, p.locks + number, log, op);
      changed += int64_t(delta), ok = delta != 0;
      answer(x, Chain{}, op.out);
    }
    if (p.batch.ok && lane_index() == 0) store_once(p.batch.ok + i, uint8_t(ok));
  }
  if (lane_index() == 0 && changed != 0) add_relaxed(&x.tally->changed, changed);
}

}  // namespace weft::baseline

extern "C" __global__ void __launch_bounds__(weft::baseline::kBlock, weft::baseline::kBlocks) slab_run(weft::baseline::SlabParams p) {
  weft::baseline::run(p);
}
