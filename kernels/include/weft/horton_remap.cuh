// Insertions into full buckets of package horton, and the reversal of their moves (paper, sections
// 5.3 and 5.4). One thread runs each of them, and holds the lock of the primary bucket.
//
// The lock of a bucket protects the bucket's array of remap entries. It also protects all keys with
// that primary bucket, in any bucket. A thread takes a free slot by a compare-and-swap. A slot with
// a key changes only under the lock of that key. To move a key, a thread copies it to its new
// bucket, writes its entry, and then reuses its old slot. So a lookup finds the key by the array
// that it has read, old or new, except if the lookup overlaps the move. Such a lookup finds that
// the lock is taken or that its number has changed (locks.cuh).
#pragma once

#include "evict.cuh"
#include "horton_table.cuh"

namespace weft::horton {

template <class Slots, class Tile>
struct Rules {
  using S = Slots;
  using PathTile = Tile;
  using Table = horton::Table;
  using Path = horton::Path;
  using Word = typename S::Word;
  using Key = typename S::Key;
  using A = Array<S>;
  // The first failed search for a slot permits the promotion of a bucket that still has secondary
  // keys. After the second, primary keys may also be moved. The third ends the attempt.
  static constexpr uint32_t kMovesPrimaryLevel = 2, kLevels = 3;
  static constexpr bool kClearsSlots = true;

  __device__ static __forceinline__ uint32_t first(Path path) { return path.bucket; }
  __device__ static __forceinline__ uint32_t lock_bucket(Path path) { return path.extra() ? path.tag : path.bucket; }

  // ---- places --------------------------------------------------------------

  __device__ static __forceinline__ Word* slot(const Table& t, uint32_t number) { return slots_of<S>(t) + number; }
  __device__ static __forceinline__ uint32_t last_slot(const Table& t, uint32_t bucket) { return ((bucket + 1) << t.shift) - 1; }
  // begin returns the first slot of a primary bucket.
  __device__ static __forceinline__ uint32_t begin(const Table& t, uint32_t bucket) { return bucket << t.shift; }
  // second returns the first slot of the secondary bucket that an entry names. It returns kAll if
  // that bucket or its twin contains the primary bucket.
  __device__ static __forceinline__ uint32_t second(const Table& t, Path path, uint32_t entry) {
    const uint32_t first = secondary(t, path.bucket, path.tag, A::kEntries, entry), pair = wide(t) + 1;
    return first >> pair == begin(t, path.bucket) >> pair ? kAll : first;
  }
  // path_in returns the path of the key in a slot. For a slot without a key it returns an extra
  // path.
  __device__ static __forceinline__ Path path_in(const Table& t, Word w, uint32_t number) {
    if (S::key(w) >= S::kNone || A::is(w)) return {Path::kExtra, 0};
    return path_at<S>(t, S::key(w), number);
  }

  // ---- moves ---------------------------------------------------------------

