// Changes of a table of package slab by tiles: INSERT, REPLACE, DELETE, DELETEALL, and SEARCH in
// mixed batches.
#pragma once

#include "account.cuh"
#include "slab_table.cuh"

namespace weft::slab {

// Pairs for one bucket of a multimap: threads that append one each contend for the same slots. A
// million pairs of one key took 3.4 s that way, those of 100 keys 11 ms, of 10^4 keys 0.3 ms. If a
// quarter of a warp's pairs or more are for one bucket, and after kTries attempts, they are left to
// a few warps that append as many at once as a slab takes: 0.17 s. With more keys these few warps
// are slower than contention: 33 ms for 100 keys after 64 attempts.
constexpr int kCrowd = 8, kTries = 512;

// attach links a slab after full slabs. For each lane with a link it returns the address of the
// slab linked there, or kNoUnit if none can be allocated. All lanes of the warp must call it.
__device__ __forceinline__ uint32_t attach(const Table& t, Resident& resident, Link* link) {
  uint32_t fresh = allocate(t.alloc, resident, link != nullptr), there = kNoUnit;
  if (fresh != kNoUnit) {
    t.alloc.publish(fresh);  // to lookups of earlier launches: see SlabTile::meet
    there = cas_relaxed(&link->next, kNoUnit, fresh);
  }
  // If another warp was faster, no thread has seen this one.
  take_back(t.alloc, resident, there == kNoUnit ? kNoUnit : fresh);
  return there == kNoUnit ? fresh : there;
}

// too_long reports whether a chain of `slabs` slabs gets no more (slab_arcs.cuh).
template <class S, class T>
__device__ __forceinline__ bool too_long(const T& t, uint32_t slabs) {
  if constexpr (kArcs<S>) return slabs >= t.longest;
  return false;
}

// change runs one operation per lane (INSERT, REPLACE, DELETE, DELETEALL, SEARCH). All lanes of the
// warp must call it.
//
// The argument for exactly one live slot per key in a map: a key enters at the first slot of its
// chain that is free in this launch (empty, or with reuse also dead). It enters by a CAS that fails
// if the slot changed meanwhile, and after a scan that reached the end of the chain. Within a
// launch free slots only disappear (reuse is never set in a launch that deletes), and new slabs
// appear only at the end of a chain without empty slots. So two inserters of one key come to the
// same slot: one wins, the other reads again and finds it. A dead slot remembers its key; without
// reuse the key returns to it. (Marking deleted slots empty instead, as the paper's published code
// does, breaks this: an inserter stops at the hole while its key lives farther on.)
//
// A multimap never revives nor reuses a slot: the order of a chain is the order of insertion.
//
// A long-lived warp brings its resident. One that runs an operation per lane rarely needs a unit,
// and benefits more from three free registers.
template <class S, bool Multi, class V = void, class Counts = Uncounted, class T = Table>
__device__ __forceinline__ void change(const T& in, uint32_t flags, Operation<S>& op, Resident* resident = nullptr,
                                       uint32_t* removed = nullptr, const Counts& counts = {}) {
  using Key = typename S::Key;
  using Word = typename S::Word;
  const Table& t = in;  // the table with the buckets that `in` locates
  SlabTile<S> tile;
  const bool reuse = !Multi && (flags & kReuse);
  const bool contend = flags & kContend;
  const uint32_t home = locate<S>(in, op.key);
  const Key name = stored<S>(op.key);
  uint32_t pending = ballot(kAll, op.there) >> tile.base & tile.kMask;
  uint32_t depth = 1;  // slabs of the chain up to the current one, for arcs
  // The current slab, and the first with a free slot once seen. With claim the scan is complete,
  // the key is absent, and the first free slot is to be taken.
  constexpr uint32_t kUnseen = kNoUnit - 1;
  uint32_t at = kNoUnit, spare = kUnseen, killed = 0;
  bool claim = false;

  while (ballot(kAll, pending != 0) != 0) {
    bool busy = pending != 0;
    uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    Key key = shuffle(kAll, name, from), value = shuffle(kAll, op.value, from);
    uint32_t kind = shuffle(kAll, op.kind, from);
    uint32_t bucket = shuffle(kAll, home, from);
    bool adds = inserts<S, V>(kind);
    bool appends = Multi && kind == kPut;  // searches no key
    tile.load(t, bucket, at, busy);

    // The first slot of the key, live or remembering it, and the first free one. Every lane finds
    // its own; votes select the first.
    int match = -1, free = -1;
    bool empty = false, other = false, live = false;
    tile.each([&](int v, int j, Word w) {
      int number = v * tile.kSlots + j;
      bool is_empty = S::key(w) == S::kEmpty;
      if (match < 0 && !appends && (S::key(w) == key || (!Multi && !reuse && S::is_dead(w, key)))) match = number;
      if (free < 0 && (is_empty || (reuse && S::key(w) == S::kDead))) free = number;
      empty |= is_empty;
      other |= S::key(w) == S::kPending;
      live |= S::key(w) == key;
    });
    uint32_t matches = tile.first(match), frees = tile.first(free);
    bool end = tile.vote(empty) != 0, behind = tile.link.next != kNoUnit;
    // A pending slot may be about to hold this key, even next to a dead slot that remembers it from
    // before the key moved elsewhere.
    bool wait = false;
    if constexpr (S::kTwoStep) {
      uint32_t others = tile.vote(other), lives = tile.vote(live);  // by all lanes of the warp
      wait = others != 0 && lives == 0;
    }

    // All lanes of the tile decide alike; the one with the slot acts.
    bool last = end || !behind;
    if (frees != 0 && spare == kUnseen) spare = at;
    bool take = matches == 0 && adds && frees != 0 && (claim || (last && spare == at));
    bool acts = busy && !wait && (matches != 0 || take);
    bool all = Multi && kind == kDeleteAll;
    uint32_t actor = tile.base + (matches != 0 ? lowest(matches) : frees != 0 ? lowest(frees) : 0);
    Outcome done = kNothing;
    if (acts && (tile.lane == actor || (all && match >= 0))) {
      int number = take ? free : match;
      Word* slot = tile.at(number / tile.kSlots, number % tile.kSlots);
      Word word = tile.word(number);
      const bool enters = take || (adds && S::key(word) != key);
      done = counts.admit(enters);
      if (done == kNothing) {
        if (take) {
          done = !S::swap(slot, word, S::pair(key, value)) ? kAgain : S::key(word) == S::kDead ? kRevived : kInserted;
        } else {
          done = act<S, V>(slot, word, all ? uint32_t(kDelete) : kind, key, value, Multi ? flags & ~kSteady : flags);
          value = S::value(word);
        }
        counts.record(enters, done);
      } else if (done == kFull && !S::swap(slot, word, word)) {
        done = kAgain;  // changed by the last admitted operation, perhaps with this key
      }
    }
    // DELETEALL kills the key's slots in a slab and stays until it has none.
    if constexpr (Multi) killed += popcount(tile.vote(all && done == kDeleted));
    done = Outcome(shuffle(kAll, uint32_t(done), actor));
    if constexpr (S::kHasValue) value = shuffle(kAll, value, actor);

    // If many threads append, most would retry forever: see append.
    if (appends && contend && acts && done == kAgain && ++killed == uint32_t(kTries)) done = kLater;

    bool over = acts && done != kAgain && !all;
    bool grow = false;
    if (busy && !wait && !acts) {
      if (last && adds && !claim && spare != kUnseen) {
        at = spare, claim = true;  // scan complete: back to the first free slot
      } else if (behind && (claim || !end)) {
        at = appends && at == kNoUnit && tile.link.tail != kNoUnit ? tile.link.tail : tile.link.next;
        depth++;
      } else if (adds) {
        grow = true;
        if (too_long<S>(in, depth)) grow = false, over = true, done = kFull;
      } else {
        over = true, done = killed != 0 ? kDeleted : kNothing;
      }
    }
    // The full chains get a slab, all of the warp's at once.
    if (ballot(kAll, grow) != 0) {
      Resident passing;
      uint32_t fresh = attach(t, resident ? *resident : passing, grow && tile.rank == 0 ? link_of(tile.slab) : nullptr);
      if (Multi && fresh != kNoUnit) store_relaxed(&link_of(t.slab(bucket, kNoUnit))->tail, fresh);
      fresh = shuffle(kAll, fresh, tile.base);
      if (grow) {
        at = fresh;
        if (fresh == kNoUnit) over = true, done = kFull;
      }
    }
    if (over) {
      if (tile.lane == from) {
        op.outcome = done, op.value = value;
        if (Multi && removed && all) *removed = killed;
      }
      pending &= pending - 1;
      at = kNoUnit, spare = kUnseen, claim = false, killed = 0, depth = 1;
    }
  }
}

}  // namespace weft::slab
