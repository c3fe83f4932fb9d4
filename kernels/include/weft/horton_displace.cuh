// Insertions into full buckets of package horton that take one step. A step moves a key of the
// bucket to another bucket with a free slot, or puts the new key there. Each lane inserts by
// itself, and all lanes of its warp read its buckets (rounds.cuh). So the step has its own launch
// of few instructions. It runs between the launch that moves no keys and the launch that searches
// (evict.cuh). It requires buckets of eight slots. Insertions are left over if they need more than
// one step, or find locks taken for long.
//
// No other kernel moves or deletes keys during that launch. So while a lane holds the lock of a
// full bucket, the slots of the bucket do not change. The lock protects the primary keys of the
// bucket. A secondary key is moved only to free its slot for a key of this bucket. So the words
// that a lane has read stay the same until the lane writes them.
#pragma once

#include "horton_remap.cuh"
#include "rounds_change.cuh"

namespace weft::horton {

// FullBucket is the state of a lane's full primary bucket. The lane holds its lock.
template <class S>
struct FullBucket {
  using Word = typename S::Word;
  static constexpr uint32_t kSlots = 8, kLast = kSlots - 1;

  Path path;     // path of the key
  Word pair;     // the key and its value
  Word array;    // remap entries; A::none() for a bucket of type A
  // Masks of slots that have not been tried, with secondary keys and with primary keys.
  uint32_t secondary_mask, own;
  bool is_array;
  bool pair_untried = true;  // the new key has not been tried as a secondary key
  bool busy = false;      // a lock was taken by another thread

  __device__ __forceinline__ uint32_t begin() const { return path.bucket * kSlots; }
};

// Step is an attempt to free a slot. The key in slot `at` of the bucket moves to another bucket. If
// `at` is kAll, the new key goes there itself.
template <class S>
struct Step {
  bool goes, guest, promotes;  // the step exists; moves a secondary key; makes the bucket type B
  // to: the function that the entry of the key names, or 0
  uint32_t at = kAll, to = 0;
  Path of;                     // path of the key that moves
  typename S::Word word, last;  // that key and its value; the last slot before a promotion
  uint32_t* lock = nullptr;    // lock of another key that moves, or null
};

// Displacer is a warp of lanes that insert into full buckets. All lanes must call its methods,
// except where noted.
template <class Rules>
struct Displacer {
  using S = typename Rules::S;
  using Word = typename S::Word;
  using Key = typename S::Key;
  using A = Array<S>;
  using Bucket = FullBucket<S>;
  static constexpr uint32_t kSlots = Bucket::kSlots, kLast = Bucket::kLast, kByte = 0xff;

  const Table& t;
  int32_t fresh = 0;  // slots that the steps took into use, less slots that arrays took

  __device__ __forceinline__ explicit Displacer(const Table& t) : t(t) {}

  // insert puts a pair into its full bucket, for the lanes with `open`. The key is in stored form,
  // and the lane holds the lock of the bucket. insert returns kRevived if it has inserted the pair,
  // and kAgain if it found a lock taken. It returns kFull if the pair is left over, even if the key
  // is now present.
  __device__ __forceinline__ Outcome insert(bool open, Path path, Word pair) {
    Bucket b{path, pair};
    bool runs = read(open, b);
    Outcome done = kFull;
#pragma unroll 1
    while (ballot(kAll, runs) != 0) {
      Step<S> step = next(runs, b);
      runs = runs && (step.goes || step.guest);  // another step may work, except if none was left
      const uint32_t function = enter(step.goes, step.of, b.begin(), step.to, step.word);
      if (step.goes && function != 0 && commit(b, step, function)) runs = false, done = kRevived;
      if (step.goes && step.lock) unlock(step.lock);
    }
    return done == kFull && b.busy ? kAgain : done;
  }

 private:
  __device__ __forceinline__ Word* slot(uint32_t number) const { return slots_of<S>(t) + number; }
  __device__ __forceinline__ uint32_t twins_of(Key stored) const { return uint32_t(reduce(stored, Key(t.buckets / 2))); }

