// Insertions into full buckets of package horton that take one step: a key in the way goes to a
// bucket with a free slot, or the new key does. By a thread each, of which many are needed to hide
// how long a step takes: so this is a launch of its own, between the one that moves nothing and
// the one that searches (evict.cuh), and in few instructions. It is for buckets of eight slots,
// whose words a thread has in registers; what needs more than a step, or meets a lock for long, is
// left over.
//
// Nobody else moves keys in that launch, nor deletes any. So while a thread has the lock of a full
// bucket, nobody changes its slots: a key that is primary there is its own by the lock, and one that
// is secondary is moved only to make way for a key of this bucket. What its words were when they
// were read they are until it writes them.
#pragma once

#include "horton_remap.cuh"
#include "moves.cuh"

namespace weft::horton {

// kDisplaceTries is how often an operation that meets a lock is tried. As long as others need to
// move a key is about as long as a try, and what is left over costs ten times as much.
constexpr uint32_t kDisplaceTries = 6;

// Displacer is a thread that inserts into full buckets.
template <class Rules>
struct Displacer {
  using S = typename Rules::S;
  using Word = typename S::Word;
  using Key = typename S::Key;
  using A = Array<S>;
  static constexpr uint32_t kSlots = 8, kShift = 3, kLast = kSlots - 1, kPieces = kSlots * sizeof(Word) / 16;
  using Bucket = Tile<S, 1, kPieces>;

  const Table& t;
  int32_t fresh = 0;  // slots in use now that were never used before

  __device__ __forceinline__ explicit Displacer(const Table& t) : t(t) {}

  // insert puts a pair, whose key is stored under that name, into its full bucket, by the lock of
  // that. kFull: it is left over, also where the key is there by now. kAgain: a lock was taken.
  __device__ __forceinline__ Outcome insert(Path path, Word pair) {
    const uint32_t begin = path.bucket << kShift;
    Bucket bucket;
    read(begin, bucket);
    uint32_t guests = 0, own = 0;
    bool other = false;
    bucket.each([&](int v, int j, Word w) {
      const uint32_t bit = 1u << (v * Bucket::kSlots + j);
      if (bit == 1u << kLast && A::is(w)) return;
      other |= S::key(w) >= S::kNone || S::key(w) == S::key(pair);
      if (twins_of(S::key(w)) == path.bucket / 2) own |= bit;
      else guests |= bit;
    });
    if (other) return kFull;
    Word array = bucket.word(kLast);
    bool is_array = A::is(array);
    if (!is_array) array = A::none();
    const uint32_t entry = A::entry(array, path.tag);
    if (entry != 0 && holds(Rules::second(t, path, entry), S::key(pair))) return kFull;

    // A bucket is of type A as long as a key can leave it.
    bool busy = false, is_left = guests != 0 && !is_array, pair_left = true;
    while (true) {
      uint32_t at = kAll;  // the slot of the key that goes
      Path of = path;
      uint32_t* lock = nullptr;
      if (guests != 0) {
        at = lowest(guests);
      } else if (is_left) {
        return busy ? kAgain : kFull;
      } else if (!is_array) {
        at = kLast;
      } else if (!pair_left) {
        if (own == 0) return kFull;
        at = highest(own);
      }
      const Word word = at == kAll ? pair : bucket.word(at);
      uint32_t to = 0;
      if (at != kAll) of.tag = tag_of(S::key(word), A::kEntries);
      if (guests != 0) {
        guests &= guests - 1;
        of = path_at<S>(t, S::key(word), begin + at);
        if (twice(bucket, S::key(word), of.tag)) continue;
        lock = lock_of(t, of.bucket);
        if (lock == lock_of(t, path.bucket)) lock = nullptr;
        else if (!try_lock(lock)) {
          busy = true;
          continue;
        }
      } else {
        if (at == kAll) pair_left = false;
        else own &= ~(1u << at);
        to = A::entry(array, of.tag);
      }
      const uint32_t function = enter(of, begin, to, word);
      if (function == 0) {
        if (lock) unlock(lock);
        if (is_array || at != kLast) continue;
        return kFull;
      }
      fence();  // who sees the entry, sees the key where it says
      if (of.bucket != path.bucket) {
        Word* const last = slot(Rules::last_slot(t, of.bucket));
        store_relaxed(last, A::with(load_relaxed(last), of.tag, function));
      } else if (to == 0) {
        array = A::with(array, of.tag, function);
        store_relaxed(slot(begin + kLast), array);
      }
      if (!is_array && at == kLast && of.bucket == path.bucket) {
        is_array = true, fresh--;  // the array has its slot
        continue;
      }
      if (at != kAll) {
        fence();  // who sees that the key is gone, sees the entry
        store_relaxed(slot(begin + at), pair);
      }
      if (lock) unlock(lock);
      return kRevived;
    }
  }

