// Changes of a table of package linear by tiles.
#pragma once

#include "account.cuh"
#include "linear_table.cuh"

namespace weft::linear {

// The operations of a warp, one per lane, are worked on by its tiles: each
// goes through those of its own lanes. A tile that is done with one takes the
// next at once, while its neighbours are still on their way; what a lane
// learns about its operation it keeps.

// change runs one operation per lane. All lanes of the warp must call it.
//
// The argument for exactly one live slot per key: a key enters at the first
// slot of its path that is free in the sense of the launch (empty; with reuse
// also dead), by a CAS that fails if the slot changed meanwhile, and after a
// scan that reached the end of the path. Within a launch free slots only
// disappear (reuse is never set in a launch that deletes), so two inserters of
// one key come to the same slot: one wins, the other reads again and finds it.
// A dead slot remembers its key; without reuse the key returns to it.
template <class S, int Lanes, int Pieces, class V = void, class Counts = Uncounted>
__device__ __forceinline__ void change(const Table& t, uint32_t flags, Operation<S>& op, const Counts& counts = {}) {
  using Key = typename S::Key;
  using Word = typename S::Word;
  PathTile<S, Lanes, Pieces> tile;
  const bool reuse = flags & kReuse;
  const uint32_t home = locate<S>(t, op.key);
  const Key name = stored<S>(op.key);
  uint32_t pending = ballot(kAll, op.there) >> tile.base & tile.kMask;
  uint32_t step = 0;
  // The first step of this path with a free slot, once seen. With the top bit
  // the scan is over, the key is absent, and the first free slot is to be taken.
  constexpr uint32_t kUnseen = kAll >> 1, kClaim = kAll ^ kUnseen;
  uint32_t spare = kUnseen;

  while (ballot(kAll, pending != 0) != 0) {
    bool busy = pending != 0;
    uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    Key key = shuffle(kAll, name, from), value = shuffle(kAll, op.value, from);
    uint32_t kind = shuffle(kAll, op.kind, from);
    Path path{shuffle(kAll, home, from)};
    bool adds = inserts<S, V>(kind);
    if (busy) tile.load(t, path, step);

    // The first slot of the key, live or remembering it; and the first free
    // one. Every lane finds its own, votes tell whose is first.
    int match = -1, free = -1;
    bool empty = false, other = false, live = false;
    tile.each([&](int v, int j, Word w) {
      int number = v * tile.kSlots + j;
      bool is_empty = S::key(w) == S::kEmpty;
      if (match < 0 && (S::key(w) == key || (!reuse && S::is_dead(w, key)))) match = number;
      if (free < 0 && (is_empty || (reuse && S::key(w) == S::kDead))) free = number;
      empty |= is_empty;
      other |= S::key(w) == S::kPending;
      live |= S::key(w) == key;
    });
    uint32_t matches = 0, frees = 0;
#pragma unroll
    for (int v = Pieces - 1; v >= 0; v--) {
      uint32_t m = tile.vote(match >= 0 && match / tile.kSlots == v);
      uint32_t f = tile.vote(free >= 0 && free / tile.kSlots == v);
      matches = m ? m : matches;
      frees = f ? f : frees;
    }
    bool end = tile.vote(empty) != 0;
    // A pending slot may be about to show this key, also beside a dead slot that
    // remembers it from before it came to live elsewhere.
    bool wait = false;
    if constexpr (S::kTwoStep) {
      uint32_t others = tile.vote(other), lives = tile.vote(live);  // by all lanes of the warp
      wait = others != 0 && lives == 0;
    }

    // All lanes of the tile decide alike; the one with the slot acts.
    bool last = end || step + 1 == path.steps(t, tile.kSectors);
    bool claim = spare & kClaim;
    if (frees != 0 && spare > step && !claim) spare = step;
    bool take = matches == 0 && adds && frees != 0 && (claim || (last && spare == step));
    bool acts = busy && !wait && (matches != 0 || take);
    uint32_t actor = tile.base + (matches != 0 ? lowest(matches) : frees != 0 ? lowest(frees) : 0);
    Outcome done = kNothing;
    if (acts && tile.lane == actor) {
      int number = take ? free : match;
      Word* slot = &tile.at(t, path, step, number / tile.kSlots)->slots[number % tile.kSlots];
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
      if (last && adds && !claim && spare != kUnseen) {
        step = spare, spare = kClaim;  // scanned it all: back to the first free slot
      } else if (step + 1 == path.steps(t, tile.kSectors) || (last && !claim)) {
        over = true, done = adds ? kFull : kNothing;
      } else {
        step++;
      }
    }
    if (over) {
      if (tile.lane == from) op.outcome = done, op.value = value;
      pending &= pending - 1;
      step = 0, spare = kUnseen;
    }
  }
}

}  // namespace weft::linear
