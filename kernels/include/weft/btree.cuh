// A btree.Map in users' kernels. Package btree documents how to get a Ref in Go; docs/refs.md is a
// guide.
//
//	__global__ void count(btree::Ref<uint64_t, uint32_t> seen, …) {
//	  if (seen.find(key, &n)) …
//
// A call of Ref without a suffix is for one lane, and may be made anywhere: lanes may diverge,
// loop, and have returned. A call with _warp is for all 32 lanes of a warp together; each brings
// one key or none. A call with _tile is for a tile: kTile neighboring lanes, which call it together
// with the same arguments.
//
// Operations on a key are linearizable, whoever makes them. Changes return their outcome:
// kInserted, kPresent, kReplaced, kDeleted, kNothing; and kFull. kFull means that the Update
// permits no more insertions, that no node was left to keep the old version of a leaf, or that the
// Ref is one of View. Then nothing has changed, and Sync returns ErrFull.
//
// Ranges are linearizable if they read at a time (VersionedRef), and not in a tree without
// versions.
#pragma once

#include "btree_past.cuh"
#include "btree_walk.cuh"
#include "ref.cuh"

namespace weft::btree {

// kVersions and kMaySnapshot are bits of a mode, in addition to those of ref.cuh.
constexpr uint32_t kVersions = 64, kMaySnapshot = 128;

// check_kind traps if a kernel takes a tree with versions for one without, or the other way round.
__device__ __forceinline__ void check_kind(const Terms& terms, uint32_t expected) {
  if ((terms.mode & kVersions) != expected) asm volatile("trap;" ::: "memory");
}

// Typed converts between the types of a tree and those of its nodes.
template <class K, class V>
struct Typed : Types<K, V, false> {
  using T = Types<K, V, false>;
  using S = typename T::S;
  using Key = typename S::Key;
  static constexpr uint32_t kTile = Shape<S>::kLanes;

  __device__ __forceinline__ static Key in(const Tree& t, K key) { return Key(As<K>::bits(key) ^ typename As<K>::Bits(t.flip)); }
  __device__ __forceinline__ static K out(const Tree& t, Key key) { return As<K>::from(typename As<K>::Bits(key) ^ typename As<K>::Bits(t.flip)); }

  // task returns an operation.
  __device__ __forceinline__ static Task<S> task(const Tree& t, bool there, uint32_t kind, K key, V value) {
    return {in(t, key), Key(As<V>::bits(value)), there ? kind : uint32_t(kNone), false};
  }
  // outcome returns the outcome of an operation.
  __device__ __forceinline__ static Outcome outcome(const Task<S>& t) {
    if (t.kind == kNone) return kNothing;
    if (t.refused) return kFull;
    if (t.kind == kDelete) return t.there ? kDeleted : kNothing;
    return !t.there ? kInserted : t.kind == kPutNew ? kPresent : kReplaced;
  }
};

// admit takes a ticket for an operation that may insert. It retries while other lanes may give
// theirs back.
__device__ __forceinline__ bool admit(const Terms& terms, uint32_t kind) {
  if (kind == kDelete || kind == kNone) return false;
  Outcome may;
  do may = terms.quota().admit(true);
  while (may == kAgain);
  return may == kNothing;
}

// walk calls f(i, key, value) for the pairs that a reader finds.
template <class K, class V, class Reader, class F>
__device__ __forceinline__ uint32_t walk(const Tree& t, const Reader& reader, K lo, K hi, uint32_t most, F f) {
  using P = Typed<K, V>;
  using S = typename P::S;
  if (most == 0 || P::in(t, lo) > P::in(t, hi)) return 0;
  Walk<S, Reader> w{reader};
  return w.forward(P::in(t, lo), P::in(t, hi), most, [&](uint32_t from, uint32_t to, uint32_t before) __attribute__((always_inline)) {
    w.r.node.each(w.r.l.rank, [&](uint32_t, uint32_t, uint32_t number, typename S::Word word) __attribute__((always_inline)) {
      if (number >= from && number < to) f(before + number - from, P::out(t, S::key(word)), As<V>::from(S::value(word)));
    });
  });
}

// Ref is passed to kernels by value, for trees without versions. K and V match the map's Go types.
template <class K, class V>
struct Ref {
  using P = Typed<K, V>;
  using S = typename P::S;
  static constexpr uint32_t kTile = P::kTile;

