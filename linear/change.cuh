// Paths are read by tiles, and what changes do with them.
#pragma once

#include "layout.cuh"
#include "tuning.cuh"

namespace weft::linear {

// ---- a tile reads a path ---------------------------------------------------

// PathTile reads groups of Lanes * Pieces * 16 bytes along a path.
template <class S, int Lanes, int Pieces>
struct PathTile : Tile<S, Lanes, Pieces> {
  using Base = Tile<S, Lanes, Pieces>;
  using typename Base::Piece;
  static constexpr int kSectors = Lanes * Pieces / 2;

  __device__ __forceinline__ Piece* at(const Table& t, Path path, uint32_t step, int v) const {
    uint32_t number = v * Lanes + this->rank;
    return reinterpret_cast<Piece*>(t.lines) + path.piece(t, step * kSectors + number / 2, number % 2);
  }
  __device__ __forceinline__ void load(const Table& t, Path path, uint32_t step) {
#pragma unroll
    for (int v = 0; v < Pieces; v++) this->piece[v].whole = load_relaxed(&at(t, path, step, v)->whole);
  }
};

// Sector is what a lane reads of a path by itself.
template <class S>
struct Sector {
  using Word = typename S::Word;
  static constexpr int kSlots = kSectorBytes / sizeof(Word);

  Word128* place;
  typename Tile<S, 1, 2>::Piece piece[2];

  __device__ __forceinline__ Sector(const Table& t, Path path, uint32_t ordinal) : place(t.lines + path.piece(t, ordinal, 0)) {
    piece[0].whole = load_relaxed(place), piece[1].whole = load_relaxed(place + 1);
  }
  __device__ __forceinline__ Word* at(int slot) const { return reinterpret_cast<Word*>(place) + slot; }
  // each calls f(slot, word) from the last slot to the first.
  template <class F>
  __device__ __forceinline__ void each(F f) const {
#pragma unroll
    for (int i = kSlots - 1; i >= 0; i--) f(i, piece[2 * i / kSlots].slots[i % (kSlots / 2)]);
  }
};

// The operations of a warp, one per lane, are worked on by its tiles: each
// goes through those of its own lanes. A tile that is done with one takes the
// next at once, while its neighbours are still on their way; what a lane
// learns about its operation it keeps.

// ---- changes ---------------------------------------------------------------

// change runs one operation per lane. All lanes of the warp must call it.
//
// The argument for exactly one live slot per key: a key enters at the first
// slot of its path that is free in the sense of the launch (empty; with reuse
// also dead), by a CAS that fails if the slot changed meanwhile, and after a
// scan that reached the end of the path. Within a launch free slots only
// disappear (reuse is never set in a launch that deletes), so two inserters of
// one key come to the same slot: one wins, the other reads again and finds it.
// A dead slot remembers its key; without reuse the key returns to it.
template <class S, int Lanes, int Pieces, class V = void>
__device__ __forceinline__ void change(const Table& t, uint32_t flags, Operation<S>& op) {
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
      if (take) {
        done = !S::swap(slot, word, S::pair(key, value)) ? kAgain : S::key(word) == S::kDead ? kRevived : kInserted;
      } else {
        done = act<S, V>(slot, word, kind, key, value, flags);
        value = S::value(word);
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

// alone does what a lane can do of an operation by itself, along the path of its
// key: where tables lie in cache, instructions cost more than reads. It leaves to
// the tile, by op.there, what takes a dead slot, waits for a pending one, or has
// read its share of sectors.
template <class S, class V = void>
__device__ __forceinline__ void alone(const Table& t, uint32_t flags, Operation<S>& op) {
  using Word = typename S::Word;
  using Key = typename S::Key;
  constexpr bool reduces = kReduces<S, V>;  // all of the launch
  const bool adds = reduces || inserts<S, V>(op.kind), revives = !reduces && !(flags & kReuse);
  const Key key = stored<S>(op.key);
  const Path path{locate<S>(t, op.key)};
  for (uint32_t ordinal = 0; op.there && ordinal < kAlone; ordinal++) {
    Sector<S> sector(t, path, ordinal);
    int match = -1, empty = -1;
    bool dead = false, pending = false;
    Word word = S::pair(S::kEmpty, S::kEmpty);
    sector.each([&](int i, Word w) {
      if (S::key(w) == key || (revives && S::is_dead(w, key))) match = i, word = w;
      if (S::key(w) == S::kEmpty) empty = i;
      dead |= S::key(w) == S::kDead;
      pending |= S::key(w) == S::kPending;
    });
    Outcome done = kAgain;
    if (match >= 0 && (S::key(word) == key || !pending)) {
      done = act<S, V>(sector.at(match), word, op.kind, key, op.value, flags);
    } else if (match >= 0 || pending || (adds && dead)) {
      return;
    } else if (empty >= 0) {
      done = !adds ? kNothing : S::swap(sector.at(empty), word, S::pair(key, op.value)) ? kInserted : kAgain;
    } else {
      continue;
    }
    if (done == kAgain) return;
    op.there = false, op.outcome = done;
    if constexpr (S::kHasValue && !reduces) op.value = S::value(word);
  }
}

// change_all is change, by lanes first where that is faster: the host then chooses
// wide tiles, since what lanes leave over lies far from home. It is dealt out to the
// tiles evenly.
template <class S, int Lanes, int Pieces, class V = void>
__device__ __forceinline__ void change_all(const Table& t, uint32_t flags, Operation<S>& op) {
  const bool there = op.there, cached = Lanes == kWideLanes && (flags & kCached);
  Operation<S> dealt = op;
  uint32_t to = 0;
  if (cached) {
    alone<S, V>(t, flags, op);
    if (ballot(kAll, op.there) == 0) {
      op.there = there;
      return;
    }
    Deal<Lanes> deal(op.there);
    dealt = {deal.from < kWarp, shuffle(kAll, op.kind, deal.from), shuffle(kAll, op.key, deal.from),
             shuffle(kAll, op.value, deal.from)};
    to = deal.to;
  }
  change<S, Lanes, Pieces, V>(t, flags, dealt);
  if (cached) {
    uint32_t outcome = shuffle(kAll, uint32_t(dealt.outcome), to);
    auto value = shuffle(kAll, dealt.value, to);
    if (op.there) op.outcome = Outcome(outcome), op.value = value;
  } else if (there) {
    op.outcome = dealt.outcome, op.value = dealt.value;
  }
  op.there = there;
}

template <class S, class K, class V, int Lanes, int Pieces>
__device__ __forceinline__ void change_batch(const ChangeParams<Table>& p) {
  uint32_t i = uint32_t(thread_index());
  Operation<S> op = operation<S, K, V>(p.changes, i);
  change_all<S, Lanes, Pieces>(p.table, p.changes.flags, op);
  outcome<S, V>(p.changes, i, op);
  list(p.changes, i, op, contends(op));
  tally_block(p.table.counters, op.outcome);
}

// change_one runs an operation per lane in a kernel whose speed does not count.
template <class S>
__device__ __forceinline__ void change_one(const Table& t, Operation<S>& op) {
  change<S, kNarrowLanes, kNarrowPieces>(t, 0, op);
}

}  // namespace weft::linear
