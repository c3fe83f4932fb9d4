// Searches along paths by tiles, and changes at the ends of paths. The path of a key is a sequence
// of slots, and the key is in one of them.
//
// A PathTile is a Tile that reads paths. It defines the type S of slots, the types Table and Path,
// and the members below. Path::of(lane) returns the path of another lane.
//
//	path(t, key), stored(t, key) the path of a key, and its stored form
//	steps(t, path)               the length of a path in steps
//	load(t, path, step)          reads the slots of a step
//	exchange_load(t, step)         exchanges what lanes have read; all lanes call it after load
//	slot(t, path, step, number)  the address of slot `number` of this lane in a step
//	ends(t)                      whether a path ends at its first empty slot
//	kRevives                     whether a key takes its dead slot again if others may not take it
//	kCounts, Choice              how to choose the slot of a new key
#pragma once

#include "account.cuh"
#include "tile.cuh"

namespace weft {

// kUnseen is not a step of a path. kClaim marks a completed search.
constexpr uint32_t kUnseen = kAll >> 1, kClaim = kAll ^ kUnseen;

// FirstFree chooses the first step of a path with a free slot.
struct FirstFree {
  uint32_t spare = kUnseen;

  template <class Table>
  __device__ __forceinline__ void see(const Table&, uint32_t step, uint32_t frees, bool) {
    if (frees != 0 && spare > step) spare = step;
  }
};

// find_along looks up one key in stored form for each lane with `there`. All lanes of the warp must
// call it.
//
// A lookup is one scan by atomic loads. A word shows the state of its key at the time of the load.
// If empty slots end a path, slots of the path only fill: a slot in use never becomes empty again.
template <class PathTile>
__device__ __forceinline__ bool find_along(const typename PathTile::Table& t, bool there, typename PathTile::Path own,
                                           typename PathTile::S::Key key, typename PathTile::S::Key& value) {
  using S = typename PathTile::S;
  using Key = typename S::Key;
  PathTile tile;
  uint32_t pending = ballot(kAll, there) >> tile.base & tile.kMask;

  value = 0;
  bool hit = false;
  uint32_t step = 0;
  while (ballot(kAll, pending != 0) != 0) {
    bool busy = pending != 0;
    uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    Key k = shuffle(kAll, key, from);
    const auto path = own.of(from);
    if (busy) tile.load(t, path, step);

    bool match = false, empty = false, other = false;
    Key held = 0;
    tile.each([&](int, int, typename S::Word w) {
      if (S::key(w) == k) match = true, held = S::value(w);
      empty |= S::key(w) == S::kEmpty;
      other |= S::key(w) == S::kPending;
    });
    uint32_t matches = tile.vote(match), empties = tile.vote(empty);
    // A pending slot may be about to hold this key, so read it again. The thread that writes the
    // slot needs one more instruction, and waits for no other lane.
    bool wait = S::kTwoStep && tile.vote(other) != 0 && matches == 0;
    if constexpr (S::kHasValue) held = shuffle(kAll, held, tile.base + (matches ? lowest(matches) : 0));
    if (busy && !wait) {
      bool last = ++step == tile.steps(t, path);
      if (matches != 0 || (empties != 0 && tile.ends(t)) || last) {
        if (tile.lane == from) hit = matches != 0, value = held;
        pending &= pending - 1;
        step = 0;
      }
    }
  }
  return hit;
}

// change_along runs one operation per lane. All lanes of the warp must call it.
//
// The tiles of a warp run its operations, and each tile runs those of its own lanes. After a tile
// has finished an operation, it takes the next at once, while other tiles continue. Each lane keeps
// the result of its own operation.
//
// With FirstFree, exactly one live slot exists per key, for this reason. A key enters at the first
// free slot of its path: an empty slot, or with kReuse also a dead one. It enters after a scan to
// the end of the path, by a CAS that fails if the slot has changed. Within a launch free slots only
// disappear, because a launch that deletes never sets kReuse. So two lanes that insert one key meet
// at the same slot. One of them succeeds, and the other reads the slot again and finds the key. If
// a dead slot remembers its key, the key returns to that slot, except with kReuse.
template <class PathTile, class V = void, class Counts = Uncounted>
__device__ __forceinline__ void change_along(const typename PathTile::Table& t, uint32_t flags,
                                             Operation<typename PathTile::S>& op, const Counts& counts = {}) {
  using S = typename PathTile::S;
  using Key = typename S::Key;
  using Word = typename S::Word;
  using Path = typename PathTile::Path;
  PathTile tile;
  const bool reuse = flags & kReuse, revives = PathTile::kRevives && !reuse;
  const Path own = PathTile::path(t, op.key);
  const Key name = PathTile::stored(t, op.key);
  uint32_t pending = ballot(kAll, op.there) >> tile.base & tile.kMask;
  uint32_t step = 0;
  // Step with the free slot to take, after one was found. With the top bit set, the scan is
  // complete and the key is absent.
  typename PathTile::Choice choice;

  while (ballot(kAll, pending != 0) != 0) {
    bool busy = pending != 0;
    uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    Key key = shuffle(kAll, name, from), value = shuffle(kAll, op.value, from);
    uint32_t kind = shuffle(kAll, op.kind, from);
    Path path = own.of(from);
    bool adds = inserts<S, V>(kind);
    if (busy) tile.load(t, path, step);
    tile.exchange_load(t, step);

    // Find the first slot that has the key or remembers it, and the first free slot. Each lane
    // finds its own first slots, and votes select the first of the tile.
    int match = -1, free = -1;
    bool empty = false, other = false, live = false;
    tile.each([&](int v, int j, Word w) {
      int number = v * tile.kSlots + j;
      bool is_empty = S::key(w) == S::kEmpty;
      if (match < 0 && (S::key(w) == key || (revives && S::is_dead(w, key)))) match = number;
      if (free < 0 && (is_empty || (reuse && S::key(w) == S::kDead))) free = number;
      empty |= is_empty;
      other |= S::key(w) == S::kPending;
      live |= S::key(w) == key;
    });
    uint32_t matches = 0, frees = 0;
#pragma unroll
    for (int v = PathTile::kPieces - 1; v >= 0; v--) {
      uint32_t m = tile.vote(match >= 0 && match / tile.kSlots == v);
      uint32_t f = tile.vote(free >= 0 && free / tile.kSlots == v);
      matches = m ? m : matches;
      frees = f ? f : frees;
    }
    bool end = tile.vote(empty) != 0 && tile.ends(t);
    // A pending slot may be about to hold this key. This is also possible next to a dead slot that
    // remembers the key from before it moved elsewhere.
    bool wait = false;
    if constexpr (S::kTwoStep) {
      uint32_t others = tile.vote(other), lives = tile.vote(live);  // all lanes of the warp vote
      wait = others != 0 && lives == 0;
    }

    // All lanes of the tile decide alike, and the lane that has the slot acts.
    const uint32_t steps = tile.steps(t, path);
    bool last = end || step + 1 == steps;
    bool claim = choice.spare & kClaim;
    if constexpr (PathTile::kCounts) {
      uint32_t sum = 0;
      tile.each([&](int, int, Word w) {
        sum += popcount(tile.vote(S::key(w) == S::kEmpty || (reuse && S::key(w) == S::kDead)));
      });
      if (!claim) choice.see(t, step, sum, last);
    } else if (!claim) {
      choice.see(t, step, frees, last);
    }
    bool take = matches == 0 && adds && frees != 0 && (claim || (last && choice.spare == step));
    bool acts = busy && !wait && (matches != 0 || take);
    uint32_t actor = tile.base + (matches != 0 ? lowest(matches) : frees != 0 ? lowest(frees) : 0);
    Outcome done = kNothing;
    if (acts && tile.lane == actor) {
      int number = take ? free : match;
      Word* slot = tile.slot(t, path, step, number);
      Word word = tile.word(number);
      const bool enters = take || (adds && S::key(word) != key);
      done = counts.admit(enters);
      if (done == kNothing) {
        if (take) {
          done = !S::swap(slot, word, S::pair(key, value)) ? kAgain : S::key(word) == S::kDead ? kRevived : kInserted;
        } else {
          done = act<S, V>(slot, word, kind, key, value, flags);
          value = S::value(word);
        }
        counts.record(enters, done);
      } else if (done == kFull && !S::swap(slot, word, word)) {
        done = kAgain;  // the last admitted operation changed the slot, perhaps with this key
      }
    }
    done = Outcome(shuffle(kAll, uint32_t(done), actor));
    if constexpr (S::kHasValue) value = shuffle(kAll, value, actor);

    bool over = acts && done != kAgain;
    if (busy && !wait && !acts) {
      if (last && adds && !claim && choice.spare != kUnseen) {
        step = choice.spare, choice.spare = kClaim;  // scan complete: back to the free slot
      } else if (step + 1 == steps || (last && !claim)) {
        over = true, done = adds ? kFull : kNothing;
      } else {
        step++;
      }
    }
    if (over) {
      if (tile.lane == from) op.outcome = done, op.value = value;
      pending &= pending - 1;
      step = 0, choice = {};
    }
  }
}

}  // namespace weft
