// User kernels on ordered maps in B-link trees.
#include "weft/btree.cuh"
#include "weft/entry.cuh"

using namespace weft;

#include "ops.cuh"

constexpr int kBlock = 256;

using K = Integer<WEFT_KEY_BITS>::Type;
using V = Integer<WEFT_VALUE_BITS>::Type;

struct BtreeParams {
  btree::Ref<K, V> ref;
  Ops ops;
};

WEFT_KERNEL(refs_btree_run, 1)(BtreeParams p) {
  Typed<K, V> op(p.ops);
  const uint32_t kind = op.kind();
  uint32_t outcome = kNothing;
  if (p.ops.how == kAlone) {
    if (!op.there) return;
    outcome = kind == kGet ? found(p.ref.find(op.key, &op.value)) : uint32_t(p.ref.change(kind, op.key, op.value, &op.value));
  } else if (p.ops.how == kWarps) {
    const bool hit = p.ref.find_warp(kind == kGet, op.key, &op.value);
    const uint32_t is = p.ref.change_warp(op.there && kind != kGet, kind, op.key, op.value, &op.value);
    outcome = kind == kGet ? found(hit) : is;
  } else if (lane_index() % 2 == 0) {
    outcome = found(p.ref.find_warp(op.there, op.key, &op.value));
  }
  op.store(outcome);
}

// Trees with versions are tested with 32-bit keys only.
#if WEFT_KEY_BITS == 32
// Tasks are operations, including ranges, that tiles run one after the other.
struct Tasks {
  const uint32_t* kinds;
  const K* keys;
  const K* to;  // upper bounds of ranges
  V* vals;      // in: values; out: values of operations with a result
  uint32_t* outcomes;
  K* keys_out;  // pairs of ranges, in rows of length most
  V* vals_out;
  uint32_t n, each;  // number of operations; operations per tile
  uint32_t most;     // maximum number of pairs per range
  uint32_t present;  // not 0: ranges read the current state, not a snapshot
  uint32_t repeat;   // number of times that a range is read; the last one counts
  uint32_t unused;
};

constexpr uint32_t kRange = 100, kCount = 101, kNext = 102, kBefore = 103;

struct VersionedParams {
  btree::VersionedRef<K, V> ref;
  Tasks tasks;
};

// Each tile runs t.each operations. In each group of a block, a tile runs one operation.
WEFT_KERNEL(refs_btree_versioned, 1)(VersionedParams p) {
  __shared__ btree::Bags bags;
  btree::Session<K, V> tree(p.ref, &bags);
  const Tasks& t = p.tasks;
  constexpr uint32_t tile = btree::Session<K, V>::kTile;
  const uint32_t rank = lane_index() % tile;
  tree.enter();
#pragma unroll 1
  for (uint32_t turn = 0; turn < t.each; turn++) {
    tree.begin();
    const uint64_t i = thread_index() / tile * t.each + turn;
    if (i >= t.n) continue;
    const uint32_t kind = t.kinds[i];
    const K key = t.keys[i];
    V value = t.vals[i];
    K neighbor = 0;
    uint32_t outcome = kNothing;
    if (kind >= kRange) {
      const uint64_t time = t.present ? btree::kAlways : tree.snapshot();
      if (kind == kRange)
#pragma unroll 1
        for (uint32_t r = 0; r < t.repeat; r++)
          outcome = p.ref.range_tile(key, t.to[i], t.most, time, [&](uint32_t at, K k, V v) {
            t.keys_out[i * t.most + at] = k;
            t.vals_out[i * t.most + at] = v;
          });
      else if (kind == kCount)
        outcome = p.ref.count_tile(key, t.to[i], time);
      else if (kind == kNext)
        outcome = found(p.ref.successor_tile(key, &neighbor, &value, time));
      else if (kind == kBefore)
        outcome = found(p.ref.predecessor_tile(key, &neighbor, &value, time));
    } else if (kind == kGet) {
      outcome = found(p.ref.find_tile(key, &value));
    } else {
      outcome = tree.change_tile(kind, key, value, &value);
    }
    if (rank != 0) continue;
    t.outcomes[i] = outcome;
    if (kind == kNext || kind == kBefore) t.keys_out[i * t.most] = neighbor;
    t.vals[i] = value;
  }
  tree.leave();
}

// Parameters for snapshots of a stream. One launch takes a snapshot, and later launches read it.
// The last of them drops it.
struct HoldParams {
  btree::VersionedRef<K, V> ref;
  btree::VersionedRef<K, V>::Held* held;
  K* keys;
  V* vals;
  uint32_t* count;
  uint32_t most;
  uint32_t drop;
};

WEFT_KERNEL(refs_btree_hold, 1)(HoldParams p) {
  if (thread_index() == 0) *p.held = p.ref.hold();
}
WEFT_KERNEL(refs_btree_held, 1)(HoldParams p) {
  constexpr uint32_t tile = btree::VersionedRef<K, V>::kTile;
  const btree::VersionedRef<K, V>::Held held = *p.held;
  if (thread_index() >= tile) return;
  const uint32_t n = p.ref.range_tile(0, ~K(0), p.most, held.time, [&](uint32_t i, K k, V v) { p.keys[i] = k, p.vals[i] = v; });
  if (thread_index() == 0) *p.count = n;
  if (p.drop) {
    asm volatile("bar.warp.sync %0;" ::"r"((1u << tile) - 1) : "memory");
    if (thread_index() == 0) p.ref.drop(held);
  }
}
#endif