  // read reads the bucket of a lane. It reports whether the bucket is full and the key is in
  // neither of its buckets.
  __device__ __forceinline__ bool read(bool open, Bucket& b) const {
    BucketRounds<S> home;
    home.read(slot(0), open ? b.path.bucket : kAll, S::key(b.pair));
    const uint32_t seen = home.slots([&](Word w, Key key) {
      const bool array = A::is(w), guest = !array && twins_of(S::key(w)) != twins_of(key);
      return uint32_t(!array && (S::key(w) >= S::kNone || S::key(w) == key)) | uint32_t(guest) << kSlots;
    });
    b.array = home.last();
    b.is_array = A::is(b.array);
    if (!b.is_array) b.array = A::none();
    b.secondary_mask = seen >> kSlots, b.own = ~b.secondary_mask & (kByte >> b.is_array);
    const bool full = open && (seen & kByte) == 0;
    const uint32_t entry = full ? A::entry(b.array, b.path.tag) : 0;
    const uint32_t first = entry != 0 ? Rules::second(t, b.path, entry) : kAll;
    BucketRounds<S, true> other;
    other.read(slot(0), first == kAll ? kAll : first / kSlots, S::key(b.pair));
    const uint32_t there = other.slots([](Word w, Key key) { return uint32_t(S::key(w) == key); });
    return full && (first == kAll || there == 0);
  }

  // next chooses a step, and takes the second lock that the step may need. A bucket stays of type A
  // as long as a step can move a secondary key out of it. After that, any primary key may be the
  // first that becomes secondary.
  __device__ __forceinline__ Step<S> next(bool runs, Bucket& b) const {
    Step<S> s{runs, runs && b.secondary_mask != 0, runs && b.secondary_mask == 0 && !b.is_array};
    s.of = b.path, s.word = b.pair, s.last = b.pair;
    if (s.promotes && b.busy) s.goes = false;
    if (s.guest) s.at = lowest(b.secondary_mask), b.secondary_mask &= b.secondary_mask - 1;
    else if (b.is_array && b.pair_untried) b.pair_untried = false;
    else if (b.own != 0) s.at = highest(b.own);
    else s.goes = false;
    if (s.goes && s.at != kAll) {
      s.word = load_relaxed(slot(b.begin() + s.at));
      s.of.tag = tag_of(S::key(s.word), A::kEntries);
      if (!s.guest) b.own &= ~(1u << s.at);
    }
    // Another key moves if the key is secondary, or if it is in the last slot, which the array
    // needs.
    Word moves = s.word;
    const bool shifts = s.goes && s.promotes && s.at != kLast;
    if (shifts) moves = s.last = load_relaxed(slot(b.begin() + kLast));
    if (s.guest || (shifts && twins_of(S::key(moves)) != b.path.bucket / 2)) {
      const Path other = path_at<S>(t, S::key(moves), b.begin() + (s.guest ? s.at : kLast));
      if (s.guest) s.of = other;
      s.lock = lock_of(t, other.bucket);
      if (s.lock == lock_of(t, b.path.bucket)) s.lock = nullptr;
    }
    const bool barred = shared(s.guest ? b.path.bucket : kAll, S::key(s.word));
    if (s.goes && !s.guest) s.to = A::entry(b.array, s.of.tag);
    if (barred) s.goes = false;
    if (s.goes && s.lock && !try_lock(s.lock)) s.goes = false, b.busy = true;
    sync_warp();
    return s;
  }

