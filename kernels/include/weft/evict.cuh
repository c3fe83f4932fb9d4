// Moves of keys that free slots in full buckets, for structures in which each key has several
// possible buckets.
//
// A batch of changes runs as two launches, or as three with buckets of eight slots. The first
// launch moves nothing. Its operations search the buckets of their keys without locks (path.cuh
// proves that a key is stored once). The launch lists the operations that find no slot. With eight
// slots, the next launch runs the operations that need a single step (step_batch in moves.cuh). The
// last launch, which this file implements, runs the rest of the list with locks (locks.cuh). In
// this launch, every access to a key is made under the lock of the key. This includes the operation
// itself, which looks for the key and then takes a free slot, and moves of the key. A thread that
// frees a slot for an operation keeps the operation's lock meanwhile. Many of the keys in the way
// share this lock. Within the launch no key is deleted. A listed key is absent, unless another
// operation of the list has inserted it. Therefore:
//
//   - Operations on one key run one after the other, and only the first inserts.
//   - While a key moves, no other thread changes it, in either of its places.
//   - Any other key may take a freed slot first. Then another search follows, at most kMaxAttempts
// of
//     them. Searches that find a lock taken do not count, because its holder is about to finish.
//
// At first each lane tries by itself, all lanes of a warp at the same time. Most operations need
// only one move of a key next to them. The warp runs the rest one by one, by breadth-first searches
// through at most kNodes keys. So the searches end. If a key finds no slot, it is reported, and the
// host grows the table or changes its seed. After a failed search, a warp tries fewer keys the next
// time. So a batch for a full table does not search the whole table for each key.
//
// Moves start at the end of the path that a search has found. Each move copies a key to a free slot
// by a compare-and-swap, which fails if the slot is taken. Then it clears the key's old slot. What
// was read without locks is read again under the lock of the key that moves. If a move fails, the
// moves before it stay in effect, and the table is as good as before.
//
// A structure defines its Rules, for slots S of a Table:
//
//	PathTile                        how tiles read paths (path.cuh); paths are of type Path
//	lock_bucket(path)               the bucket that determines the key's lock
//	first(path)                     the same, but kAll for a key with its own slot
//	roots(t)                        the number of buckets in which slots may be freed
//	root(t, path, level, i, slots)  the first slot of bucket i of these, or kAll. It sets `slots`
//	                                to the number of slots. These slots are the roots of a search
//	path_in(t, word, number)        the path of the key in slot `number`
//	others(t)                       the number of other buckets that a key may move to
//	other(t, path, number, i, urgent)
//	                                the first slot of bucket i of these, for the key in slot
//	                                `number`, or kAll. With urgent, more keys may move
//	other_slots(t)                  the number of slots of such a bucket
//	give_way(moves, path, number, pair)
//	                                moves the key from slot `number` to any possible place, and
//	                                reuses the slot for a pair, under the lock of the key. It
//	                                returns kRevived on success
//	may_leave(t, path, number)      whether the key in slot `number` may move without other keys,
//	                                under its lock
//	shares(path, other)             whether two keys move together
//	moved(t, path, number)          records that a key has moved to slot `number`, under its lock
//	kClearsSlots                        whether the slot that a key leaves becomes empty, not dead
//	alone(mover, path, op, level, still)
//	                                what one lane can do for an operation, under its lock, after
//	                                tiles have found no slot. It returns kFull if it can do
//	                                nothing, and kAgain if a lock was taken
//	kLevels                         the number of further searches that may fail
//	kMovesPrimaryLevel                         the number of failed searches after which a search is
// urgent
//	has_capacity(t)                   whether an urgent search is worth its time
#pragma once

#include "hash.cuh"
#include "locks.cuh"
#include "path.cuh"

