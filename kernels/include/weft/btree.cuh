// A Ref to a btree.Map for users' kernels. Package btree documents how to get a Ref in Go.
// docs/refs.md is a guide.
//
//	__global__ void count(btree::Ref<uint64_t, uint32_t> seen, …) {
//	  if (seen.find(key, &n)) …
//
// A call without a suffix works for one lane, at any place in a kernel. Lanes may diverge or loop,
// and other lanes may have returned. All 32 lanes of a warp make a call with the suffix _warp
// together, each with one key or none. The lanes of a tile make a call with the suffix _tile
// together, with the same arguments. A tile is kTile neighboring lanes.
//
// Operations on a key are linearizable, no matter which threads run them. A change returns its
// outcome: kInserted, kPresent, kReplaced, kDeleted, kNothing or kFull. kFull has three possible
// causes. Update permits no more insertions, no node was left for the old version of a leaf, or the
// Ref comes from View. A change that returns kFull has changed nothing, and Sync returns ErrFull.
//
// Ranges are linearizable if they are read as of a time (VersionedRef). In a tree without versions
// they are not.
#pragma once

#include "btree_past.cuh"
#include "btree_walk.cuh"
#include "ref.cuh"

namespace weft::btree {

// kVersions and kMaySnapshot are bits of a mode, in addition to those of ref.cuh.
constexpr uint32_t kVersions = 64, kMaySnapshot = 128;

// check_kind traps if a kernel uses a tree with versions as one without versions, or vice versa.
__device__ __forceinline__ void check_kind(const Terms& terms, uint32_t expected) {
  if ((terms.mode & kVersions) != expected) asm volatile("trap;" ::: "memory");
}

// Typed converts between the user's types and the types in nodes.
template <class K, class V>
struct Typed : Types<K, V, false> {
  using T = Types<K, V, false>;
  using S = typename T::S;
  using Key = typename S::Key;
  static constexpr uint32_t kTile = Shape<S>::kLanes;

  __device__ __forceinline__ static Key in(const Tree& t, K key) { return Key(As<K>::bits(key) ^ typename As<K>::Bits(t.flip)); }
  __device__ __forceinline__ static K out(const Tree& t, Key key) { return As<K>::from(typename As<K>::Bits(key) ^ typename As<K>::Bits(t.flip)); }

  // task returns the Task of an operation.
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

// admit takes a ticket for an operation that may insert, and reports whether it received one. It
// retries while other lanes may return tickets.
__device__ __forceinline__ bool admit(const Terms& terms, uint32_t kind) {
  if (kind == kDelete || kind == kNone) return false;
  Outcome may;
  do may = terms.quota().admit(true);
  while (may == kAgain);
  return may == kNothing;
}

// walk calls f(i, key, value) for at most `most` pairs with keys from lo to hi, which a reader
// finds. It returns their number.
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

// Ref is a tree without versions. It is passed to kernels by value. K and V match the map's Go
// types.
template <class K, class V>
struct Ref {
  using P = Typed<K, V>;
  using S = typename P::S;
  static constexpr uint32_t kTile = P::kTile;

  Tree tree;
  Past past;  // unused
  Terms terms;

  // find reports whether a key is present, and stores its value in *value unless value is null.
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
  // their number. The lane that has pair number i calls f. The range may show a change and miss an
  // earlier one.
  template <class F>
  __device__ __forceinline__ uint32_t range_tile(K lo, K hi, uint32_t most, F f) const {
    check();
    return walk<K, V>(tree, Now<S>{tree}, lo, hi, most, f);
  }

  // ---- changes, within Update ----

  // change runs an operation: kPut, kPutNew (which inserts an absent key), kDelete, or kSum, kMin,
  // kMax, kAnd or kOr. If the key of a kPutNew is present, change stores its value in *held, unless
  // held is null. Each call site of change compiles to some thousand instructions. So a kernel with
  // several kinds of operations should have one call site for all of them.
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
      // Take each ticket right before its use. Otherwise lanes that wait for a ticket would block
      // the lanes that have one.
      const bool mine = w.l.rank == c && there, enters = mine && admit(terms, kind);
      w.enters = w.l.share(uint32_t(enters), c);
      w.run(t, c, c + 1);
      if (mine) o = end(t, enters, As<V>::from(t.value), held);
    }
    sync_warp();
    return o;
  }

  // insert inserts an absent key. If the key is present, insert stores its value in *held, unless
  // held is null.
  __device__ __forceinline__ Outcome insert(K key, V value, V* held = nullptr) const { return change(kPutNew, key, value, held); }
  // put inserts a key or replaces its value.
  __device__ __forceinline__ Outcome put(K key, V value) const { return change(kPut, key, value, nullptr); }
  // reduce inserts a key or combines its value with `value`: kSum, kMin, kMax, kAnd or kOr.
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

// VersionedRef is a tree with versions (listing 4.1 of Awad's thesis). A read as of a time needs a
// snapshot that still exists: one of a group (Session), or one that is held on a stream. The time
// kAlways is the present.
template <class K, class V>
struct VersionedRef {
  using P = Typed<K, V>;
  using S = typename P::S;
  static constexpr uint32_t kTile = P::kTile;

