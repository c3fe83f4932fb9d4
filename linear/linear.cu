// Kernels of package linear: a lock-free hash table with linear probing over
// 128-byte lines. doc.go explains the structure, layout.go the memory; this
// file keeps their names.
//
// A tile, a few neighbouring lanes of a warp, works on one key at a time and
// reads its path cooperatively. All lanes of a warp stay together: each
// warp-wide vote is executed by all 32, with finished tiles taking part idle.
#include "layout.cuh"
#include "tuning.cuh"

namespace weft::linear {

// ---- a tile reads a path ---------------------------------------------------

// Tile reads groups of Lanes * Pieces * 16 bytes along a path. Piece v of
// lane l is number v * Lanes + l of the group in path order.
template <class S, int Lanes, int Pieces>
struct Tile {
  using Word = typename S::Word;

  static constexpr int kSectors = Lanes * Pieces / 2;
  static constexpr int kSlots = 16 / sizeof(Word);  // slots in a piece
  static constexpr uint32_t kMask = (1u << Lanes) - 1;

  uint32_t lane = lane_index();
  uint32_t rank = lane % Lanes;  // of this lane in its tile
  uint32_t base = lane - rank;   // first lane of the tile

  union Piece {
    Word128 whole;
    Word slots[kSlots];
    __device__ Piece() {}
  };
  Piece piece[Pieces];

  __device__ __forceinline__ Piece* at(const Table& t, Path path, uint32_t step, int v) const {
    uint32_t number = v * Lanes + rank;
    return reinterpret_cast<Piece*>(t.lines) + path.piece(t, step * kSectors + number / 2, number % 2);
  }
  __device__ __forceinline__ void load(const Table& t, Path path, uint32_t step) {
#pragma unroll
    for (int v = 0; v < Pieces; v++) piece[v].whole = load_relaxed(&at(t, path, step, v)->whole);
  }
  // each calls f(v, j, word) for the slots of this lane, in path order.
  template <class F>
  __device__ __forceinline__ void each(F f) const {
#pragma unroll
    for (int v = 0; v < Pieces; v++)
#pragma unroll
      for (int j = 0; j < kSlots; j++) f(v, j, piece[v].slots[j]);
  }
  // word is slot `number` of this lane: a choice among registers, so that no
  // second copy of a word stays alive.
  __device__ __forceinline__ Word word(int number) const {
    Word w = piece[0].slots[0];
    each([&](int v, int j, Word x) {
      if (v * kSlots + j == number) w = x;
    });
    return w;
  }
  // vote gives the lanes of this tile for which p holds.
  __device__ __forceinline__ uint32_t vote(bool p) const { return ballot(kAll, p) >> base & kMask; }
};

// The operations of a warp, one per lane, are worked on by its tiles: each
// goes through those of its own lanes. A tile that is done with one takes the
// next at once, while its neighbours are still on their way; what a lane
// learns about its operation it keeps.

// ---- lookups ---------------------------------------------------------------

// get is one scan of atomic loads per key. A path only ever fills: a slot once
// taken never becomes empty again, so the first empty slot ends the scan, and
// what a word showed was the state of its key at the time of the load.
template <class S, class K, class V, int Lanes, int Pieces>
__device__ __forceinline__ void get(const GetParams& p) {
  using Key = typename S::Key;
  Tile<S, Lanes, Pieces> tile;
  // A small batch is spread out, one key per tile, to have it back sooner.
  bool spread = p.spread;
  uint64_t i = spread ? thread_index() / Lanes : thread_index();
  bool mine = i < p.n && (!spread || tile.rank == 0);
  Key key = mine ? Key(load_once(static_cast<const K*>(p.keys) + i)) : Key(0);
  uint32_t home = locate<S>(p.table, key);
  key = stored<S>(key);
  uint32_t pending = ballot(kAll, mine) >> tile.base & tile.kMask;

  Key value = 0;
  bool hit = false;
  uint32_t step = 0;
  while (ballot(kAll, pending != 0) != 0) {
    bool busy = pending != 0;
    uint32_t from = tile.base + (busy ? lowest(pending) : 0);
    Key k = shuffle(kAll, key, from);
    Path path{shuffle(kAll, home, from)};
    if (busy) tile.load(p.table, path, step);

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
      bool last = ++step == path.steps(p.table, tile.kSectors);
      if (matches != 0 || empties != 0 || last) {
        if (tile.lane == from) hit = matches != 0, value = held;
        pending &= pending - 1;
        step = 0;
      }
    }
  }
  if (mine) {
    if constexpr (S::kHasValue)
      if (p.vals) store_once(static_cast<V*>(p.vals) + i, hit ? V(value) : V(0));
    if (p.found) store_once(p.found + i, uint8_t(hit));
  }
  if (p.hits) count(p.hits, mine && hit);
}

