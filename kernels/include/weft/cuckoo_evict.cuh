// Room in full buckets of package cuckoo: keys are moved to other buckets of theirs.
//
// A batch of changes comes as two launches.
//
// The first one moves nothing. Its operations go along the buckets of their keys as
// those of package linear go along a path, without locks (path.cuh, which says why a key
// is there once): a key enters at the first free slot of its path. Where it is to go to
// the bucket with most free slots, inserters of one key might choose different ones, so
// each takes the lock of its key. Operations that find all buckets full are listed.
//
// The second launch works on that list, with locks: a lock is a number in a small array,
// which is odd while it is taken, by the first bucket of a key. Whatever is done to a key
// there, it is done under its lock: the operation itself, which looks for the key, then
// takes a free slot; and moving it. Who makes room for an operation keeps its lock
// meanwhile, which many of the keys in the way have, too. Nobody waits for a lock who has
// one: who finds one taken gives back its own and tries again, by another way, so there is no
// deadlock, whatever moves cross. Within the launch nothing is deleted, and a key is absent when it is
// listed, or has come by another operation of the list. So
//
//   - operations on one key come one after the other, and only the first inserts;
//   - a key that moves is changed by nobody meanwhile, in neither of its places;
//   - a slot that has been freed may be taken by any other key first: then there is
//     another search for room, kTries of them at most. Those that meet a lock don't
//     count: who has it is about to end.
//
// A search goes breadth first through at most kNodes keys, so it ends; a key that finds no
// room is reported, and the host grows the table, or gives it another seed. A warp whose
// search was in vain tries fewer keys the next time, lest a batch for a full table goes
// through all of it for each of its keys. Moves are
// done from the end of the way: each copies a key to a slot that is free, by a
// compare-and-swap, which fails if it no longer is, and then makes its old slot dead. What
// was found without locks is read again under the lock of the key that moves. If a move
// fails, those before it have been done, and the table is as good as before.
#pragma once

#include "cuckoo_table.cuh"

namespace weft::cuckoo {

// ---- locks -----------------------------------------------------------------

__device__ __forceinline__ uint32_t* lock_of(const Table& t, Path path) {
  return t.locks + ((path.extra() ? path.second : path.first) & t.lock_mask);
}

// try_lock takes a lock, unless another thread has it.
__device__ __forceinline__ bool try_lock(uint32_t* lock) {
  uint32_t number = load_relaxed(lock);
  return number % 2 == 0 && cas_acquire(lock, number, number + 1) == number;
}
// unlock gives it back. Its number has not been before, for long.
__device__ __forceinline__ void unlock(uint32_t* lock) { store_release(lock, load_relaxed(lock) + 1); }

// ---- operations under locks ------------------------------------------------

// stash puts a key that is absent into its line of the stash. Its lane has the lock.
template <class S>
__device__ __forceinline__ Outcome stash(const Table& t, Path path, const Operation<S>& op) {
  constexpr uint32_t slots = kLineBytes / sizeof(typename S::Word);
  if (t.stash == 0 || path.extra()) return kFull;
  auto* line = slots_of<S>(t) + uint64_t(path.stash_line(t)) * slots;
#pragma unroll 1
  for (uint32_t i = 0; i < slots; i++) {
    const auto word = load_relaxed(line + i);
    if (S::key(word) != S::kEmpty && S::key(word) != S::kDead) continue;
    if (S::swap(line + i, word, S::pair(stored<S>(op.key), op.value)))
      return S::key(word) == S::kEmpty ? kInserted : kRevived;
  }
  return kFull;
}

// run_locked runs the operations of the lanes that `run`; those that have locks may use the
// stash, if told so. Lanes of a tile work for each other: the warp's meetings order what
// they do with the locks of those whose operations they are.
template <class PathTile, class V>
__device__ __forceinline__ void run_locked(const Table& t, uint32_t flags, Operation<typename PathTile::S>& op, bool run,
                                           bool stashes) {
  sync_warp();
  Operation<typename PathTile::S> now = op;
  now.there = run;
  change_along<PathTile, V>(t, flags | kReuse, now);
  if (run && stashes && now.outcome == kFull) now.outcome = stash(t, path_of<typename PathTile::S>(t, op.key), now);
  sync_warp();
  if (run) op.outcome = now.outcome, op.value = now.value;
}

// change_locked runs one operation per lane, those that insert under their locks. All lanes
// of the warp must call it.
template <class PathTile, class V = void>
__device__ __forceinline__ void change_locked(const Table& t, uint32_t flags, Operation<typename PathTile::S>& op) {
  using S = typename PathTile::S;
  const bool needs = inserts<S, V>(op.kind);
  uint32_t* const lock = lock_of(t, path_of<S>(t, op.key));
  bool open = op.there;
  while (ballot(kAll, open) != 0) {
    const bool run = open && (!needs || try_lock(lock));
    if (ballot(kAll, run) == 0) continue;
    run_locked<PathTile, V>(t, flags, op, run, false);
    if (run && needs) unlock(lock);
    if (run) open = false;
  }
}

// ---- moves -----------------------------------------------------------------

// kNodes bounds a search for room: so many keys are tried. kTries is how many searches there
// are for one operation, whose room others take.
constexpr uint32_t kNodes = 512, kLeastNodes = 64, kTries = 64, kNoNode = 0xffff;

// Room is what a search has come to.
enum Room : uint32_t {
  kNoRoom,
  kBusy,   // another thread has a lock
  kMoved,  // there is room, unless others were faster
};

// Queue is the keys that a warp tries: the numbers of their slots, and whose key would come
// there.
struct Queue {
  uint32_t slots[kNodes];
  uint16_t parents[kNodes];
};

// Mover makes room for keys, by all lanes of a warp together.
template <class S>
struct Mover {
  using Word = typename S::Word;