  Tree tree;
  Past past;  // unused
  Terms terms;

  // find reports whether a key is present, and stores its value in *value unless that is null.
  __device__ __forceinline__ bool find(K key, V* value = nullptr) const {
    check();
    return look<Alone<S>>(P::in(tree, key), value);
  }
  __device__ __forceinline__ bool find_tile(K key, V* value = nullptr) const {
    check();
    return look<S>(P::in(tree, key), value);
  }
  __device__ __forceinline__ bool find_warp(bool there, K key, V* value = nullptr) const {
    check_warp();
    const Lanes<S, false> l;
    bool hit = false;
#pragma unroll 1
    for (uint32_t c = 0; c < kTile; c++) {
      if (!l.share(uint32_t(there), c)) continue;
      V v{};
      const bool has = look<S>(l.share(P::in(tree, key), c), &v);
      if (l.rank != c) continue;
      hit = has;
      if (has && value) *value = v;
    }
    return hit;
  }
  // range_tile calls f(i, key, value) for at most `most` pairs with keys from lo to hi, and returns
  // their number. The lane that has pair number i calls f. The range may show one change and not an
  // earlier one.
  template <class F>
  __device__ __forceinline__ uint32_t range_tile(K lo, K hi, uint32_t most, F f) const {
    check();
    return walk<K, V>(tree, Now<S>{tree}, lo, hi, most, f);
  }

  // ---- changes, of Update ----

  // change runs an operation: kPut, kPutNew (which inserts an absent key), kDelete, or kSum, kMin,
  // kMax, kAnd or kOr. If the key of a kPutNew is present, its value is stored in *held, unless
  // that is null. Each place that calls a change is some thousand instructions, so a kernel with
  // several kinds should have one call for all of them.
  __device__ __forceinline__ Outcome change(uint32_t kind, K key, V value, V* held = nullptr) const {
    check();
    auto t = Typed<K, V>::task(tree, true, kind, key, value);
    Task<Alone<S>> op{t.key, t.value, t.kind, false};
    if (!terms.permits(kind, false)) return terms.settle(kFull, 1);
    const bool enters = admit(terms, kind);
    Writer<Alone<S>, typename As<V>::Bits> w{tree};
    w.flags = kMeaning<V>, w.enters = enters;
    w.run(op, 0, 1);
    t.there = op.there, t.refused = op.refused;
    return end(t, enters, As<V>::from(op.value), held);
  }
  __device__ __forceinline__ Outcome change_warp(bool there, uint32_t kind, K key, V value, V* held = nullptr) const {
    check_warp();
    auto t = P::task(tree, there, kind, key, value);
    if (!terms.permits(kind, false)) return there ? terms.settle(kFull, 1) : kNothing;
    Writer<S, typename As<V>::Bits> w{tree};
    w.flags = kMeaning<V>;
    Outcome o = kNothing;
#pragma unroll 1
    for (uint32_t c = 0; c < kTile; c++) {
      // Take a ticket right before it is used: lanes that wait for one would block those that have
      // one.
      const bool mine = w.l.rank == c && there, enters = mine && admit(terms, kind);
      w.enters = w.l.share(uint32_t(enters), c);
      w.run(t, c, c + 1);
      if (mine) o = end(t, enters, As<V>::from(t.value), held);
    }
    sync_warp();
    return o;
  }

