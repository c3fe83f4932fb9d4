// Kernels of package linear: a lock-free hash table with linear probing over
// 128-byte lines. doc.go explains the structure, layout.go the memory; this
// file keeps their names.
//
// A tile, a few neighbouring lanes of a warp, works on one key at a time and
// reads its path cooperatively; a warp takes 32 operations, one per lane, and
// its tiles go through them in rounds. All lanes of a warp stay together: each
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
  using Key = typename S::Key;

  static constexpr int kRounds = Lanes;  // operations per lane of a tile
  static constexpr int kSectors = Lanes * Pieces / 2;
  static constexpr int kSlots = 16 / sizeof(Word);  // slots in a piece
  static constexpr uint32_t kMask = (1u << Lanes) - 1;

  uint32_t lane = lane_index();
  uint32_t rank = lane % Lanes;   // of this lane in its tile
  uint32_t base = lane - rank;    // first lane of the tile

  union Piece {
    Word128 whole;
    Word slots[kSlots];
    __device__ Piece() {}
  };
  Piece piece[Pieces];
  Piece* at[Pieces];  // where they were loaded from

  // The bits of this tile's lanes for which p holds.
  __device__ __forceinline__ uint32_t vote(bool p) const { return ballot(kAll, p) >> base & kMask; }

  __device__ __forceinline__ void load(const Table& t, const Path& path, uint32_t step) {
#pragma unroll
    for (int v = 0; v < Pieces; v++) {
      uint32_t number = v * Lanes + rank;
      at[v] = reinterpret_cast<Piece*>(t.lines) + path.piece(t, step * kSectors + number / 2, number % 2);
      piece[v].whole = load_relaxed(&at[v]->whole);
    }
  }

  // first finds the first slot of the group, in path order, that satisfies a
  // predicate. For all lanes: whether there is one. For the lane that holds
  // it, and only that lane: slot points to it and word is what it held.
  struct Found {
    bool any;
    Word* slot;
    Word word;
  };
  template <class Predicate>
  __device__ __forceinline__ Found first(bool busy, Predicate holds) {
    Found f{false, nullptr, Word{}};
#pragma unroll
    for (int v = 0; v < Pieces; v++) {
      bool mine = false;
      Word* slot = nullptr;
      Word word{};
#pragma unroll
      for (int j = kSlots - 1; j >= 0; j--) {
        if (busy && holds(piece[v].slots[j])) {
          mine = true;
          slot = &at[v]->slots[j];
          word = piece[v].slots[j];
        }
      }
      uint32_t votes = vote(mine);
      if (!f.any && votes != 0) {
        f.any = true;
        if (rank == lowest(votes)) f.slot = slot, f.word = word;
      }
    }
    return f;
  }

  // any tells every lane of the tile whether a slot satisfies a predicate.
  template <class Predicate>
  __device__ __forceinline__ bool any(bool busy, Predicate holds) const {
    bool mine = false;
#pragma unroll
    for (int v = 0; v < Pieces; v++)
#pragma unroll
      for (int j = 0; j < kSlots; j++) mine |= holds(piece[v].slots[j]);
    return vote(busy && mine) != 0;
  }
};

// ---- lookups ---------------------------------------------------------------

