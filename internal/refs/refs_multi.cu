// User kernels on multimaps.
#include "weft/entry.cuh"
#include "weft/slab.cuh"

using namespace weft;

#include "each.cuh"
#include "ops.cuh"

constexpr int kBlock = 256;

using K = Integer<WEFT_KEY_BITS>::Type;
using V = Integer<WEFT_VALUE_BITS>::Type;

struct MultiParams {
  slab::MultiRef<K, V> ref;
  Ops ops;
  V* sums;  // sum of the values of each key that is looked up
};

// Get finds the first value of a key, and adds up all values of the key. DeleteAll returns the
// number of removed values.
WEFT_KERNEL(refs_multi_run, 1)(MultiParams p) {
  Typed<K, V> op(p.ops);
  uint32_t kind = op.kind(), outcome = kNothing, removed = 0;
  V sum = 0;
  if (p.ops.how == kAlone) {
    if (!op.there) return;
    switch (kind) {
      case kGet:
        outcome = found(p.ref.find(op.key, &op.value));
        p.ref.for_each(op.key, [&](V v) { sum += v; });
        break;
      case kPut: outcome = p.ref.add(op.key, op.value); break;
      case kPutNew: outcome = p.ref.insert(op.key, op.value, &op.value); break;
      case kDelete: outcome = p.ref.erase(op.key); break;
      case kDeleteAll: outcome = p.ref.erase_all(op.key, &removed); break;
    }
  } else {
    bool hit = p.ref.find_warp(kind == kGet, op.key, &op.value);
    V* sums = p.sums + (op.i - lane_index());
    p.ref.for_each_warp(kind == kGet, op.key, [&](uint32_t from, V v) { add_relaxed(sums + from, v); });
    uint32_t put = p.ref.add_warp(kind == kPut, op.key, op.value);
    uint32_t is = p.ref.insert_warp(kind == kPutNew, op.key, op.value, &op.value);
    uint32_t gone = p.ref.erase_warp(kind == kDelete, op.key);
    uint32_t all = p.ref.erase_all_warp(kind == kDeleteAll, op.key, &removed);
    outcome = kind == kGet ? found(hit) : kind == kPut ? put : kind == kPutNew ? is : kind == kDelete ? gone : all;
  }
  if (op.there && sum != 0) add_relaxed(p.sums + op.i, sum);
  if (kind == kDeleteAll) op.value = V(removed);
  op.store(outcome);
}

struct EachParams {
  slab::MultiRef<K, V> ref;
  Pairs<K, V> to;
};

WEFT_KERNEL(refs_multi_each, 1)(EachParams p) { p.to.copy(p.ref); }
