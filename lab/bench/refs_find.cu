// User kernels that look up a batch of keys, to compare with weft's own kernels.
#include "weft/entry.cuh"
#include "weft/linear.cuh"
#include "weft/slab.cuh"

using namespace weft;

constexpr int kBlock = 256;

using K = Integer<WEFT_KEY_BITS>::Type;
using V = Integer<WEFT_VALUE_BITS>::Type;

struct Lookups {
  const K* keys;
  V* vals;
  uint64_t n;
};
struct FindLinearParams {
  linear::Ref<K, V> ref;
  Lookups lookups;
};
struct FindSlabParams {
  slab::Ref<K, V> ref;
  Lookups lookups;
};

template <class Ref>
__device__ __forceinline__ void find(const Ref& ref, const Lookups& c) {
  const uint64_t i = thread_index();
  const bool there = i < c.n;
  V value = 0;
  bool hit = ref.find_warp(there, there ? load_once(c.keys + i) : K(0), &value);
  if (there) store_once(c.vals + i, hit ? value : V(0));
}

WEFT_KERNEL(refs_find_linear, 8)(FindLinearParams p) { find(p.ref, p.lookups); }
WEFT_KERNEL(refs_find_slab, 8)(FindSlabParams p) { find(p.ref, p.lookups); }