// lookup finds a key on its path. Every lane of the tile gets the value.
//
// It is one scan of single-word atomic loads. A path only ever fills: a slot
// once taken never becomes empty again, so the first empty slot ends the scan,
// and what a word showed was the state of its key at the time of the load.
template <class S, int Lanes, int Pieces>
__device__ __forceinline__ bool lookup(const Table& t, const Path& path, typename S::Key key, bool busy,
                                       typename S::Key& value) {
  using Word = typename S::Word;
  Tile<S, Lanes, Pieces> tile;
  bool hit = false;
  uint32_t steps = path.steps(t, tile.kSectors);
  for (uint32_t step = 0; ballot(kAll, busy) != 0;) {
    if (busy) tile.load(t, path, step);
    auto found = tile.first(busy, [&](Word w) { return S::key(w) == key; });
    bool end = tile.any(busy, [](Word w) { return S::key(w) == S::kEmpty; });
    bool wait = S::kTwoStep && tile.any(busy, [](Word w) { return S::key(w) == S::kPending; });
    if constexpr (S::kHasValue) {
      uint32_t holder = lowest(tile.vote(found.slot != nullptr) | 1u << (Lanes - 1));
      auto v = shuffle(kAll, S::value(found.word), tile.base + holder);
      if (busy && found.any) value = v;
    }
    if (busy) {
      hit = found.any;
      // A pending slot may be about to show this key: look again. Its owner
      // needs two more instructions of its own and waits for nobody.
      if (hit || !wait) busy = !(hit || end || ++step == steps);
    }
  }
  return hit;
}

template <class S, class K, class V, int Lanes, int Pieces>
__device__ __forceinline__ void get(const GetParams& p) {
  using Key = typename S::Key;
  uint32_t lane = lane_index();
  uint64_t i = thread_index();
  bool mine = i < p.n;
  Key key = mine ? Key(load_once(static_cast<const K*>(p.keys) + i)) : Key(0);
  uint32_t home = locate<S>(p.table, key);

  Key value = 0;
  bool hit = false;
  uint32_t base = lane - lane % Lanes;
#pragma unroll 1
  for (int r = 0; r < Lanes; r++) {
    uint32_t from = base + r;
    Path path{shuffle(kAll, home, from)};
    bool busy = ballot(kAll, mine) >> from & 1;
    Key v = 0;
    bool h = lookup<S, Lanes, Pieces>(p.table, path, stored<S>(shuffle(kAll, key, from)), busy, v);
    if (lane == from) hit = h, value = h ? v : 0;
  }
  if (mine) {
    if constexpr (S::kHasValue)
      if (p.vals) store_once(static_cast<V*>(p.vals) + i, V(value));
    if (p.found) store_once(p.found + i, uint8_t(hit));
  }
  if (p.hits) count(p.hits, mine && hit);
}

// ---- changes ---------------------------------------------------------------

enum Outcome : uint32_t {
  kNothing,   // no such key, or not an operation
  kPresent,   // the key was there and stays as it was
  kReplaced,  // the key was there; its value is now the operation's
  kInserted,  // into a slot never used
  kRevived,   // inserted into a dead slot
  kDeleted,
  kFull,  // the path has no room
};
__device__ __forceinline__ bool inserted(Outcome o) { return o == kInserted || o == kRevived; }

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