  Tree tree;
  Past past;
  Terms terms;

  // find_tile reports whether a key was present at a time. It stores the key's value at that time
  // in *value unless value is null.
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
  // range_tile calls f(i, key, value) for at most `most` pairs with keys from lo to hi, as of a
  // time. It returns their number (listing 4.3). The lane that has pair number i calls f. In the
  // present, the range may show a change and miss an earlier one.
  template <class F>
  __device__ __forceinline__ uint32_t range_tile(K lo, K hi, uint32_t most, uint64_t time, F f) const {
    check();
    return walk<K, V>(tree, Then<S>(tree, past, time), lo, hi, most, f);
  }
  // count_tile returns the number of pairs with keys from lo to hi, as of a time.
  __device__ __forceinline__ uint32_t count_tile(K lo, K hi, uint64_t time) const {
    return range_tile(lo, hi, ~0u, time, [](uint32_t, K, V) {});
  }
  // successor_tile finds the first pair after a key, as of a time.
  __device__ __forceinline__ bool successor_tile(K key, K* next, V* value, uint64_t time) const {
    const typename S::Key in = P::in(tree, key), last = typename S::Key(typename As<K>::Bits(~typename As<K>::Bits(0)));
    if (in == last) return false;
    return one<false>(in + 1, last, next, value, time);
  }
  // predecessor_tile finds the last pair before a key, as of a time.
  __device__ __forceinline__ bool predecessor_tile(K key, K* before, V* value, uint64_t time) const {
    const typename S::Key in = P::in(tree, key);
    if (in == 0) return false;
    return one<true>(0, in - 1, before, value, time);
  }

  // hold takes a snapshot that lasts until drop. Any kernel of the stream may call drop. One thread
  // calls hold, and one thread calls drop.
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
  // check_snapshot traps if concurrent changes do not keep the old versions that a snapshot reads.
  __device__ __forceinline__ void check_snapshot() const {
    check();
    if (!(terms.mode & kMaySnapshot)) asm volatile("trap;" ::: "memory");
  }

 private:
  // one finds the first pair with a key from lo to hi, or the last pair if kBackward is set. All
  // lanes receive the pair.
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

using Bags = EpochBags<kBag>;  // the bags of a block, in shared memory

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
// All threads of the block call enter, begin and leave. A snapshot lasts until its group ends. A
// tile makes each change (listing 4.2).
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
  // begin begins a group. A group that changes nothing need not wait for nodes or keep freed nodes.
  __device__ __forceinline__ void begin(bool changes = true) {
    if (!groups()) return;
    const Free free{ref.tree, ref.past, changes ? &w.past.block : nullptr};
    w.past.block.begin(free);
    if (changes && w.past.shares()) reserve_nodes(free);
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
  Writer<S, typename As<V>::Bits, Versioned> w;

  // reserve_nodes reserves a node for each tile, for a change. If too few nodes are free, the block
  // waits in groups without work, because nodes become free when running groups end. If waiting
  // does not help for long, some reader keeps a snapshot. Then the block no longer waits, until
  // each tile has a node again. A block that is ahead of others does not take their share of the
  // nodes. It reuses its own nodes when these become free.
  //
  // The block also waits, but for a shorter time, if its bag cannot hold the copies of its tiles
  // because some block is slow. Copies that do not fit go to lists that all blocks share. A walk
  // through these lists makes the next epoch long, so even more copies would go to the lists.
  __device__ __forceinline__ void reserve_nodes(const Free& free) {
    EpochBlock<kBag>& block = w.past.block;
    const uint32_t tiles = threads_per_block() / kTile, part = ref.past.pool / blocks_in_grid(), share = part > tiles ? part : tiles;
    for (uint32_t failed_waits = 0;;) {
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
      if (fits) node_wait_limit = kNodeWaitLimit;
      if (failed_waits >= (there ? fits ? 0 : node_wait_limit : waits)) break;
      failed_waits = now > has ? 0 : failed_waits + 1;
      if (!there && failed_waits == kWaits) waits = 0;
      if (there && failed_waits == kNodeWaitLimit) node_wait_limit = 0;
      pause(500 * (failed_waits < 16 ? failed_waits + 1 : 16));
      block.begin(free);
    }
    w.stock();
  }

  // A block stops waiting after this number of consecutive waits in vain. kWaits is the limit for
  // nodes, tens of milliseconds. kNodeWaitLimit is the limit for space in the bag, half a
  // millisecond.
  static constexpr uint32_t kWaits = 4096, kNodeWaitLimit = 64;
  uint32_t waits = kWaits, node_wait_limit = kNodeWaitLimit;

  // groups reports whether epochs are in use. Without epochs, only snapshots of the host read
  // copies.
  __device__ __forceinline__ bool groups() const { return ref.terms.mode & kMaySnapshot; }
};

}  // namespace weft::btree