  // insert inserts an absent key. If the key is present, its value is stored in *held, unless that
  // is null.
  __device__ __forceinline__ Outcome insert(K key, V value, V* held = nullptr) const { return change(kPutNew, key, value, held); }
  // put inserts a key or replaces its value.
  __device__ __forceinline__ Outcome put(K key, V value) const { return change(kPut, key, value, nullptr); }
  // reduce inserts a key, or combines its value with another: kSum, kMin, kMax, kAnd or kOr.
  __device__ __forceinline__ Outcome reduce(Kind kind, K key, V value) const { return change(kind, key, value, nullptr); }
  __device__ __forceinline__ Outcome erase(K key) const { return change(kDelete, key, V{}, nullptr); }

  __device__ __forceinline__ Outcome insert_warp(bool there, K key, V value, V* held = nullptr) const {
    return change_warp(there, kPutNew, key, value, held);
  }
  __device__ __forceinline__ Outcome put_warp(bool there, K key, V value) const { return change_warp(there, kPut, key, value, nullptr); }
  __device__ __forceinline__ Outcome reduce_warp(bool there, Kind kind, K key, V value) const {
    return change_warp(there, kind, key, value, nullptr);
  }
  __device__ __forceinline__ Outcome erase_warp(bool there, K key) const { return change_warp(there, kDelete, key, V{}, nullptr); }

 private:
  __device__ __forceinline__ void check() const {
    terms.check(P::kShape);
    check_kind(terms, 0);
  }
  __device__ __forceinline__ void check_warp() const {
    terms.check_warp(P::kShape);
    check_kind(terms, 0);
  }
  template <class L>
  __device__ __forceinline__ bool look(typename S::Key key, V* value) const {
    Now<L> r{tree};
    r.find(key);
    uint32_t at = 0;
    if (!r.node.has(r.l, key, count_of(r.state), at)) return false;
    if (value) *value = As<V>::from(S::value(r.node.word(r.l, at)));
    return true;
  }
  __device__ __forceinline__ Outcome end(const Task<S>& t, bool enters, V was, V* held) const {
    const Outcome o = P::outcome(t);
    terms.quota().record(enters, o);
    if (held && o == kPresent) *held = was;
    return terms.settle(o, 1);
  }
};

// VersionedRef is a tree with versions (listing 4.1 of the thesis). Reads at a time need a snapshot
// that lasts: one of a group (Session), or one that is held on a stream. kAlways is the present.
template <class K, class V>
struct VersionedRef {
  using P = Typed<K, V>;
  using S = typename P::S;
  static constexpr uint32_t kTile = P::kTile;

  Tree tree;
  Past past;
  Terms terms;

  // find_tile reports whether a key was present at a time, and stores its value in *value unless
  // that is null.
  __device__ __forceinline__ bool find_tile(K key, V* value = nullptr, uint64_t time = kAlways) const {
    check();
    Then<S> r(tree, past, time);
    const typename S::Key in = P::in(tree, key);
    r.find(in);
    uint32_t at = 0;
    if (!r.node.has(r.l, in, count_of(r.state), at)) return false;
    if (value) *value = As<V>::from(S::value(r.node.word(r.l, at)));
    return true;
  }
  // range_tile calls f(i, key, value) for at most `most` pairs with keys from lo to hi at a time,
  // and returns their number (listing 4.3). The lane that has pair number i calls f. In the
  // present, the range may show one change and not an earlier one.
  template <class F>
  __device__ __forceinline__ uint32_t range_tile(K lo, K hi, uint32_t most, uint64_t time, F f) const {
    check();
    return walk<K, V>(tree, Then<S>(tree, past, time), lo, hi, most, f);
  }
  // count_tile returns the number of pairs at a time.
  __device__ __forceinline__ uint32_t count_tile(K lo, K hi, uint64_t time) const {
    return range_tile(lo, hi, ~0u, time, [](uint32_t, K, V) {});
  }
  // successor_tile finds the first pair after a key.
  __device__ __forceinline__ bool successor_tile(K key, K* next, V* value, uint64_t time) const {
    const typename S::Key in = P::in(tree, key), last = typename S::Key(typename As<K>::Bits(~typename As<K>::Bits(0)));
    if (in == last) return false;
    return one<false>(in + 1, last, next, value, time);
  }
  // predecessor_tile finds the last pair before a key.
  __device__ __forceinline__ bool predecessor_tile(K key, K* before, V* value, uint64_t time) const {
    const typename S::Key in = P::in(tree, key);
    if (in == 0) return false;
    return one<true>(0, in - 1, before, value, time);
  }