  // Slots are freed in the primary bucket, and also in secondary buckets. If the primary bucket is
  // of type B, these are the bucket that the key's entry names, or all seven if it has no entry. If
  // it is of type A, a promotion would make one of its keys secondary, and these are the buckets of
  // that key. While a secondary key may still leave a bucket of type A, slots are freed only in
  // that bucket.
  __device__ static __forceinline__ uint32_t roots(const Table&) { return 1 + kFunctions; }
  __device__ static __forceinline__ uint32_t root(const Table& t, Path path, uint32_t level, uint32_t i, uint32_t& slots) {
    slots = 1u << t.shift;
    if (i == 0) return begin(t, path.bucket);
    slots = other_slots(t);
    const Word array = load_relaxed(slot(t, last_slot(t, path.bucket)));
    if (!A::is(array)) return level == 0 && has_secondary(t, path.bucket) ? kAll : second(t, own_key(t, path), i);
    const uint32_t entry = A::entry(array, path.tag);
    return entry == 0 || entry == i ? second(t, path, i) : kAll;
  }
  // own_key returns the path of the last primary key in the bucket of a path. Without a primary key
  // there, it returns the path itself.
  __device__ static __forceinline__ Path own_key(const Table& t, Path path) {
    each_of<S>(slots_of<S>(t), begin(t, path.bucket), 1u << t.shift, [&](uint32_t number, Word w) __attribute__((always_inline)) {
      const Path of = path_in(t, w, number);
      if (of.bucket == path.bucket) path = of;
      return false;
    });
    return path;
  }
  // A secondary key may move to any other of its secondary buckets. In an urgent search, a key in
  // its primary bucket may also become secondary, if the bucket is of type B. That violates
  // guideline 1 of the paper. Without it, a few keys in ten thousand would find no place near the
  // maximum load of a table.
  __device__ static __forceinline__ uint32_t others(const Table&) { return kFunctions; }
  __device__ static __forceinline__ uint32_t other_slots(const Table& t) { return 1u << wide(t); }
  __device__ static __forceinline__ uint32_t other(const Table& t, Path path, uint32_t number, uint32_t i, bool urgent) {
    if (path.extra()) return kAll;
    if (path.bucket == number >> t.shift) {
      if (!urgent) return kAll;
      const Word array = load_relaxed(slot(t, last_slot(t, path.bucket)));
      const uint32_t entry = A::is(array) ? A::entry(array, path.tag) : kAll;
      return entry == 0 || entry == i + 1 ? second(t, path, i + 1) : kAll;
    }
    const uint32_t first = second(t, path, i + 1);
    return first == kAll || first >> wide(t) == number >> wide(t) ? kAll : first;
  }
  // has_capacity reports whether the table has fewer keys than its buckets can take. With more
  // keys, a search for a place is not worth its time.
  __device__ static __forceinline__ bool has_capacity(const Table& t) {
    return load_relaxed(&t.counters->live) < t.bears;
  }
  // may_leave reports whether a key may be moved alone. A primary key always may. A secondary key
  // may if no other key shares its entry.
  __device__ static __forceinline__ bool may_leave(const Table& t, Path path, uint32_t number) {
    return path.bucket == number >> t.shift || of_entry(t, path, number >> wide(t) << wide(t)) == 1;
  }
  __device__ static __forceinline__ void moved(const Table& t, Path path, uint32_t number) {
    const uint32_t last = last_slot(t, path.bucket);
    uint32_t entry = 1;
    while (entry < kFunctions && second(t, path, entry) != number >> wide(t) << wide(t)) entry++;
    fence();  // a thread that reads the entry also finds the key there
    store_relaxed(slot(t, last), A::with(load_relaxed(slot(t, last)), path.tag, entry));
  }
  // give_way moves a secondary key, together with all keys that share its entry.
  template <class Moves>
  __device__ static __forceinline__ Outcome give_way(Moves& m, Path path, uint32_t number, Word pair) {
    return regroup(m, path, number >> wide(m.t) << wide(m.t), number, pair);
  }
  // regroup moves the keys of a secondary bucket that share an entry to another of their secondary
  // buckets. It stores a pair in the slot of one of these keys. If `number` is kAll, the pair moves
  // to the new bucket instead. An entry names one bucket, so either all keys find a slot there or
  // the copies are cleared again. No lookup can have found such copies.
  template <class Moves>
  __device__ static __forceinline__ Outcome regroup(Moves& m, Path path, uint32_t from, uint32_t number, Word pair) {
    const Table& t = m.t;
    const bool along = number == kAll;
    const uint32_t need = of_entry(t, path, from) + along;
#pragma unroll 1
    for (uint32_t i = 1; i <= kFunctions; i++) {
      const uint32_t first = second(t, path, i);
      if (first == kAll || first == from || free_slots(t, first) < need) continue;
      bool all = !each_sharer(t, path, from, [&](uint32_t, Word w) __attribute__((always_inline)) { return m.enter(first, other_slots(t), w) == kAll; });
      if (all && along) all = m.enter(first, other_slots(t), pair) != kAll;
      if (all) moved(t, path, first);
      // if all were copied, clear the originals; otherwise clear the copies
      const uint32_t left = all ? from : first;
      each_sharer(t, path, left, [&](uint32_t at, Word) __attribute__((always_inline)) {
        if (at == number) m.replace(at, pair);
        else m.vacate(at);
        return false;
      });
      if (all) return kRevived;
    }
    return kFull;
  }
  __device__ static __forceinline__ uint32_t free_slots(const Table& t, uint32_t first) {
    uint32_t n = 0;
    each_of<S>(slots_of<S>(t), first, other_slots(t), [&](uint32_t, Word w) {
      n += is_free<S>(w);
      return false;
    });
    return n;
  }
  // each_sharer calls f for the keys of a secondary bucket that share the entry of a path. It stops
  // when f returns true, and reports whether f did.
  template <class F>
  __device__ static __forceinline__ bool each_sharer(const Table& t, Path path, uint32_t first, F f) {
    return each_of<S>(slots_of<S>(t), first, other_slots(t), [&](uint32_t number, Word w) __attribute__((always_inline)) {
      return shares(path_in(t, w, number), path) && f(number, w);
    });
  }
  // of_entry returns how many keys of a secondary bucket share the entry of a path.
  __device__ static __forceinline__ uint32_t of_entry(const Table& t, Path path, uint32_t first) {
    uint32_t n = 0;
    each_sharer(t, path, first, [&](uint32_t, Word) {
      n++;
      return false;
    });
    return n;
  }
  __device__ static __forceinline__ bool shares(Path a, Path b) {
    return !a.extra() && a.bucket == b.bucket && a.tag == b.tag;
  }