// change runs one operation of any kind on a path.
//
// The argument for exactly one live slot per key: a key enters at the first
// slot of its path that is free in the sense of the launch (empty; with reuse
// also dead), by a CAS that fails if the slot changed meanwhile, and after a
// scan that reached the end of the path. Within a launch free slots only
// disappear (reuse is never set in a launch that deletes), so two inserters of
// one key come to the same slot: one wins, the other reads again and finds it.
// A dead slot remembers its key; without reuse the key returns to it.
template <class S, int Lanes, int Pieces>
__device__ __forceinline__ Outcome change(const Table& t, const Path& path, uint32_t kind, typename S::Key key,
                                          typename S::Key& value, uint32_t flags, bool busy) {
  using Word = typename S::Word;
  Tile<S, Lanes, Pieces> tile;
  const bool inserts = kind == kPut || kind == kPutNew;
  const bool reuse = flags & kReuse;
  const uint32_t steps = path.steps(t, tile.kSectors);
  uint32_t spare = steps;  // first step with a free slot, once seen
  bool claim = false;      // the key is absent: take the first free slot
  Outcome out = kNothing;

  for (uint32_t step = 0; ballot(kAll, busy) != 0;) {
    if (busy) tile.load(t, path, step);
    auto live = tile.first(busy, [&](Word w) { return S::key(w) == key; });
    auto dead = tile.first(busy && !reuse && inserts, [&](Word w) { return S::is_dead(w, key); });
    auto free = tile.first(busy && inserts, [&](Word w) {
      return S::key(w) == S::kEmpty || (reuse && S::key(w) == S::kDead);
    });
    bool end = tile.any(busy, [](Word w) { return S::key(w) == S::kEmpty; });
    bool wait = S::kTwoStep && tile.any(busy, [](Word w) { return S::key(w) == S::kPending; });

    // What to write where, decided alike by all lanes of the tile; the lane
    // that holds the slot does it.
    typename Tile<S, Lanes, Pieces>::Found target{};
    Outcome then = kNothing;
    bool next = false;
    if (busy) {
      if (live.any) {
        if (kind == kDelete) target = live, then = kDeleted;
        if (kind == kPut && !(flags & kDefer)) target = live, then = kReplaced;
        if (then == kNothing) out = kPresent, busy = false;
      } else if (wait) {
        // Look again, as lookup does.
      } else if (!inserts) {
        next = true;
      } else if (dead.any) {
        target = dead, then = kRevived;
      } else {
        if (free.any && spare > step) spare = step;
        bool last = end || step + 1 == steps;
        if (free.any && (claim || (last && spare == step))) {
          target = free, then = kInserted;
        } else if (last && !claim && spare < steps) {
          claim = true, step = spare;  // scan done: back to the first free slot
        } else {
          next = true;
        }
      }
    }

    // Present keys report their value (to OpGet's sibling PutNew).
    if constexpr (S::kHasValue) {
      uint32_t holder = lowest(tile.vote(live.slot != nullptr) | 1u << (Lanes - 1));
      auto v = shuffle(kAll, S::value(live.word), tile.base + holder);
      if (live.any && kind == kPutNew) value = v;
    }

    bool won = false;
    if (target.slot != nullptr) {
      Word to = then == kDeleted ? S::dead(key) : S::pair(key, value);
      won = S::swap(target.slot, target.word, to);
    }
    bool reused = tile.vote(won && then == kInserted && S::key(target.word) == S::kDead) != 0;
    won = tile.vote(won) != 0;
    if (busy && won) out = reused ? kRevived : then, busy = false;
    if (busy && next) {
      if ((end && !claim) || ++step == steps) {
        busy = false;
        if (inserts) out = kFull;
      }
    }
  }
  return out;
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

template <class S, class K, class V>
__device__ __forceinline__ void change_batch(const ChangeParams& p) {
  using Key = typename S::Key;
  constexpr int Lanes = kChangeLanes, Pieces = kChangePieces;
  uint32_t lane = lane_index();
  uint32_t i = uint32_t(thread_index());
  bool mine = i < p.n;
  Key key = 0, value = 0;
  uint32_t kind = p.kind;
  if (mine) {
    key = Key(load_once(static_cast<const K*>(p.keys) + i));
    if (p.kinds) kind = load_once(p.kinds + i);
    if constexpr (S::kHasValue)
      if (p.vals) value = Key(load_once(static_cast<const V*>(p.vals) + i));
  }
  uint32_t home = locate<S>(p.table, key);

  Outcome out = kNothing;
  Key result = 0;
  uint32_t base = lane - lane % Lanes;
#pragma unroll 1
  for (int r = 0; r < Lanes; r++) {
    uint32_t from = base + r;
    Path path{shuffle(kAll, home, from)};
    Key k = shuffle(kAll, key, from), v = shuffle(kAll, value, from);
    uint32_t op = shuffle(kAll, kind, from);
    bool busy = ballot(kAll, mine) >> from & 1;
    Outcome o;
    // A mixed batch looks keys up beside its changes; one kind per round would
    // split the warp, so the lookups of a round go first.
    Key got = 0;
    bool reads = op == kGet;
    bool hit = false;
    if (p.kinds) hit = lookup<S, Lanes, Pieces>(p.table, path, stored<S>(k), busy && reads, got);
    o = change<S, Lanes, Pieces>(p.table, path, op, stored<S>(k), v, p.flags, busy && !reads);
    if (reads && hit) o = kPresent, v = got;
    if (lane == from) out = o, result = v;
  }

  bool present = out == kPresent || out == kReplaced;
  if (mine) {
    bool ok = inserted(out) || out == kDeleted || (kind == kGet && out == kPresent);
    if (p.ok) store_once(p.ok + i, uint8_t(ok));
    if constexpr (S::kHasValue) {
      bool answers = (kind == kGet || kind == kPutNew) && out == kPresent;
      if (p.out) store_once(static_cast<V*>(p.out) + i, V(answers ? result : 0));
    }
  }
  if (p.flags & kDefer) record(p.deferred, i, kind == kDelete ? mine && out == kNothing : present);
  record(p.failed, p.first + i, out == kFull);
  tally_block(p.table.counters, out);
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
  constexpr int Lanes = kChangeLanes, Pieces = kChangePieces;
  auto ranks = ranks_of<K>(p.rank);
  uint32_t n = load_relaxed(p.rank.deferred.count);
  uint32_t lane = lane_index(), base = lane - lane % Lanes;
  for (uint64_t first = thread_index() - lane; first < n; first += threads_in_grid()) {
    uint64_t j = first + lane;
    Key key = 0, value = 0;
    bool winner = false;
    if (j < n) {
      uint32_t i = p.rank.deferred.items[j];
      K k = ranks.keys[i];
      winner = load_relaxed(ranks.find(k)) == i + 1;
      key = Key(k);
      if constexpr (S::kHasValue) value = Key(static_cast<const V*>(p.vals)[i]);
    }
    uint32_t home = locate<S>(p.table, key);
    Outcome out = kNothing;
#pragma unroll 1
    for (int r = 0; r < Lanes; r++) {
      uint32_t from = base + r;
      Path path{shuffle(kAll, home, from)};
      Key v = shuffle(kAll, value, from);
      bool busy = ballot(kAll, winner) >> from & 1;
      Outcome o = change<S, Lanes, Pieces>(p.table, path, kPut, stored<S>(shuffle(kAll, key, from)), v, 0, busy);
      if (lane == from) out = o;
    }
    tally(p.table.counters, out);
  }
}

// settle_first gives an inserted (or deleted) key to the first operation of
// the batch that asked for it: its flag and, for PutNew, its value.
template <class S, class K, class V>
__device__ __forceinline__ void settle_first(const SettleParams& p) {
  using Key = typename S::Key;
  constexpr int Lanes = kChangeLanes, Pieces = kChangePieces;
  if (load_relaxed(p.rank.deferred.count) == 0) return;
  auto ranks = ranks_of<K>(p.rank);
  uint32_t lane = lane_index(), base = lane - lane % Lanes;
  for (uint64_t first = thread_index() - lane; first < p.rank.n; first += threads_in_grid()) {
    uint64_t i = first + lane;
    Key key = 0, value = 0;
    bool rewrite = false;
    // Flags move from a later to an earlier operation of one key. A flag set
    // by another thread meanwhile belongs to a key whose rank is that very
    // operation, so it moves no further.
    if (i < p.rank.n && p.ok[i]) {
      K k = ranks.keys[i];
      uint32_t* r = ranks.find(k);
      uint32_t j = r ? load_relaxed(r) - 1 : uint32_t(i);
      if (j < i) {
        p.ok[i] = 0;
        p.ok[j] = 1;
        key = Key(k);
        if constexpr (S::kHasValue) {
          rewrite = p.rank.kind == kPutNew;
          if (rewrite) value = Key(static_cast<const V*>(p.vals)[j]);
        }
      }
    }
    uint32_t home = locate<S>(p.table, key);
#pragma unroll 1
    for (int r = 0; r < Lanes; r++) {
      uint32_t from = base + r;
      Path path{shuffle(kAll, home, from)};
      Key v = shuffle(kAll, value, from);
      bool busy = ballot(kAll, rewrite) >> from & 1;
      change<S, Lanes, Pieces>(p.table, path, kPut, stored<S>(shuffle(kAll, key, from)), v, 0, busy);
    }
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
  using Key = typename S::Key;
  using Word = typename S::Word;
  constexpr int Lanes = kChangeLanes, Pieces = kChangePieces;
  uint32_t lane = lane_index(), base = lane - lane % Lanes;
  each_slot<S>(p.from, 0, p.from.nlines + 1, [&](bool live, Word w, uint32_t line, uint32_t) {
    Key key = line == p.from.nlines ? Key(~S::key(w)) : S::key(w), value = S::value(w);
    uint32_t home = locate<S>(p.to, key);
    Outcome out = kNothing;
#pragma unroll 1
    for (int r = 0; r < Lanes; r++) {
      uint32_t from = base + r;
      Path path{shuffle(kAll, home, from)};
      Key v = shuffle(kAll, value, from);
      bool busy = ballot(kAll, live) >> from & 1;
      Outcome o = change<S, Lanes, Pieces>(p.to, path, kPutNew, stored<S>(shuffle(kAll, key, from)), v, 0, busy);
      if (lane == from) out = o;
    }
    tally(p.to.counters, out);
    uint32_t lost = ballot(kAll, out == kFull);
    if (lost != 0 && lane == 0) add_relaxed(p.lost, popcount(lost));
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

#define WEFT_KERNEL extern "C" __global__ void __launch_bounds__(kBlock)

#define WEFT_LINEAR_KEYS(KB, K)                                                       \
  WEFT_KERNEL linear_rank_##KB(RankParams p) { rank<K>(p); }                          \
  WEFT_KERNEL linear_claim_##KB(RankParams p) { claim<K>(p); }

#define WEFT_LINEAR(KB, VB, S, K, V)                                                                          \
  WEFT_KERNEL linear_get_##KB##_##VB(GetParams p) { get<S, K, V, kNarrowLanes, kNarrowPieces>(p); }           \
  WEFT_KERNEL linear_get_wide_##KB##_##VB(GetParams p) { get<S, K, V, kWideLanes, kWidePieces>(p); }          \
  WEFT_KERNEL linear_change_##KB##_##VB(ChangeParams p) { change_batch<S, K, V>(p); }                         \
  WEFT_KERNEL linear_settle_last_##KB##_##VB(SettleParams p) { settle_last<S, K, V>(p); }                     \
  WEFT_KERNEL linear_settle_first_##KB##_##VB(SettleParams p) { settle_first<S, K, V>(p); }                   \
  WEFT_KERNEL linear_export_##KB##_##VB(ExportParams p) { export_live<S, K, V>(p); }                          \
  WEFT_KERNEL linear_rehash_##KB##_##VB(RehashParams p) { rehash<S>(p); }                                     \
  WEFT_KERNEL linear_stats_##KB##_##VB(StatsParams p) { probe_lengths<S>(p); }

WEFT_KERNEL linear_reset(RankParams p) { reset(p); }
WEFT_LINEAR_KEYS(32, uint32_t)
WEFT_LINEAR_KEYS(64, uint64_t)
WEFT_LINEAR(32, 32, Pair8, uint32_t, uint32_t)
WEFT_LINEAR(32, 64, Pair16, uint32_t, uint64_t)
WEFT_LINEAR(64, 32, Pair16, uint64_t, uint32_t)
WEFT_LINEAR(64, 64, Pair16, uint64_t, uint64_t)
WEFT_LINEAR(32, 0, Key4, uint32_t, uint32_t)
WEFT_LINEAR(64, 0, Key8, uint64_t, uint64_t)