  // hold takes a snapshot that lasts until drop, which any kernel of the stream may call. One
  // thread calls each.
  struct Held {
    uint64_t time;
    uint32_t slot, unused;
  };
  __device__ __forceinline__ Held hold() const {
    check_snapshot();
    const uint32_t slot = epoch_enter(past.epochs);
    return {snapshot(past), slot, 0};
  }
  __device__ __forceinline__ void drop(const Held& h) const { epoch_leave(past.epochs, h.slot); }

  __device__ __forceinline__ void check() const {
    terms.check(P::kShape);
    check_kind(terms, kVersions);
  }
  // check_snapshot traps if concurrent changes do not keep what the snapshot would read.
  __device__ __forceinline__ void check_snapshot() const {
    check();
    if (!(terms.mode & kMaySnapshot)) asm volatile("trap;" ::: "memory");
  }

 private:
  // one finds the first pair from a key to another, or the last one, for all lanes.
  template <bool kBackward>
  __device__ __forceinline__ bool one(typename S::Key lo, typename S::Key hi, K* key, V* value, uint64_t time) const {
    check();
    Walk<S, Then<S>> w{Then<S>(tree, past, time)};
    typename S::Word word{};
    const auto keep = [&](uint32_t from, uint32_t to, uint32_t) __attribute__((always_inline)) {
      if (from != to) word = w.r.node.word(w.r.l, from);
    };
    const uint32_t n = kBackward ? w.backward(lo, hi, 1, keep) : w.forward(lo, hi, 1, keep);
    if (n == 0) return false;
    if (key) *key = P::out(tree, S::key(word));
    if (value) *value = As<V>::from(S::value(word));
    return true;
  }
};

using Bags = EpochBags<kBag>;  // of a block, in shared memory

// Session runs a block's work on a VersionedRef, in groups of operations:
//
//	__shared__ btree::Bags bags;
//	btree::Session<K, V> tree(ref, &bags);
//	tree.enter();
//	while (there is work) {
//	  tree.begin();
//	  const uint64_t time = tree.snapshot();
//	  tree.ref.range_tile(lo, hi, most, time, f);
//	  tree.put_tile(key, value);
//	}
//	tree.leave();
//
// All threads of the block call enter, begin and leave. A snapshot lasts for the group. Tiles make
// changes (listing 4.2).
template <class K, class V>
class Session {
 public:
  using P = Typed<K, V>;
  using S = typename P::S;
  static constexpr uint32_t kTile = P::kTile;
  const VersionedRef<K, V>& ref;

  __device__ __forceinline__ Session(const VersionedRef<K, V>& r, Bags* bags)
      : ref(r), w{r.tree, {r.past, {r.past.epochs, bags}}} {
    w.flags = kMeaning<V>;
  }
  __device__ __forceinline__ void enter() {
    if (groups()) w.past.block.enter();
  }
  // begin begins a group. A group that changes nothing need not wait for nodes, nor keep freed
  // ones.
  __device__ __forceinline__ void begin(bool changes = true) {
    if (!groups()) return;
    const Free free{ref.tree, ref.past, changes ? &w.past.block : nullptr};
    w.past.block.begin(free);
    if (changes && w.past.shares()) supply(free);
  }
  __device__ __forceinline__ void leave() {
    sync_warp();
    if (groups()) w.leave();
    w.done();
    sync_warp();
    w.past.count();
  }

  // snapshot takes a snapshot for the tile and returns its time.
  __device__ __forceinline__ uint64_t snapshot() {
    ref.check_snapshot();
    uint64_t time = 0;
    if (w.l.rank == 0) time = btree::snapshot(ref.past);
    w.l.sync();
    return w.l.share(time, 0);
  }