 private:
  __device__ __forceinline__ Word* slot(uint32_t number) const { return slots_of<S>(t) + number; }
  __device__ __forceinline__ uint32_t twins_of(Key stored) const { return uint32_t(reduce(stored, Key(t.buckets / 2))); }

  __device__ __forceinline__ void read(uint32_t first, Bucket& bucket) const {
#pragma unroll
    for (uint32_t v = 0; v < kPieces; v++) bucket.piece[v].whole = load_relaxed(reinterpret_cast<Word128*>(slot(first)) + v);
  }
  __device__ __forceinline__ bool holds(uint32_t first, Key stored) const {
    Bucket bucket;
    read(first, bucket);
    bool found = false;
    bucket.each([&](int, int, Word w) { found |= S::key(w) == stored; });
    return found;
  }
  // twice tells whether two keys of a bucket are there by the entry of one.
  __device__ __forceinline__ bool twice(const Bucket& bucket, Key stored, uint32_t tag) const {
    uint32_t n = 0;
    bucket.each([&](int, int, Word w) { n += twins_of(S::key(w)) == twins_of(stored) && tag_of(S::key(w), A::kEntries) == tag; });
    return n > 1;
  }
  // enter puts a word into the secondary bucket that function `to` gives to a path, or where that is 0
  // into the one of all seven with most free slots, but not the one at `from`. It returns the function,
  // or 0.
  __device__ __forceinline__ uint32_t enter(Path path, uint32_t from, uint32_t to, Word word) {
    uint32_t best = 0, most = 0, at = 0;
    Word held = word;
#pragma unroll 1
    for (uint32_t i = to != 0 ? to : 1; i <= (to != 0 ? to : kFunctions); i++) {
      const uint32_t first = Rules::second(t, path, i);
      if (first == kAll || first == from) continue;
      Bucket bucket;
      read(first, bucket);
      uint32_t frees = 0;
      bucket.each([&](int, int, Word w) { frees += is_free<S>(w); });
      if (frees <= most) continue;
      best = i, most = frees;
      bucket.each([&](int v, int j, Word w) {
        if (is_free<S>(w)) at = first + v * Bucket::kSlots + j, held = w;
      });
    }
    if (best == 0 || !S::swap(slot(at), held, word)) return 0;
    if (S::key(held) == S::kEmpty) fresh++;
    return best;
  }
};

// displace_batch runs what of a batch has found no room. What it settles leaves the list.
template <class Rules, class K, class V>
__device__ __forceinline__ void displace_batch(const EvictParams<Table>& p) {
  using S = typename Rules::S;
  const uint32_t count = load_relaxed(p.spilled.count);
  if (count == 0) return;
  begin_moving(p.table);
  Displacer<Rules> displacer{p.table};
  for (uint64_t first = thread_index() - lane_index(); first < count; first += threads_in_grid()) {
    const uint64_t at = first + lane_index();
    Operation<S> op = operation<S, K, V>(p.changes, at < count ? load_relaxed(p.spilled.items + at) : p.changes.n);
    const Place<S> place(p.table, op.key);
    uint32_t* const lock = lock_of(p.table, place.path.bucket);
    op.outcome = kFull;
    bool open = op.there && !place.path.extra();
#pragma unroll 1
    for (uint32_t tries = 0; tries < kDisplaceTries && ballot(kAll, open) != 0; tries++) {
      if (!open) continue;
      if (!try_lock(lock)) {
        pause(kPause);
        continue;
      }
      op.outcome = displacer.insert(place.path, S::pair(place.stored, op.value));
      unlock(lock);
      open = op.outcome == kAgain;
    }
    sync_warp();
    op.there = op.there && op.outcome == kRevived;
    const uint32_t i = op.there ? load_relaxed(p.spilled.items + at) : 0;
    outcome<S, V>(p.changes, i, op);
    tally(p.table.counters, op.there ? op.outcome : kNothing);
    if (op.there) store_relaxed(p.spilled.items + at, kSettled);
  }
  count_used(p.table.counters, displacer.fresh);
  end_moving(p.table);
}

}  // namespace weft::horton