namespace weft {

// run_locked runs the operations of the lanes with `run`. These lanes hold the locks of their
// operations, if locks are needed. Lanes of a tile work for each other, so the warp's syncs order
// their accesses with the locks that other lanes hold.
template <class PathTile, class V>
__device__ __forceinline__ void run_locked(const typename PathTile::Table& t, uint32_t flags,
                                           Operation<typename PathTile::S>& op, bool run) {
  sync_warp();
  Operation<typename PathTile::S> now = op;
  now.there = run;
  change_along<PathTile, V>(t, flags | kReuse, now);
  sync_warp();
  if (run) op.outcome = now.outcome, op.value = now.value;
}

// kNodes is the maximum number of keys that a search tries. kMaxAttempts is the maximum number of
// searches for one operation if others take the slots that it frees.
constexpr uint32_t kNodes = 512, kMinNodes = 64, kMaxAttempts = 64, kNoNode = 0xffff;

// kMaxRounds limits the wait of a lane that has found a lock taken. The lane waits for fewer
// rounds than that before it tries again.
constexpr uint32_t kMaxRounds = 8;

// Room is the result of a search.
enum Room : uint32_t {
  kNoSlot,
  kBusy,   // another thread has a lock
  kMoved,  // a slot was freed; another thread may have taken it
};

// SlotQueue holds the nodes of a search: the keys that a warp tries to move. It stores the slot of
// each key, and the node with the key that would take this slot.
struct SlotQueue {
  uint32_t slots[kNodes];
  uint16_t parents[kNodes];
};

// each_of calls f(number, word) for n neighboring slots, in one thread, and reads 16 bytes at a
// time. It stops when f returns true, and then returns true. It visits the slots from the first to
// the last. A path may end at an empty slot, so slots fill in that order.
template <class S, class F>
__device__ __forceinline__ bool each_of(typename S::Word* slots, uint32_t lo, uint32_t n, F f) {
  constexpr uint32_t per = 16 / sizeof(typename S::Word);
  const uint32_t hi = lo + n;
  Tile<S, 1, 1> reader;
#pragma unroll 1
  for (uint32_t at = lo; at < hi; at++) {
    if (at == lo || at % per == 0) reader.piece[0].whole = load_relaxed(reinterpret_cast<Word128*>(slots + at / per * per));
    if (f(at, reader.word(at % per))) return true;
  }
  return false;
}

template <class S>
__device__ __forceinline__ bool is_free(typename S::Word w) {
  return S::key(w) == S::kEmpty || S::key(w) == S::kDead;
}

// first_free returns the first free slot of n neighboring slots, or kAll. It reads 64 bytes at a
// time.
template <class S>
__device__ __forceinline__ uint32_t first_free(typename S::Word* slots, uint32_t lo, uint32_t n) {
  constexpr uint32_t pieces = 4, per = 16 / sizeof(typename S::Word), window = pieces * per;
  uint32_t found = kAll;
#pragma unroll 1
  for (uint32_t first = lo / window * window; first < lo + n && found == kAll; first += window) {
    Tile<S, 1, pieces> reader;
#pragma unroll
    for (uint32_t v = 0; v < pieces; v++) {
      const uint32_t at = first + v * per;
      if (at + per > lo && at < lo + n) reader.piece[v].whole = load_relaxed(reinterpret_cast<Word128*>(slots + at));
    }
    reader.each([&](int v, int j, typename S::Word w) {
      const uint32_t at = first + v * per + j;
      if (at >= lo && at < lo + n && found == kAll && is_free<S>(w)) found = at;
    });
  }
  return found;
}

// Moves moves keys in one lane.
template <class Rules>
struct Moves {
  using S = typename Rules::S;
  using Table = typename Rules::Table;
  using Path = typename Rules::Path;
  using Word = typename S::Word;

  const Table& t;
  uint32_t* own = nullptr;  // the lock that this lane, or its warp, holds
  int32_t fresh = 0;        // slots in use that were never used before a key moved there

  __device__ __forceinline__ explicit Moves(const Table& t) : t(t) {}
  __device__ __forceinline__ Word* slot(uint32_t number) const { return reinterpret_cast<Word*>(t.lines) + number; }