  // ---- insertions ----------------------------------------------------------

  // alone does what a lane can do by itself. It moves a secondary key of the primary bucket
  // elsewhere, or promotes the bucket. Or it makes a primary key secondary, which may be the new
  // key.
  template <class Mover>
  __device__ static __forceinline__ Outcome alone(Mover& m, Path path, const Operation<S>& op, uint32_t level, bool still) {
    if (path.extra()) return kFull;
    const Table& t = m.t;
    const Word pair = S::pair(Place<S>(t, op.key).stored, op.value);
    const Word rest = load_relaxed(slot(t, last_slot(t, path.bucket)));
    if (still) return A::is(rest) ? remap(m, path, pair, rest, true) : kFull;
    const Outcome done = m.displace(begin(t, path.bucket), 1u << t.shift, pair);
    if (done != kFull) return done;
    // A bucket stays of type A as long as a secondary key may leave it.
    if (!A::is(rest) && level == 0 && has_secondary(t, path.bucket)) return kFull;
    const Path of_rest = path_in(t, rest, last_slot(t, path.bucket));
    if (of_rest.extra() && !A::is(rest)) return kAgain;  // another thread has changed the bucket
    return m.under(of_rest.extra() ? path.bucket : of_rest.bucket,
                   [&]() __attribute__((always_inline)) { return remap(m, path, pair, rest, false); });
  }

