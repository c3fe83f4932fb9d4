// Searches along paths by tiles, and changes at their end: of the structures whose
// keys lie in one of a sequence of slots.
//
// A PathTile is a Tile that reads such paths. It has the types S of slots, Table and
// Path (of returns that of another lane), and
//
//	path(t, key), stored(t, key) where a key may lie, and under which name
//	steps(t, path)               the length of a path
//	load(t, path, step)          reads what belongs to a step
//	behind_load(t, step)         called by all lanes behind that: what they tell each other
//	slot(t, path, step, number)  where slot `number` of this lane lies, in a step
//	ends(t)                      whether no key lies behind an empty slot of its path
//	kRevives                     whether a dead slot is taken again by its key, where
//	                             others may not have it
//	kCounts, Choice              where a new key goes
#pragma once

#include "account.cuh"
#include "tile.cuh"

namespace weft {

// kUnseen is no step of a path. kClaim says that a search is over.
constexpr uint32_t kUnseen = kAll >> 1, kClaim = kAll ^ kUnseen;

// FirstFree is the choice of the first step of a path with a free slot.
struct FirstFree {
  uint32_t spare = kUnseen;

  template <class Table>
  __device__ __forceinline__ void see(const Table&, uint32_t step, uint32_t frees, bool) {
    if (frees != 0 && spare > step) spare = step;
  }
};

// find_along looks up a key per lane that is there, as it is stored. All lanes of the
// warp must call it.
//
// It is one scan of atomic loads per key. What a word showed was the state of its key
// at the time of the load. Where empty slots end a path, it only ever fills: a slot
// once taken never becomes empty again.
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
    // A pending slot may be about to show this key: look again. Its owner
    // needs one more instruction and waits for nobody.
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
// The operations of a warp are worked on by its tiles: each goes through those of its
// own lanes. A tile that is done with one takes the next at once, while its neighbours
// are still on their way; what a lane learns about its operation it keeps.
//
// The argument for exactly one live slot per key, with FirstFree: a key enters at the
// first slot of its path that is free in the sense of the launch (empty; with reuse
// also dead), by a CAS that fails if the slot changed meanwhile, and after a
// scan that reached the end of the path. Within a launch free slots only
// disappear (reuse is never set in a launch that deletes), so two inserters of
// one key come to the same slot: one wins, the other reads again and finds it.
// Where a dead slot remembers its key, without reuse the key returns to it.
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
  // The step of this path whose first free slot is to be taken, once seen. With the
  // top bit the scan is over, and the key is absent.
  typename PathTile::Choice choice;

  while (ballot(kAll, pending != 0) != 0) {
    bool busy = pending != 0;
    uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    Key key = shuffle(kAll, name, from), value = shuffle(kAll, op.value, from);
    uint32_t kind = shuffle(kAll, op.kind, from);
    Path path = own.of(from);
    bool adds = inserts<S, V>(kind);
    if (busy) tile.load(t, path, step);
    tile.behind_load(t, step);

    // The first slot of the key, live or remembering it; and the first free
    // one. Every lane finds its own, votes tell whose is first.
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
    // A pending slot may be about to show this key, also beside a dead slot that
    // remembers it from before it came to live elsewhere.
    bool wait = false;
    if constexpr (S::kTwoStep) {
      uint32_t others = tile.vote(other), lives = tile.vote(live);  // by all lanes of the warp
      wait = others != 0 && lives == 0;
    }

    // All lanes of the tile decide alike; the one with the slot acts.
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
        done = kAgain;  // by the last that was admitted, perhaps with this key
      }
    }
    done = Outcome(shuffle(kAll, uint32_t(done), actor));
    if constexpr (S::kHasValue) value = shuffle(kAll, value, actor);

    bool over = acts && done != kAgain;
    if (busy && !wait && !acts) {
      if (last && adds && !claim && choice.spare != kUnseen) {
        step = choice.spare, choice.spare = kClaim;  // scanned it all: back to the free slot
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