  // count adds the number of newly used slots to the counters. All lanes of a warp must call it.
  __device__ __forceinline__ void count() const { count_all(&t.counters->used, fresh); }
  // free_slot returns the first free slot among `slots` slots from `first` on, or kAll.
  __device__ __forceinline__ uint32_t free_slot(uint32_t first, uint32_t slots) const {
    return first_free<S>(slot(0), first, slots);
  }
  // enter puts a pair into a free slot among `slots` slots from `first` on. It returns the slot, or
  // kAll.
  __device__ __forceinline__ uint32_t enter(uint32_t first, uint32_t slots, Word pair) {
#pragma unroll 1
    for (uint32_t tries = 0; tries <= slots; tries++) {
      const uint32_t to = free_slot(first, slots);
      if (to == kAll) return kAll;
      const Word free = load_relaxed(slot(to));
      if (!is_free<S>(free) || !S::swap(slot(to), free, pair)) continue;
      if (S::key(free) == S::kEmpty) fresh++;
      return to;
    }
    return kAll;
  }
  // replace stores `next` in the slot of a key that has been copied elsewhere. A thread that reads
  // `next` there also finds the key's lock taken, and can find the key in its new slot.
  __device__ __forceinline__ void replace(uint32_t number, Word next) {
    fence();
    store_relaxed(slot(number), next);
  }
  // vacate frees the slot of a key that has been copied elsewhere.
  __device__ __forceinline__ void vacate(uint32_t number) {
    if (Rules::kClearsSlots) fresh--;
    replace(number, Rules::kClearsSlots ? S::pair(S::kEmpty, S::kEmpty) : S::dead(S::kNone));
  }
  // under runs f under the lock of a bucket. It returns kAgain if the lock is taken.
  template <class F>
  __device__ __forceinline__ Outcome under(uint32_t bucket, F f) const {
    uint32_t* lock = lock_of(t, bucket);
    if (lock != own && !try_lock(lock)) return kAgain;
    const Outcome done = f();
    if (lock != own) unlock(lock);
    return done;
  }
  // displace moves a key out of one of `slots` slots from `first` on, and reuses its slot for a
  // pair. It returns kAgain if a lock was taken.
  __device__ __forceinline__ Outcome displace(uint32_t first, uint32_t slots, Word pair) {
    Outcome done = kFull;
    each_of<S>(slot(0), first, slots, [&](uint32_t number, Word w) __attribute__((always_inline)) {
      if (S::key(w) >= S::kNone) return false;
      const Path of = Rules::path_in(t, w, number);
      bool goes = false;
#pragma unroll 1
      for (uint32_t i = 0; i < Rules::others(t) && !goes; i++) {
        const uint32_t to = Rules::other(t, of, number, i, false);
        goes = to != kAll && free_slot(to, Rules::other_slots(t)) != kAll;
      }
      if (!goes) return false;
      const Outcome now = under(Rules::first(of), [&]() __attribute__((always_inline)) {
        return S::key(load_relaxed(slot(number))) == S::key(w) ? Rules::give_way(*this, of, number, pair) : kFull;
      });
      if (now != kFull) done = now;
      return done == kRevived;
    });
    return done;
  }
};

// Mover adds to Moves the searches that the lanes of a warp run together.
template <class R>
struct Mover : Moves<R> {
  using Rules = R;
  using Base = Moves<R>;
  using typename Base::Path;
  using typename Base::S;
  using typename Base::Table;
  using typename Base::Word;
  using Base::fresh;
  using Base::own;
  using Base::slot;
  using Base::t;

  SlotQueue& queue;
  uint32_t most;
  bool urgent = false;  // whether the current search is urgent

  __device__ __forceinline__ Mover(const Table& t, SlotQueue& queue) : Base(t), queue(queue), most(limit()) {}

  // room frees a slot for the key of a path. The warp holds the key's lock. level is the number of
  // failed searches. If several moves are possible, `next` selects one, so that the next attempt
  // takes another.
  __device__ __forceinline__ Room room(Path path, uint32_t level, uint32_t next) {
    const uint32_t lane = lane_index();
    urgent = level == Rules::kMovesPrimaryLevel;
    if (Rules::first(path) == kAll || (urgent && !Rules::has_capacity(t))) return kNoSlot;
    own = lock_of(t, Rules::first(path));
    sync_warp();  // orders the lock holder's accesses before the reads of all lanes
    uint32_t n = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < Rules::roots(t); i++) {
      uint32_t slots;
      const uint32_t first = Rules::root(t, path, level, i, slots);
      if (first == kAll) continue;
      if (lane < slots) put(n + lane, first + lane, kNoNode);
      n += slots;
    }
    // Each search goes one step beyond the roots, no matter how many searches have failed.
    const uint32_t bound = urgent ? kNodes : most > 2 * n ? most : 2 * n;
#pragma unroll 1
    for (uint32_t first = 0, end; first < n; first = end) {
      sync_warp();
      end = n - first < kWarp ? n : first + kWarp;
      const uint32_t at = first + lane;
      uint32_t to = kAll;
      bool goes = false;
      const Path of = look(at < end, at, path, to, goes);
      const uint32_t found = ballot(kAll, to != kAll);
      if (found != 0) {
        most = limit();
        const uint32_t mover = select(found, next % popcount(found));
        uint32_t room = kMoved;
        if (lane == mover) room = shift_along(at, to);
        sync_warp();
        return Room(shuffle(kAll, room, mover));
      }
      n = spread(goes, of, at, n, bound);
    }
    sync_warp();  // before the queue is used again
    if (most > kMinNodes) most /= 2;
    return kNoSlot;
  }