// ---- changes ---------------------------------------------------------------

enum Outcome : uint32_t {
  kNothing,   // no such key
  kPresent,   // the key was there and stays as it was
  kReplaced,  // the key was there; its value is now the operation's
  kInserted,  // into a slot never used
  kRevived,   // inserted into a dead slot
  kDeleted,
  kFull,   // the path has no room
  kAgain,  // another thread was faster
};
__device__ __forceinline__ bool inserted(Outcome o) { return o == kInserted || o == kRevived; }

// Operation is what a lane brings to change, and what it gets back.
template <class S>
struct Operation {
  bool there;               // whether the lane has one
  uint32_t kind;            // Kind
  typename S::Key key;      // as the caller named it
  typename S::Key value;    // in: to be written; out: the value that was there
  Outcome outcome = kNothing;
};

// act does what an operation of a kind does with a slot that matches its key,
// live or, to revive it, dead.
template <class S>
__device__ __forceinline__ Outcome act(typename S::Word* slot, typename S::Word word, uint32_t kind,
                                       typename S::Key key, typename S::Key value, bool defer) {
  bool live = S::key(word) == key;
  switch (kind) {
    case kPut:
      if (live && defer) return kPresent;
      if (!S::swap(slot, word, S::pair(key, value))) return kAgain;
      return live ? kReplaced : kRevived;
    case kPutNew:
      if (live) return kPresent;
      return S::swap(slot, word, S::pair(key, value)) ? kRevived : kAgain;
    case kDelete:
      if (!live) return kNothing;
      return S::swap(slot, word, S::dead(key)) ? kDeleted : kAgain;
    default:
      return live ? kPresent : kNothing;
  }
}

