// Tiles change a table of package slab: INSERT, REPLACE, DELETE, DELETEALL, and SEARCH in mixed
// batches.
#pragma once

#include "account.cuh"
#include "slab_table.cuh"

namespace weft::slab {

// Threads that append one pair each to one bucket of a multimap contend for the same slots. A
// million pairs took 3.4 s that way for one key, 11 ms for 100 keys, and 0.3 ms for 10^4 keys. So
// some pairs are deferred to a few warps, which append as many pairs at once as a slab takes. A
// million pairs of one key then take 0.17 s. A pair is deferred if at least kMinContending lanes of
// its warp, a quarter, append to its bucket. It is also deferred after kMaxAttempts attempts. With
// more keys the few warps are slower than contention: with a limit of 64 attempts, 100 keys took 33
// ms.
constexpr int kMinContending = 8, kMaxAttempts = 512;

// attach links new slabs to full slabs. For each lane with a link, it returns the address of the
// slab that is linked there afterwards. It returns kNoUnit if no slab could be allocated. All lanes
// of the warp must call it.
__device__ __forceinline__ uint32_t attach(const Table& t, Resident& resident, Link* link) {
  uint32_t fresh = allocate(t.alloc, resident, link != nullptr), there = kNoUnit;
  if (fresh != kNoUnit) {
    // for lookups of earlier launches: see SlabTile::meet
    t.alloc.publish(fresh);
    there = cas_relaxed(&link->next, kNoUnit, fresh);
  }
  // if another warp was faster, no thread has read the address of this slab
  release_unused(t.alloc, resident, there == kNoUnit ? kNoUnit : fresh);
  return there == kNoUnit ? fresh : there;
}

// at_max_chain reports whether a chain of `slabs` slabs may not be extended (slab_arcs.cuh).
template <class S, class T>
__device__ __forceinline__ bool at_max_chain(const T& t, uint32_t slabs) {
  if constexpr (kArcs<S>) return slabs >= t.longest;
  return false;
}

// change runs one operation per lane (INSERT, REPLACE, DELETE, DELETEALL, SEARCH). All lanes of the
// warp must call it.
//
// In a map, exactly one live slot exists per key, for this reason. A key enters at the first free
// slot of its chain: an empty slot, or with kReuse also a dead one. It enters after a scan to the
// end of the chain, by a CAS that fails if the slot has changed. Within a launch free slots only
// disappear, because a launch that deletes never sets kReuse. New slabs appear only at the end of a
// chain without empty slots. So two lanes that insert one key meet at the same slot. One of them
// succeeds, and the other reads the slot again and finds the key.
//
// A dead slot remembers its key, and without kReuse the key returns to it. The paper's published
// code marks deleted slots empty instead. That breaks the argument: an insertion stops at the empty
// slot while its key is further down the chain.
//
// A multimap never revives or reuses a slot, because the order of a chain is the order of
// insertion.
//
// A warp that runs many operations passes its Resident. A warp that runs one operation per lane
// rarely needs a unit, and benefits more from three free registers.
template <class S, bool Multi, class V = void, class Counts = Uncounted, class T = Table>
__device__ __forceinline__ void change(const T& in, uint32_t flags, Operation<S>& op, Resident* resident = nullptr,
                                       uint32_t* removed = nullptr, const Counts& counts = {}) {
  using Key = typename S::Key;
  using Word = typename S::Word;
  const Table& t = in;  // the table; `in` locates the buckets
  SlabTile<S> tile;
  const bool reuse = !Multi && (flags & kReuse);
  const bool contend = flags & kContend;
  const uint32_t home = locate<S>(in, op.key);
  const Key name = stored<S>(op.key);
  uint32_t pending = ballot(kAll, op.there) >> tile.base & tile.kMask;
  uint32_t depth = 1;  // number of slabs up to the current slab; used for arcs only
  // `at` is the current slab, and spare is the first slab in which a free slot was found. With
  // claim, the scan is complete, the key is absent, and the free slot is to be taken.
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
    bool appends = Multi && kind == kPut;  // no search for the key
    tile.load(t, bucket, at, busy);

    // Find the first slot that has the key or remembers it, and the first free slot. Each lane
    // finds its own first slots, and votes select the first of the tile.
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
    // A pending slot may be about to hold this key. This is also possible next to a dead slot that
    // remembers the key from before it moved elsewhere.
    bool wait = false;
    if constexpr (S::kTwoStep) {
      uint32_t others = tile.vote(other), lives = tile.vote(live);  // all lanes of the warp vote
      wait = others != 0 && lives == 0;
    }

    // All lanes of the tile decide alike, and the lane that has the slot acts.
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
          done = act<S, V>(slot, word, all ? uint32_t(kDelete) : kind, key, value, Multi ? flags & ~kKeysFixed : flags);
          value = S::value(word);
        }
        counts.record(enters, done);
      } else if (done == kFull && !S::swap(slot, word, word)) {
        done = kAgain;  // the last admitted operation changed the slot, perhaps with this key
      }
    }
    // DELETEALL deletes the key's pairs in a slab, and reads the slab again until it has none.
    if constexpr (Multi) killed += popcount(tile.vote(all && done == kDeleted));
    done = Outcome(shuffle(kAll, uint32_t(done), actor));
    if constexpr (S::kHasValue) value = shuffle(kAll, value, actor);

    // If many threads append, most of them would retry again and again. So defer the pair to append
    // in slab/change.cuh.
    if (appends && contend && acts && done == kAgain && ++killed == uint32_t(kMaxAttempts)) done = kLater;

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
        if (at_max_chain<S>(in, depth)) grow = false, over = true, done = kFull;
      } else {
        over = true, done = killed != 0 ? kDeleted : kNothing;
      }
    }
    // Link a slab to each full chain, for all chains of the warp at once.
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
