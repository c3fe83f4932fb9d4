// Operations in the format of this package's kernels.
#pragma once

#include "weft/ref.cuh"

// How is the way in which operations run.
enum How : uint32_t {
  kAlone,  // each lane runs its own operation, in branches, after other lanes have returned
  kWarps,  // all lanes of a warp run one kind of operation after another
  kApart,  // half of the lanes make a call for the whole warp, and the rest return: an error
};

struct Ops {
  const uint32_t* kinds;
  const void* keys;
  void* vals;          // in: values; out: values of operations with a result
  uint32_t* outcomes;  // results; kPresent or kNothing for Get
  uint32_t n;
  uint32_t how;
};

// Typed is the operation of one thread, with its key and value in their types.
template <class K, class V>
struct Typed {
  const Ops& ops;
  uint32_t i;
  bool there;
  K key;
  typename As<V>::Given value{};

  __device__ __forceinline__ explicit Typed(const Ops& o) : ops(o), i(uint32_t(thread_index())), there(i < o.n), key(0) {
    if (!there) return;
    key = static_cast<const K*>(o.keys)[i];
    if constexpr (As<V>::kBytes != 0) value = static_cast<const V*>(o.vals)[i];
  }
  __device__ __forceinline__ uint32_t kind() const { return there ? ops.kinds[i] : uint32_t(kNone); }
  __device__ __forceinline__ void store(uint32_t outcome) const {
    if (!there) return;
    ops.outcomes[i] = outcome;
    if constexpr (As<V>::kBytes != 0) static_cast<V*>(ops.vals)[i] = value;
  }
};

__device__ __forceinline__ uint32_t found(bool hit) { return hit ? kPresent : kNothing; }

template <class K, class V, class Ref>
__device__ __forceinline__ void alone(const Ref& ref, Typed<K, V>& op) {
  if (!op.there) return;
  uint32_t outcome = kNothing;
  switch (op.kind()) {
    case kGet: outcome = found(ref.find(op.key, &op.value)); break;
    case kPutNew: outcome = ref.insert(op.key, op.value, &op.value); break;
    case kDelete: outcome = ref.erase(op.key); break;
    case kPut:
      if constexpr (As<V>::kBytes != 0) outcome = ref.put(op.key, op.value);
      break;
    default:
      if constexpr (As<V>::kBytes != 0) outcome = ref.reduce(Kind(op.kind()), op.key, op.value);
  }
  op.store(outcome);
}

template <class K, class V, class Ref>
__device__ __forceinline__ void warps(const Ref& ref, Typed<K, V>& op) {
  uint32_t kind = op.kind(), outcome = kNothing;
  bool hit = ref.find_warp(kind == kGet, op.key, &op.value);
  uint32_t is = ref.insert_warp(kind == kPutNew, op.key, op.value, &op.value);
  uint32_t gone = ref.erase_warp(kind == kDelete, op.key);
  outcome = kind == kGet ? found(hit) : kind == kPutNew ? is : gone;
  if constexpr (As<V>::kBytes != 0) {
    uint32_t put = ref.put_warp(kind == kPut, op.key, op.value);
    uint32_t sum = ref.reduce_warp(kind == kSum, kSum, op.key, op.value);
    outcome = kind == kPut ? put : kind == kSum ? sum : outcome;
  }
  op.store(outcome);
}

template <class K, class V, class Ref>
__device__ __forceinline__ void run(const Ref& ref, const Ops& ops) {
  Typed<K, V> op(ops);
  if (ops.how == kAlone) alone<K, V>(ref, op);
  else if (ops.how == kWarps) warps<K, V>(ref, op);
  else if (lane_index() % 2 == 0) op.store(found(ref.find_warp(op.there, op.key, &op.value)));
}