  // commit completes a step after the key has been copied to the bucket of `function`. It reports
  // whether the new key has its slot. If not, the bucket is now of type B. Lanes may call it alone.
  __device__ __forceinline__ bool commit(Bucket& b, const Step<S>& s, uint32_t function) {
    const uint32_t begin = b.begin();
    // A thread that reads the new entry also finds the key in its new bucket. A thread that reads
    // that a key is gone also reads that its lock is taken (locks.cuh).
    fence();
    if (s.guest) {
      Word* const last = slot(Rules::last_slot(t, s.of.bucket));
      store_relaxed(last, A::with(load_relaxed(last), s.of.tag, function));
    } else if (s.to == 0) {
      b.array = A::with(b.array, s.of.tag, function);
      if (s.promotes && s.at != kLast) {
        store_relaxed(slot(begin + s.at), s.last);
        b.own = (b.own & (kByte >> 1)) | (b.own >> kLast) << s.at;
      }
      store_relaxed(slot(begin + kLast), b.array);
    }
    if (s.promotes) {
      b.is_array = true, fresh--;  // the array takes a slot
      return false;
    }
    if (s.at != kAll) store_relaxed(slot(begin + s.at), b.pair);
    return true;
  }

  // shared reports whether another key in bucket `number` shares the remap entry of a key. For kAll
  // it returns false.
  __device__ __forceinline__ bool shared(uint32_t number, Key stored) const {
    BucketRounds<S, true> bucket;
    bucket.read(slot(0), number, stored);
    const uint32_t sharers = bucket.slots([&](Word w, Key key) {
      return uint32_t(!A::is(w) && twins_of(S::key(w)) == twins_of(key) && tag_of(S::key(w), A::kEntries) == tag_of(key, A::kEntries));
    });
    return number != kAll && (sharers & (sharers - 1)) != 0;
  }

  // A bucket with kMinFree free slots ends the search. Reading all seven buckets takes 4 to 5 %
  // longer.
  static constexpr uint32_t kMinFree = 2;

  // enter puts a word into the secondary bucket that function `to` selects for a path. If `to` is
  // 0, enter takes the first bucket with kMinFree free slots, or else the bucket with the most free
  // slots. It never takes the bucket at `from`. It returns the function, or 0 if no slot was free.
  __device__ __forceinline__ uint32_t enter(bool goes, Path path, uint32_t from, uint32_t to, Word word) {
    uint32_t best = 0, most = 0, at = 0;
    Seen seen;
#pragma unroll 1
    for (uint32_t i = 1; i <= kFunctions; i++) {
      const bool tries = goes && most < kMinFree && (to == 0 || to == i);
      if (ballot(kAll, tries) == 0) continue;
      uint32_t first = tries ? Rules::second(t, path, i) : kAll;
      if (first == from) first = kAll;
      BucketRounds<S, true> bucket;
      bucket.read(slot(0), first == kAll ? kAll : first / kSlots, 0);
      const Seen now{bucket.slots([](Word w, Key) { return Seen::of<S>(w, S::kNone, true); })};
      const uint32_t frees = popcount(now.frees());
      if (first == kAll || frees <= most) continue;
      best = i, most = frees, at = first, seen = now;
    }
    Operation<S> op{true, kPutNew, 0, S::value(word)};
    const Outcome done = best == 0 ? kFull : insert_first_free<S>(slot(at), seen, S::key(word), 0, op);
    if (done == kInserted) fresh++;
    sync_warp();
    return inserted(done) ? best : 0;
  }
};

// displace_batch runs the operations of a batch that found no slot. Operations that it completes
// leave the list.
template <class Rules, class K, class V>
__device__ __forceinline__ void displace_batch(const EvictParams<Table>& p) {
  using S = typename Rules::S;
  Displacer<Rules> displacer{p.table};
  step_batch<S, K, V>(
      p, displacer.fresh, [&](typename S::Key key) { return Rules::lock_bucket(Place<S>(p.table, key).path); },
      [&](bool has, const Operation<S>& op) __attribute__((always_inline)) {
        const Place<S> place(p.table, op.key);
        const bool extra = place.path.extra();
        const Outcome done = displacer.insert(has && !extra, place.path, S::pair(place.stored, op.value));
        return extra ? kFull : done;
      });
}

}  // namespace weft::horton