  // change_tile runs an operation; see Ref::change.
  __device__ __forceinline__ Outcome change_tile(uint32_t kind, K key, V value, V* held = nullptr) {
    ref.check();
    const bool leads = w.l.rank == 0;
    Outcome o = kFull;
    V was{};
    bool enters = false;
    if (ref.terms.permits(kind, false) && w.stock()) {
      if (leads) enters = admit(ref.terms, kind);
      w.enters = w.l.share(uint32_t(enters), 0);
      auto t = P::task(ref.tree, true, kind, key, value);
      w.run(t, 0, 1);
      o = P::outcome(t);
      was = As<V>::from(t.value);
    }
    if (leads) {
      ref.terms.quota().record(enters, o);
      ref.terms.settle(o, 1);
    }
    o = Outcome(w.l.share(uint32_t(o), 0));
    if (held && o == kPresent) *held = As<V>::from(typename As<V>::Bits(w.l.share(uint64_t(As<V>::bits(was)), 0)));
    return o;
  }

  __device__ __forceinline__ Outcome insert_tile(K key, V value, V* held = nullptr) { return change_tile(kPutNew, key, value, held); }
  __device__ __forceinline__ Outcome put_tile(K key, V value) { return change_tile(kPut, key, value, nullptr); }
  __device__ __forceinline__ Outcome reduce_tile(Kind kind, K key, V value) { return change_tile(kind, key, value, nullptr); }
  __device__ __forceinline__ Outcome erase_tile(K key) { return change_tile(kDelete, key, V{}, nullptr); }

 private:
  Writer<S, typename As<V>::Bits, Keeps> w;

  // supply reserves a node for each tile, for a change. If none are free, nodes of running groups
  // become free when those end, so the block waits, in groups without work. If that does not help
  // for long, some reader keeps a snapshot. Then the block stops waiting until each tile has a node
  // again. A block that is ahead of others does not take their share of the nodes: its own come
  // back to it.
  //
  // The block also waits, for a shorter time, if its copies would not fit its bag because some
  // block is slow. Copies that do not fit go to lists that all blocks share. Walking those makes
  // the next epoch long, so that even more copies go there.
  __device__ __forceinline__ void supply(const Free& free) {
    EpochBlock<kBag>& block = w.past.block;
    const uint32_t tiles = threads_per_block() / kTile, part = ref.past.pool / blocks_in_grid(), share = part > tiles ? part : tiles;
    for (uint32_t vain = 0;;) {
      const uint32_t need = count_block(w.l.rank == 0 && w.spare == kNone), has = block.spares();
      const uint32_t holds = block.holds() + tiles - need, most = share > holds ? share - holds : 0;
      sync_block();
      const uint32_t some = need > has ? need - has : 0, lack = some < most ? some : most, first = thread_in_block() - lane_index();
      if (first < lack) w.more(thread_in_block() < lack);
      sync_block();
      const uint32_t now = block.spares();
      const bool there = now >= need, fits = block.room() >= tiles;
      sync_block();
      if (there) waits = kWaits;
      if (fits) patience = kPatience;
      if (vain >= (there ? fits ? 0 : patience : waits)) break;
      vain = now > has ? 0 : vain + 1;
      if (!there && vain == kWaits) waits = 0;
      if (there && vain == kPatience) patience = 0;
      pause(500 * (vain < 16 ? vain + 1 : 16));
      block.begin(free);
    }
    w.stock();
  }

  // How often in a row a block waits in vain before it gives up: tens of milliseconds, and half of
  // one.
  static constexpr uint32_t kWaits = 4096, kPatience = 64;
  uint32_t waits = kWaits, patience = kPatience;

  // groups reports whether epochs are in use: without them only snapshots of the host read copies.
  __device__ __forceinline__ bool groups() const { return ref.terms.mode & kMaySnapshot; }
};

}  // namespace weft::btree