  const Table& t;
  Queue& queue;
  uint32_t* own = nullptr;  // the lock that this warp has
  uint32_t fresh = 0;  // slots that were never used before a key was moved there
  uint32_t most = limit();

  // room makes room in a bucket of a path, whose lock the warp has. Of several ways it takes
  // another one the next time.
  __device__ __forceinline__ Room room(Path path, uint32_t next) {
    own = lock_of(t, path);
    const uint32_t lane = lane_index(), slots = 1u << t.shift;
    if (path.extra()) return kNoRoom;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t.functions; i++, n += slots)
      if (lane < slots) put(n + lane, path.bucket(t, i) * slots + lane, kNoNode);
    for (uint32_t first = 0, end; first < n; first = end) {
      sync_warp();
      end = n - first < kWarp ? n : first + kWarp;
      const uint32_t at = first + lane;
      uint32_t to = kAll;
      const Path of = look(at < end, at, to);
      const uint32_t found = ballot(kAll, to != kAll);
      if (found != 0) {
        most = limit();
        const uint32_t mover = select(found, next % popcount(found));
        uint32_t room = kMoved;
        if (lane == mover) room = shift_along(at, to);
        sync_warp();
        return Room(shuffle(kAll, room, mover));
      }
      n = spread(of, at, n);
    }
    sync_warp();  // before the queue is used again
    if (most > kLeastNodes) most /= 2;
    return kNoRoom;
  }

 private:
  __device__ __forceinline__ static bool is_free(Word w) { return S::key(w) == S::kEmpty || S::key(w) == S::kDead; }
  __device__ __forceinline__ Word* slot(uint32_t number) const { return slots_of<S>(t) + number; }
  __device__ __forceinline__ void put(uint32_t at, uint32_t number, uint32_t parent) {
    queue.slots[at] = number, queue.parents[at] = uint16_t(parent);
  }

  // limit is how many keys are tried at most: of a small table each twice.
  __device__ __forceinline__ uint32_t limit() const {
    const uint64_t slots = uint64_t(t.buckets) << t.shift;
    return 2 * slots < kNodes ? uint32_t(2 * slots) : kNodes;
  }
  // look looks at a node: `to` becomes a free slot in another bucket of its key, or its own
  // slot if that is free. It returns the path of its key, or that of none.
  __device__ __forceinline__ Path look(bool there, uint32_t at, uint32_t& to) const {
    constexpr Path none{Path::kExtra, 0};
    if (!there) return none;
    const uint32_t from = queue.slots[at];
    const Word word = load_relaxed(slot(from));
    if (is_free(word)) {
      to = from;
      return none;
    }
    if (S::key(word) >= S::kNone) return none;  // it is being written
    const Path path = path_of<S>(t, S::key(word));
    for (uint32_t i = 0; i < t.functions && to == kAll; i++) {
      const uint32_t bucket = path.bucket(t, i);
      if (bucket != from >> t.shift) to = free_slot(bucket);
    }
    return path;
  }

  // free_slot is one of a bucket, or kAll. It reads 16 bytes at a time.
  __device__ __forceinline__ uint32_t free_slot(uint32_t bucket) const {
    using Piece = typename Tile<S, 1, 1>::Piece;
    constexpr uint32_t per = 16 / sizeof(Word);
    const uint32_t lo = bucket << t.shift, hi = lo + (1u << t.shift);
    uint32_t found = kAll;
    for (uint32_t at = lo / per * per; at < hi && found == kAll; at += per) {
      Piece piece;
      piece.whole = load_relaxed(reinterpret_cast<Word128*>(slot(at)));
#pragma unroll
      for (uint32_t j = 0; j < per; j++)
        if (at + j >= lo && at + j < hi && found == kAll && is_free(piece.slots[j])) found = at + j;
    }
    return found;
  }