 private:
  __device__ __forceinline__ void put(uint32_t at, uint32_t number, uint32_t parent) {
    queue.slots[at] = number, queue.parents[at] = uint16_t(parent);
  }

  // limit returns the maximum number of keys to try. In a small table, this is twice the number of
  // slots.
  __device__ __forceinline__ uint32_t limit() const {
    const uint64_t slots = uint64_t(t.buckets) << t.shift;
    return 2 * slots < kNodes ? uint32_t(2 * slots) : kNodes;
  }
  // look examines a node. It sets `to` to a free slot in another bucket of the node's key, or to
  // the slot of the node if that is free. It returns the path of the key. It sets `goes` if the key
  // may move to another bucket.
  __device__ __forceinline__ Path look(bool there, uint32_t at, Path root, uint32_t& to, bool& goes) const {
    if (!there) return root;
    const uint32_t from = queue.slots[at];
    const Word word = load_relaxed(slot(from));
    if (is_free<S>(word)) {
      to = from;
      return root;
    }
    if (S::key(word) >= S::kNone) return root;  // being written
    const Path path = Rules::path_in(t, word, from);
    if (Rules::shares(path, root)) return path;  // the new key would have to move along
#pragma unroll 1
    for (uint32_t i = 0; i < Rules::others(t) && to == kAll; i++) {
      const uint32_t first = Rules::other(t, path, from, i, urgent);
      if (first == kAll) continue;
      if (!goes && !Rules::may_leave(t, path, from)) return path;
      goes = true;
      to = this->free_slot(first, Rules::other_slots(t));
    }
    return path;
  }

  // spread adds nodes to the queue: the keys in the other buckets to which the key of each lane's
  // node may move. It stops at `bound` nodes. It returns the new number of nodes.
  __device__ __forceinline__ uint32_t spread(bool has, Path of, uint32_t at, uint32_t n, uint32_t bound) {
    const uint32_t slots = Rules::other_slots(t), below = (1u << lane_index()) - 1;
    const uint32_t from = has ? queue.slots[at] : 0, parent = has ? queue.parents[at] : kNoNode;
    // The slots of the parent's bucket are already nodes.
    const uint32_t before = parent != kNoNode ? queue.slots[parent] / slots * slots : kAll;
#pragma unroll 1
    for (uint32_t i = 0; i < Rules::others(t); i++) {
      const uint32_t first = has ? Rules::other(t, of, from, i, urgent) : kAll;
      const bool adds = first != kAll && first != before;
      const uint32_t votes = ballot(kAll, adds);
      const uint32_t base = n + popcount(votes & below) * slots;
#pragma unroll 1
      for (uint32_t s = 0; adds && s < slots && base + s < bound; s++) put(base + s, first + s, at);
      n += popcount(votes) * slots;
      if (n > bound) n = bound;
    }
    return n;
  }

  // shift_along moves the key of a node to a free slot, then the key of the node's parent to the
  // node's slot, and so on. It stops when a lock is taken or a slot has changed.
  __device__ __forceinline__ Room shift_along(uint32_t at, uint32_t to) {
    if (queue.slots[at] == to) at = queue.parents[at];
    bool moved = true, busy = false;
    while (moved && at != kNoNode) {
      moved = move(queue.slots[at], to, busy);
      to = queue.slots[at], at = queue.parents[at];
    }
    return busy ? kBusy : kMoved;
  }