// change runs one operation per lane. All lanes of the warp must call it.
//
// The argument for exactly one live slot per key: a key enters at the first
// slot of its path that is free in the sense of the launch (empty; with reuse
// also dead), by a CAS that fails if the slot changed meanwhile, and after a
// scan that reached the end of the path. Within a launch free slots only
// disappear (reuse is never set in a launch that deletes), so two inserters of
// one key come to the same slot: one wins, the other reads again and finds it.
// A dead slot remembers its key; without reuse the key returns to it.
template <class S, int Lanes, int Pieces>
__device__ __forceinline__ void change(const Table& t, uint32_t flags, Operation<S>& op) {
  using Key = typename S::Key;
  using Word = typename S::Word;
  Tile<S, Lanes, Pieces> tile;
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
    bool inserts = kind == kPut || kind == kPutNew;
    if (busy) tile.load(t, path, step);

    // The first slot of the key, live or remembering it; and the first free
    // one. Every lane finds its own, votes tell whose is first.
    int match = -1, free = -1;
    bool empty = false, other = false;
    tile.each([&](int v, int j, Word w) {
      int number = v * tile.kSlots + j;
      bool is_empty = S::key(w) == S::kEmpty;
      if (match < 0 && (S::key(w) == key || (!reuse && S::is_dead(w, key)))) match = number;
      if (free < 0 && (is_empty || (reuse && S::key(w) == S::kDead))) free = number;
      empty |= is_empty;
      other |= S::key(w) == S::kPending;
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
    bool wait = S::kTwoStep && tile.vote(other) != 0 && matches == 0;

    // All lanes of the tile decide alike; the one with the slot acts.
    bool last = end || step + 1 == path.steps(t, tile.kSectors);
    bool claim = spare & kClaim;
    if (frees != 0 && spare > step && !claim) spare = step;
    bool take = matches == 0 && inserts && frees != 0 && (claim || (last && spare == step));
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
        done = act<S>(slot, word, kind, key, value, flags & kDefer);
        value = S::value(word);
      }
    }
    done = Outcome(shuffle(kAll, uint32_t(done), actor));
    if constexpr (S::kHasValue) value = shuffle(kAll, value, actor);

    bool over = acts && done != kAgain;
    if (busy && !wait && !acts) {
      if (last && inserts && !claim && spare != kUnseen) {
        step = spare, spare = kClaim;  // scanned it all: back to the first free slot
      } else if (step + 1 == path.steps(t, tile.kSectors) || (last && !claim)) {
        over = true, done = inserts ? kFull : kNothing;
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

// tally adds what the lanes of a warp did to the counters of a table. All
// lanes must call it.
__device__ __forceinline__ void tally(Counters* c, Outcome o) {
  uint32_t fresh = popcount(ballot(kAll, o == kInserted));
  uint32_t revived = popcount(ballot(kAll, o == kRevived));
  uint32_t deleted = popcount(ballot(kAll, o == kDeleted));
  if (lane_index() != 0 || fresh + revived + deleted == 0) return;
  add_relaxed(&c->live, uint64_t(fresh) + revived - deleted);
  if (fresh != 0) add_relaxed(&c->used, uint64_t(fresh));
}

// tally_block does the same for a whole block, by two atomics.
__device__ __forceinline__ void tally_block(Counters* c, Outcome o) {
  uint32_t fresh = count_block(o == kInserted);
  uint32_t revived = count_block(o == kRevived);
  uint32_t deleted = count_block(o == kDeleted);
  if (thread_in_block() != 0 || fresh + revived + deleted == 0) return;
  add_relaxed(&c->live, uint64_t(fresh) + revived - deleted);
  if (fresh != 0) add_relaxed(&c->used, uint64_t(fresh));
}

// record appends the indices of lanes with p to a list, or only counts them.
__device__ __forceinline__ void record(List list, uint32_t index, bool p) {
  uint32_t votes = ballot(kAll, p);
  if (votes == 0) return;
  uint32_t lane = lane_index(), at = 0;
  if (lane == lowest(votes)) at = add_relaxed(list.count, popcount(votes));
  at = shuffle(kAll, at, lowest(votes));
  if (p && list.items) list.items[at + popcount(votes & ((1u << lane) - 1))] = index;
}

template <class S, class K, class V, int Lanes, int Pieces>
__device__ __forceinline__ void change_batch(const ChangeParams& p) {
  using Key = typename S::Key;
  uint32_t i = uint32_t(thread_index());
  Operation<S> op{i < p.n, p.kind, 0, 0};
  if (op.there) {
    op.key = Key(load_once(static_cast<const K*>(p.keys) + i));
    if (p.kinds) op.kind = load_once(p.kinds + i);
    if constexpr (S::kHasValue)
      if (p.vals) op.value = Key(load_once(static_cast<const V*>(p.vals) + i));
  }
  change<S, Lanes, Pieces>(p.table, p.flags, op);

  bool present = op.outcome == kPresent;
  if (op.there) {
    bool ok = inserted(op.outcome) || op.outcome == kDeleted || (op.kind == kGet && present);
    if (p.ok) store_once(p.ok + i, uint8_t(ok));
    if constexpr (S::kHasValue)
      if (p.out) store_once(static_cast<V*>(p.out) + i, present && op.kind != kPut ? V(op.value) : V(0));
  }
  // What duplicates could have decided: see below.
  if (p.flags & kDefer) record(p.deferred, i, op.kind == kDelete ? op.there && op.outcome == kNothing : present);
  record(p.failed, p.first + i, op.outcome == kFull);
  tally_block(p.table.counters, op.outcome);
}

// ---- duplicates ------------------------------------------------------------
//
// A batch has an order, its threads have none. A launch with kDefer therefore
// leaves alone what it can't decide (an operation that found its key present,
// or a delete that found it absent, may have met a neighbour of its own batch)
// and lists it. Batches without duplicates of this sort list nothing, and the
// kernels below find nothing to do.
//
// Ranks is a table from key to the index of the operation that counts: the
// last Put, the first PutNew or Delete. An entry is an index + 1; its key is
// the key of that operation, so no pattern is reserved.

template <class K>
struct Ranks {
  const K* keys;
  uint32_t* slots;
  uint32_t mask;

  __device__ __forceinline__ uint32_t home(K key) const { return uint32_t(hash(key, 0x5eed)) & mask; }

  // offer enters operation i, or lets it compete with those of its key.
  template <bool Last>
  __device__ __forceinline__ void offer(uint32_t i) {
    K key = keys[i];
    for (uint32_t s = home(key);; s = (s + 1) & mask) {
      uint32_t held = cas_relaxed(slots + s, 0, i + 1);
      if (held == 0) return;
      if (keys[held - 1] != key) continue;
      if constexpr (Last) max_relaxed(slots + s, i + 1);
      else min_relaxed(slots + s, i + 1);
      return;
    }
  }

  // find is the slot of a key, or nullptr. The table is at most half full.
  __device__ __forceinline__ uint32_t* find(K key) const {
    for (uint32_t s = home(key);; s = (s + 1) & mask) {
      uint32_t held = load_relaxed(slots + s);
      if (held == 0) return nullptr;
      if (keys[held - 1] == key) return slots + s;
    }
  }
};

template <class K>
__device__ __forceinline__ Ranks<K> ranks_of(const RankParams& p) {
  return {static_cast<const K*>(p.keys), p.ranks, p.mask};
}

// rank enters the listed operations.
template <class K>
__device__ __forceinline__ void rank(const RankParams& p) {
  auto ranks = ranks_of<K>(p);
  uint32_t n = load_relaxed(p.deferred.count);
  for (uint64_t j = thread_index(); j < n; j += threads_in_grid()) {
    if (p.kind == kPut) ranks.template offer<true>(p.deferred.items[j]);
    else ranks.template offer<false>(p.deferred.items[j]);
  }
}

// claim lets operations that were not listed compete for their key, if some
// other operation on it was: the Put that inserted it may be the last.
template <class K>
__device__ __forceinline__ void claim(const RankParams& p) {
  if (load_relaxed(p.deferred.count) == 0) return;
  auto ranks = ranks_of<K>(p);
  for (uint64_t i = thread_index(); i < p.n; i += threads_in_grid())
    if (uint32_t* r = ranks.find(ranks.keys[i])) max_relaxed(r, uint32_t(i) + 1);
}

// reset empties the ranks for the next batch, if this one used them.
__device__ __forceinline__ void reset(const RankParams& p) {
  if (load_relaxed(p.deferred.count) == 0) return;
  for (uint64_t s = thread_index(); s <= p.mask; s += threads_in_grid()) p.ranks[s] = 0;
}

// settle_last writes the value of the last Put of each listed key.
template <class S, class K, class V>
__device__ __forceinline__ void settle_last(const SettleParams& p) {
  using Key = typename S::Key;
  auto ranks = ranks_of<K>(p.rank);
  uint32_t n = load_relaxed(p.rank.deferred.count);
  uint32_t lane = lane_index();
  for (uint64_t first = thread_index() - lane; first < n; first += threads_in_grid()) {
    Operation<S> op{false, kPut, 0, 0};
    if (first + lane < n) {
      uint32_t i = p.rank.deferred.items[first + lane];
      K key = ranks.keys[i];
      op.there = load_relaxed(ranks.find(key)) == i + 1;
      op.key = Key(key);
      if constexpr (S::kHasValue) op.value = Key(static_cast<const V*>(p.vals)[i]);
    }
    change<S, kNarrowLanes, kNarrowPieces>(p.table, 0, op);
    tally(p.table.counters, op.outcome);
  }
}

// settle_first gives an inserted (or deleted) key to the first operation of
// the batch that asked for it: its flag and, for PutNew, its value.
template <class S, class K, class V>
__device__ __forceinline__ void settle_first(const SettleParams& p) {
  using Key = typename S::Key;
  if (load_relaxed(p.rank.deferred.count) == 0) return;
  auto ranks = ranks_of<K>(p.rank);
  uint32_t lane = lane_index();
  for (uint64_t first = thread_index() - lane; first < p.rank.n; first += threads_in_grid()) {
    uint64_t i = first + lane;
    Operation<S> op{false, kPut, 0, 0};
    // Flags move from a later to an earlier operation of one key. A flag set
    // by another thread meanwhile belongs to a key whose rank is that very
    // operation, so it moves no further, whether it is seen here or not.
    if (i < p.rank.n && load_relaxed(p.ok + i)) {
      K key = ranks.keys[i];
      uint32_t* r = ranks.find(key);
      uint32_t j = r ? load_relaxed(r) - 1 : uint32_t(i);
      if (j < i) {
        store_relaxed(p.ok + i, 0);
        store_relaxed(p.ok + j, 1);
        if constexpr (S::kHasValue) {
          op.there = p.rank.kind == kPutNew;
          op.key = Key(key);
          if (op.there) op.value = Key(static_cast<const V*>(p.vals)[j]);
        }
      }
    }
    if constexpr (S::kHasValue) change<S, kNarrowLanes, kNarrowPieces>(p.table, 0, op);
  }
}

// ---- whole tables ----------------------------------------------------------

// each calls f(live, key, word, line, slot) for every slot of lines [lo,hi) of
// a table, one slot per lane, all lanes of a warp together.
template <class S, class F>
__device__ __forceinline__ void each_slot(const Table& t, uint32_t lo, uint32_t hi, F f) {
  using Word = typename S::Word;
  constexpr uint32_t per_line = kLineBytes / sizeof(Word);
  uint64_t n = uint64_t(hi - lo) * per_line;
  uint32_t lane = lane_index();
  for (uint64_t first = thread_index() - lane; first < n; first += threads_in_grid()) {
    uint64_t s = first + lane;
    uint32_t line = lo + uint32_t(s / per_line), slot = uint32_t(s % per_line);
    Word w = S::pair(S::kEmpty, 0);
    if (s < n) w = load_relaxed(reinterpret_cast<Word*>(t.lines) + uint64_t(line) * per_line + slot);
    f(S::key(w) < S::kPending, w, line, slot);
  }
}

template <class S>
__device__ __forceinline__ void rehash(const RehashParams& p) {
  using Word = typename S::Word;
  each_slot<S>(p.from, 0, p.from.nlines + 1, [&](bool live, Word w, uint32_t line, uint32_t) {
    Operation<S> op{live, kPutNew, line == p.from.nlines ? ~S::key(w) : S::key(w), S::value(w)};
    change<S, kNarrowLanes, kNarrowPieces>(p.to, 0, op);
    tally(p.to.counters, op.outcome);
    uint32_t lost = popcount(ballot(kAll, op.outcome == kFull));
    if (lost != 0 && lane_index() == 0) add_relaxed(p.lost, lost);
  });
}

// export_live writes the live pairs of a range of lines to two columns.
template <class S, class K, class V>
__device__ __forceinline__ void export_live(const ExportParams& p) {
  using Key = typename S::Key;
  using Word = typename S::Word;
  uint32_t lane = lane_index();
  each_slot<S>(p.table, p.lo, p.hi, [&](bool live, Word w, uint32_t line, uint32_t) {
    uint32_t votes = ballot(kAll, live), at = 0;
    if (votes == 0) return;
    if (lane == lowest(votes)) at = add_relaxed(p.count, popcount(votes));
    at = shuffle(kAll, at, lowest(votes)) + popcount(votes & ((1u << lane) - 1));
    if (!live) return;
    Key key = line == p.table.nlines ? Key(~S::key(w)) : S::key(w);
    static_cast<K*>(p.keys)[at] = K(key);
    if constexpr (S::kHasValue) static_cast<V*>(p.vals)[at] = V(S::value(w));
  });
}

// probe_lengths adds up how many slots lie before each live key on its path.
template <class S>
__device__ __forceinline__ void probe_lengths(const StatsParams& p) {
  using Word = typename S::Word;
  constexpr uint32_t per_sector = kSectorBytes / sizeof(Word);
  uint64_t sum = 0;
  uint32_t longest = 0;
  each_slot<S>(p.table, 0, p.table.nlines, [&](bool live, Word w, uint32_t line, uint32_t slot) {
    if (!live) return;
    Path path{locate<S>(p.table, S::key(w))};
    uint32_t lines = line - path.line() + (line < path.line() ? p.table.nlines : 0);
    uint32_t length = (lines * 4 + (slot / per_sector ^ path.sector())) * per_sector + slot % per_sector;
    sum += length;
    longest = length > longest ? length : longest;
  });
  add_relaxed(p.sum, sum);
  max_relaxed(p.longest, longest);
}

}  // namespace weft::linear

// ---- entry points ----------------------------------------------------------

using namespace weft::linear;

#define WEFT_KERNEL(blocks) extern "C" __global__ void __launch_bounds__(kBlock, blocks)

#define WEFT_LINEAR_KEYS(KB, K)                                        \
  WEFT_KERNEL(1) linear_rank_##KB(RankParams p) { rank<K>(p); }        \
  WEFT_KERNEL(1) linear_claim_##KB(RankParams p) { claim<K>(p); }

#define WEFT_LINEAR(KB, VB, S, K, V)                                                                    \
  WEFT_KERNEL(kGetBlocks) linear_get_##KB##_##VB(GetParams p) {                                         \
    get<S, K, V, kNarrowLanes, kNarrowPieces>(p);                                                       \
  }                                                                                                     \
  WEFT_KERNEL(kGetBlocks) linear_get_wide_##KB##_##VB(GetParams p) {                                    \
    get<S, K, V, kWideLanes, kWidePieces>(p);                                                           \
  }                                                                                                     \
  WEFT_KERNEL(kChangeBlocks) linear_change_##KB##_##VB(ChangeParams p) {                                \
    change_batch<S, K, V, kNarrowLanes, kNarrowPieces>(p);                                              \
  }                                                                                                     \
  WEFT_KERNEL(kChangeBlocks) linear_change_wide_##KB##_##VB(ChangeParams p) {                           \
    change_batch<S, K, V, kWideLanes, kWidePieces>(p);                                                  \
  }                                                                                                     \
  WEFT_KERNEL(1) linear_settle_last_##KB##_##VB(SettleParams p) { settle_last<S, K, V>(p); }            \
  WEFT_KERNEL(1) linear_settle_first_##KB##_##VB(SettleParams p) { settle_first<S, K, V>(p); }          \
  WEFT_KERNEL(1) linear_export_##KB##_##VB(ExportParams p) { export_live<S, K, V>(p); }                 \
  WEFT_KERNEL(1) linear_rehash_##KB##_##VB(RehashParams p) { rehash<S>(p); }                            \
  WEFT_KERNEL(1) linear_stats_##KB##_##VB(StatsParams p) { probe_lengths<S>(p); }

WEFT_KERNEL(1) linear_reset(RankParams p) { reset(p); }
WEFT_LINEAR_KEYS(32, uint32_t)
WEFT_LINEAR_KEYS(64, uint64_t)
WEFT_LINEAR(32, 32, Pair8, uint32_t, uint32_t)
WEFT_LINEAR(32, 64, Pair16, uint32_t, uint64_t)
WEFT_LINEAR(64, 32, Pair16, uint64_t, uint32_t)
WEFT_LINEAR(64, 64, Pair16, uint64_t, uint64_t)
WEFT_LINEAR(32, 0, Key4, uint32_t, uint32_t)
WEFT_LINEAR(64, 0, Key8, uint64_t, uint64_t)