  // spread adds the keys of the buckets where those of the lanes' nodes may go, as far as
  // there is room, and returns how many nodes there are then.
  __device__ __forceinline__ uint32_t spread(Path of, uint32_t at, uint32_t n) {
    const uint32_t slots = 1u << t.shift, below = (1u << lane_index()) - 1;
    const bool has = !of.extra();
    const uint32_t own = has ? queue.slots[at] >> t.shift : 0, parent = has ? queue.parents[at] : kNoNode;
    const uint32_t before = parent != kNoNode ? queue.slots[parent] >> t.shift : own;  // where its slots are nodes
    for (uint32_t i = 0; i < t.functions; i++) {
      const uint32_t bucket = has ? of.bucket(t, i) : own;
      const bool adds = bucket != own && bucket != before;
      const uint32_t votes = ballot(kAll, adds);
      const uint32_t base = n + popcount(votes & below) * slots;
      for (uint32_t s = 0; adds && s < slots && base + s < most; s++) put(base + s, bucket * slots + s, at);
      n += popcount(votes) * slots;
      if (n > most) n = most;
    }
    return n;
  }

  // shift_along moves the key of a node to a free slot, that of its parent to its own, and
  // so on, until a lock is taken or something else than was seen.
  __device__ __forceinline__ Room shift_along(uint32_t at, uint32_t to) {
    if (queue.slots[at] == to) at = queue.parents[at];
    bool moved = true, busy = false;
    while (moved && at != kNoNode) {
      moved = move(queue.slots[at], to, busy);
      to = queue.slots[at], at = queue.parents[at];
    }
    return busy ? kBusy : kMoved;
  }

  // move moves the key of a slot to another slot, which is in a bucket of the key if it is
  // still the one that was seen there.
  __device__ __forceinline__ bool move(uint32_t from, uint32_t to, bool& busy) {
    const Word seen = load_relaxed(slot(from));
    if (S::key(seen) >= S::kNone) return is_free(seen);
    uint32_t* lock = lock_of(t, path_of<S>(t, S::key(seen)));
    if (lock != own && !try_lock(lock)) {
      busy = true;
      return false;
    }
    const bool done = copy(from, to, S::key(seen));
    if (lock != own) unlock(lock);
    return done;
  }
  // copy does it under the lock of the key.
  __device__ __forceinline__ bool copy(uint32_t from, uint32_t to, typename S::Key key) {
    const Word word = load_relaxed(slot(from)), free = load_relaxed(slot(to));
    if (S::key(word) != key || !is_free(free) || !may(to, key)) return false;
    if (!S::swap(slot(to), free, word)) return false;
    if (S::key(free) == S::kEmpty) fresh++;
    fence();  // who sees the old slot dead, sees the lock taken, and may see the new slot
    S::swap(slot(from), word, S::dead(S::kNone));
    return true;
  }
  // may tells whether a slot is in a bucket of a key: the one that was seen in a slot when the
  // search came there may be another one by now.
  __device__ __forceinline__ bool may(uint32_t to, typename S::Key key) const {
    const Path path = path_of<S>(t, key);
    for (uint32_t i = 0; i < t.functions; i++)
      if (path.bucket(t, i) == to >> t.shift) return true;
    return false;
  }
};

// settle runs one operation per lane, whatever has to be moved for it. All lanes of the warp
// must call it. Where keys are still, none moves.
template <class PathTile, class V = void>
__device__ __forceinline__ void settle(const Table& t, uint32_t flags, Operation<typename PathTile::S>& op, bool still,
                                       Mover<typename PathTile::S>& mover) {
  using S = typename PathTile::S;
  const Path path = path_of<S>(t, op.key);
  uint32_t* const lock = lock_of(t, path);
  bool open = op.there, last = still, has = false;
  uint32_t tries = 0, ways = 0;
  while (ballot(kAll, open) != 0) {
    if (open && !has) has = try_lock(lock);
    if (ballot(kAll, has) == 0) continue;
    run_locked<PathTile, V>(t, flags, op, has, last);
    if (has && (op.outcome != kFull || last)) unlock(lock), has = open = false;
    const uint32_t left = ballot(kAll, has);
    if (left == 0) continue;
    const uint32_t first = lowest(left);
    const bool chosen = lane_index() == first;
    if (has && !chosen) unlock(lock), has = false;
    const Room room = mover.room(path.of(first), shuffle(kAll, ways, first));
    if (!chosen) continue;
    if (room == kNoRoom) last = true;
    if (room == kMoved && ++tries == kTries) last = true;
    if (room == kBusy) ways++, unlock(lock), has = false;
  }
}

}  // namespace weft::cuckoo