  // remap puts a pair into a full bucket that has `rest` in its last slot. If `rest` is a key, the
  // thread also holds the lock of that key, because a promotion takes its slot. On promotion, that
  // key or another primary key is the first that becomes secondary.
  template <class Mover>
  __device__ static __forceinline__ Outcome remap(Mover& m, Path path, Word pair, Word rest, bool still) {
    const Table& t = m.t;
    const uint32_t slots = 1u << t.shift, last = last_slot(t, path.bucket);
    if (!same(load_relaxed(slot(t, last)), rest)) return kAgain;
    Word array = A::is(rest) ? rest : A::none();
    bool is_array = A::is(rest);
    // Number 0 is the pair itself. The other numbers are slots, from the last to the first.
#pragma unroll 1
    for (uint32_t i = is_array ? 0 : 1; i <= (still ? 0 : slots); i++) {
      const uint32_t number = last + 1 - i;
      if (i == 1 && is_array) continue;
      const Word w = i == 0 ? pair : load_relaxed(slot(t, number));
      const Path of = i == 0 ? path : path_in(t, w, number);
      if (of.bucket != path.bucket) continue;
      if (!become_secondary(m, of, w, array)) {
        const uint32_t entry = i == 0 && !still ? A::entry(array, path.tag) : 0;
        if (entry != 0 && regroup(m, path, second(t, path, entry), kAll, pair) == kRevived) return kRevived;
        continue;
      }
      if (!is_array && i > 1) m.replace(number, rest);
      fence();  // a thread that reads the array also finds the key in its new bucket
      store_relaxed(slot(t, last), array);
      if (is_array && i > 0) m.replace(number, pair);
      if (is_array) return kRevived;
      m.fresh--;  // one slot fewer in use
      is_array = true, i = kAll;
    }
    return kFull;
  }

  __device__ static __forceinline__ bool has_secondary(const Table& t, uint32_t bucket) {
    return each_of<S>(slots_of<S>(t), begin(t, bucket), 1u << t.shift, [&](uint32_t number, Word w) {
      const Path path = path_in(t, w, number);
      return !path.extra() && path.bucket != bucket;
    });
  }

  // become_secondary copies a key to the secondary bucket that its entry names, and updates the
  // array. If the key has no entry, or an entry that no key uses any more, it takes the first
  // secondary bucket with a free slot.
  template <class Mover>
  __device__ static __forceinline__ bool become_secondary(Mover& m, Path path, Word pair, Word& array) {
    const Table& t = m.t;
    const uint32_t entry = A::entry(array, path.tag);
#pragma unroll 1
    for (uint32_t i = entry != 0 ? 0 : 1; i <= kFunctions; i++) {
      const uint32_t first = second(t, path, i != 0 ? i : entry);
      if (first == kAll) continue;
      if (m.enter(first, other_slots(t), pair) != kAll) {
        if (i != 0) array = A::with(array, path.tag, i);
        return true;
      }
      if (i == 0 && of_entry(t, path, first) != 0) return false;
    }
    return false;
  }

  __device__ static __forceinline__ bool same(Word a, Word b) {
    return S::key(a) == S::key(b) && S::value(a) == S::value(b);
  }

  // ---- reclaiming ------------------------------------------------------------

  // reclaim moves keys back to a primary bucket of type B as far as the bucket has free slots. It
  // clears unused entries. If no entry is left, it turns the bucket into one of type A (paper,
  // section 5.4). The thread holds the lock of the bucket.
  template <class Mover>
  __device__ static __forceinline__ void reclaim(Mover& m, uint32_t bucket) {
    const Table& t = m.t;
    const uint32_t last = last_slot(t, bucket);
    const Word before = load_relaxed(slot(t, last));
    if (!A::is(before)) return;
    Word array = before;
#pragma unroll 1
    for (uint32_t tag = 0; tag < A::kEntries; tag++) {
      const uint32_t entry = A::entry(array, tag);
      if (entry == 0) continue;
      const Path path{bucket, tag};
      uint32_t left = 0;
      each_sharer(t, path, second(t, path, entry), [&](uint32_t number, Word w) {
        if (m.enter(begin(t, bucket), 1u << t.shift, w) != kAll) m.vacate(number);
        else left++;
        return false;
      });
      if (left == 0) array = A::with(array, tag, 0);
    }
    if (same(array, before)) return;
    fence();
    store_relaxed(slot(t, last), same(array, A::none()) ? S::pair(S::kEmpty, S::kEmpty) : array);
  }
};

}  // namespace weft::horton
