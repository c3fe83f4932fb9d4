// Insertions into full buckets of package horton that take one step: a key in the way goes to a
// bucket with a free slot, or the new key does. Each lane inserts by itself, and all lanes of its
// warp read its buckets (rounds.cuh). So this is a separate launch of few instructions, between the
// one that moves nothing and the one that searches (evict.cuh). It handles buckets of eight slots.
// Insertions that need more than a step, or find locks taken for long, are left over.
//
// No other kernel moves or deletes keys during that launch. So while a lane holds the lock of a
// full bucket, its slots do not change. A key that is primary in the bucket is protected by the
// lock, and one that is secondary is moved only to make way for a key of this bucket. The words
// that a lane has read stay the same until it writes them.
#pragma once

#include "horton_remap.cuh"
#include "rounds_change.cuh"

namespace weft::horton {

// FullBucket is the state of a lane's full primary bucket. The lane holds its lock.
template <class S>
struct FullBucket {
  using Word = typename S::Word;
  static constexpr uint32_t kSlots = 8, kLast = kSlots - 1;

  Path path;     // of the key
  Word pair;     // the key and its value
  Word array;    // A::none() for a bucket of type A
  // Slots with secondary keys, and with primary ones, that have not been tried.
  uint32_t guests, own;
  bool is_array;
  bool pair_left = true;  // the key itself has not been tried as a secondary one
  bool busy = false;      // a lock was taken

  __device__ __forceinline__ uint32_t begin() const { return path.bucket * kSlots; }
};

// Step is an attempt to free a slot: the key in slot `at` of the bucket goes away, or, if that is
// kAll, the new key itself.
template <class S>
struct Step {
  bool goes, guest, promotes;  // step exists; a secondary key goes; bucket becomes type B
  uint32_t at = kAll, to = 0;  // the function that the key's entry names, or 0
  Path of;                     // of the key that goes
  typename S::Word word, last;  // that key; the last slot's word in a promoted bucket
  uint32_t* lock = nullptr;    // of another key that is moved
};

// Displacer is a warp with lanes that insert into full buckets. All lanes must call its methods,
// unless noted otherwise.
template <class Rules>
struct Displacer {
  using S = typename Rules::S;
  using Word = typename S::Word;
  using Key = typename S::Key;
  using A = Array<S>;
  using Bucket = FullBucket<S>;
  static constexpr uint32_t kSlots = Bucket::kSlots, kLast = Bucket::kLast, kByte = 0xff;

  const Table& t;
  int32_t fresh = 0;  // slots in use now that were never used before

  __device__ __forceinline__ explicit Displacer(const Table& t) : t(t) {}

  // insert puts a pair, with its key in stored form, into its full bucket, under the bucket's lock,
  // for the lanes with `open`. kFull: the pair is left over, also if the key is present by now.
  // kAgain: a lock was taken.
  __device__ __forceinline__ Outcome insert(bool open, Path path, Word pair) {
    Bucket b{path, pair};
    bool runs = read(open, b);
    Outcome done = kFull;
#pragma unroll 1
    while (ballot(kAll, runs) != 0) {
      Step<S> step = next(runs, b);
      runs = runs && (step.goes || step.guest);  // another step may work, unless none was left
      const uint32_t function = enter(step.goes, step.of, b.begin(), step.to, step.word);
      if (step.goes && function != 0 && commit(b, step, function)) runs = false, done = kRevived;
      if (step.goes && step.lock) unlock(step.lock);
    }
    return done == kFull && b.busy ? kAgain : done;
  }

 private:
  __device__ __forceinline__ Word* slot(uint32_t number) const { return slots_of<S>(t) + number; }
  __device__ __forceinline__ uint32_t twins_of(Key stored) const { return uint32_t(reduce(stored, Key(t.buckets / 2))); }

  // read reads the bucket. It reports whether the bucket is full and the key is neither there nor
  // in its secondary bucket.
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
    b.guests = seen >> kSlots, b.own = ~b.guests & (kByte >> b.is_array);
    const bool full = open && (seen & kByte) == 0;
    const uint32_t entry = full ? A::entry(b.array, b.path.tag) : 0;
    const uint32_t first = entry != 0 ? Rules::second(t, b.path, entry) : kAll;
    BucketRounds<S, true> other;
    other.read(slot(0), first == kAll ? kAll : first / kSlots, S::key(b.pair));
    const uint32_t there = other.slots([](Word w, Key key) { return uint32_t(S::key(w) == key); });
    return full && (first == kAll || there == 0);
  }

  // next chooses a step, and takes the lock that it needs in addition to that of the bucket. A
  // bucket stays of type A as long as a key can leave it by a step. After that, any of its own keys
  // is the first to become secondary.
  __device__ __forceinline__ Step<S> next(bool runs, Bucket& b) const {
    Step<S> s{runs, runs && b.guests != 0, runs && b.guests == 0 && !b.is_array};
    s.of = b.path, s.word = b.pair, s.last = b.pair;
    if (s.promotes && b.busy) s.goes = false;
    if (s.guest) s.at = lowest(b.guests), b.guests &= b.guests - 1;
    else if (b.is_array && b.pair_left) b.pair_left = false;
    else if (b.own != 0) s.at = highest(b.own);
    else s.goes = false;
    if (s.goes && s.at != kAll) {
      s.word = load_relaxed(slot(b.begin() + s.at));
      s.of.tag = tag_of(S::key(s.word), A::kEntries);
      if (!s.guest) b.own &= ~(1u << s.at);
    }
    // Another key moves if it is secondary, or in the last slot, which the array needs.
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

  // commit writes what follows after `function` has placed the copy of a key. It reports whether
  // the new key has its slot; if not, the bucket is now of type B. Lanes may call it alone.
  __device__ __forceinline__ bool commit(Bucket& b, const Step<S>& s, uint32_t function) {
    const uint32_t begin = b.begin();
    // Whoever sees the entry sees the key where it points. Whoever sees a key gone sees its lock
    // taken (locks.cuh).
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

  // shared reports whether another key of a bucket, or kAll, shares the entry of one.
  __device__ __forceinline__ bool shared(uint32_t number, Key stored) const {
    BucketRounds<S, true> bucket;
    bucket.read(slot(0), number, stored);
    const uint32_t sharers = bucket.slots([&](Word w, Key key) {
      return uint32_t(!A::is(w) && twins_of(S::key(w)) == twins_of(key) && tag_of(S::key(w), A::kEntries) == tag_of(key, A::kEntries));
    });
    return number != kAll && (sharers & (sharers - 1)) != 0;
  }

  // kEnough free slots in a bucket end the search. (Reading all seven takes 4 to 5 % longer.)
  static constexpr uint32_t kEnough = 2;

  // enter puts a word into the secondary bucket that function `to` gives to a path. If `to` is 0,
  // it takes the bucket with most free slots, or the first with enough, but not the one at `from`.
  // It returns the function, or 0.
  __device__ __forceinline__ uint32_t enter(bool goes, Path path, uint32_t from, uint32_t to, Word word) {
    uint32_t best = 0, most = 0, at = 0;
    Seen seen;
#pragma unroll 1
    for (uint32_t i = 1; i <= kFunctions; i++) {
      const bool tries = goes && most < kEnough && (to == 0 || to == i);
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
    const Outcome done = best == 0 ? kFull : enter_first<S>(slot(at), seen, S::key(word), 0, op);
    if (done == kInserted) fresh++;
    sync_warp();
    return inserted(done) ? best : 0;
  }
};

// displace_batch runs the operations of a batch that found no slot. Those that it completes leave
// the list.
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