  // move moves the key of a slot to another slot. That slot is in a bucket of the key, unless the
  // key has changed since the search.
  __device__ __forceinline__ bool move(uint32_t from, uint32_t to, bool& busy) {
    const Word seen = load_relaxed(slot(from));
    if (S::key(seen) >= S::kNone) return is_free<S>(seen);
    const Path path = Rules::path_in(t, seen, from);
    if (Rules::first(path) == kAll) return false;
    const Outcome done = this->under(Rules::first(path), [&]() __attribute__((always_inline)) { return copy(path, from, to, S::key(seen)) ? kRevived : kFull; });
    busy = done == kAgain;
    return done == kRevived;
  }
  // copy moves the key under its lock.
  __device__ __forceinline__ bool copy(Path path, uint32_t from, uint32_t to, typename S::Key key) {
    const Word word = load_relaxed(slot(from)), free = load_relaxed(slot(to));
    if (S::key(word) != key || !is_free<S>(free)) return false;
    if (!leads(path, from, to) || !Rules::may_leave(t, path, from)) return false;
    if (!S::swap(slot(to), free, word)) return false;
    if (S::key(free) == S::kEmpty) fresh++;
    Rules::moved(t, path, to);
    this->vacate(from);
    return true;
  }
  // leads reports whether a key may move from slot `from` to slot `to`. The slot may hold another
  // key than the search has read. If paths end at empty slots, no earlier bucket of the key may
  // have an empty slot. So leads requires that the earlier buckets have no free slot.
  __device__ __forceinline__ bool leads(Path path, uint32_t from, uint32_t to) const {
    const uint32_t slots = Rules::other_slots(t);
#pragma unroll 1
    for (uint32_t i = 0; i < Rules::others(t); i++) {
      const uint32_t first = Rules::other(t, path, from, i, urgent);
      if (first == to / slots * slots) return true;
      if (!Rules::kClearsSlots && first != kAll && this->free_slot(first, slots) != kAll) return false;
    }
    return false;
  }
};

// insert_locked runs one operation per lane, and moves other keys if necessary. All lanes of the
// warp must call it. With `still`, no key moves.
template <class Rules, class V = void>
__device__ __forceinline__ void insert_locked(uint32_t flags, Operation<typename Rules::S>& op, bool still,
                                              Mover<Rules>& mover) {
  const auto path = Rules::PathTile::path(mover.t, op.key);
  uint32_t* const lock = lock_of(mover.t, Rules::lock_bucket(path));
  bool open = op.there, has = false;
  uint32_t level = still ? Rules::kLevels : 0, tries = 0, ways = 0, rounds = 0;
  while (ballot(kAll, open) != 0) {
    if (rounds != 0) rounds--;
    else if (open && !has) has = try_lock(lock);
    if (open && !has) pause(kPause);
    if (ballot(kAll, has) == 0) continue;
    run_locked<typename Rules::PathTile, V>(mover.t, flags, op, has);
    if (has && op.outcome == kFull) {
      mover.own = lock;
      op.outcome = Rules::alone(mover, path, op, level, still);
    }
    bool busy = has && op.outcome == kAgain;
    if (has && !busy && (op.outcome != kFull || level == Rules::kLevels)) unlock(lock), has = open = false;
    const uint32_t left = ballot(kAll, has && !busy);
    const bool chosen = left != 0 && lane_index() == lowest(left);
    if (has && !chosen) unlock(lock), has = false;
    if (left != 0) {
      const uint32_t by = lowest(left);
      const Room room = mover.room(path.of(by), shuffle(kAll, level, by), shuffle(kAll, ways, by));
      if (chosen && room == kNoSlot) level++;
      if (chosen && room == kMoved && ++tries == kMaxAttempts) level = Rules::kLevels;
      busy |= chosen && room == kBusy;
      if (has && busy) unlock(lock), has = false;
    }
    // Lanes wait for different numbers of rounds. So two lanes that need each other's locks do not
    // try again at the same time.
    if (busy) rounds = hash(uint32_t(thread_index()), uint64_t(ways)) % kMaxRounds;
    ways++;
  }
}

// kSettled replaces the list item of an operation that an intermediate launch has completed.
constexpr uint32_t kSettled = kAll;

// each_spilled calls f(i) for the operations of a list, one per lane. All lanes of a warp call f
// together, with i = n in a lane that has none. The items of the list become zero. Each warp has a
// part of the list. It advances in that part until all its lanes have an operation.
template <class F>
__device__ __forceinline__ void each_spilled(const List& list, uint32_t n, F f) {
  const uint32_t count = load_relaxed(list.count), below = (1u << lane_index()) - 1;
  const uint32_t warps = uint32_t(threads_in_grid() / kWarp), part = (count - 1) / warps + 1;
  const uint64_t first = thread_index() / kWarp * part, end = first + part < count ? first + part : count;
  for (uint64_t next = first; next < end;) {
    uint32_t i = n;
    for (uint32_t idle = kAll; next < end && idle != 0; idle = ballot(kAll, i == n)) {
      const uint64_t at = next + popcount(idle & below);
      if (i == n && at < end) {
        i = load_relaxed(list.items + at);
        store_relaxed(list.items + at, 0u);
        if (i == kSettled) i = n;
      }
      next += popcount(idle);
    }
    f(i);
  }
}

}  // namespace weft
