// User kernels that run operations on maps and sets in every way that How lists.
#include "weft/entry.cuh"
#include "weft/linear.cuh"
#include "weft/slab.cuh"

using namespace weft;

#include "ops.cuh"

constexpr int kBlock = 256;

using K = Integer<WEFT_KEY_BITS>::Type;
#if WEFT_VALUE_BITS
using V = Integer<WEFT_VALUE_BITS>::Type;
#else
using V = void;
#endif

struct LinearParams {
  linear::Ref<K, V> ref;
  Ops ops;
};
struct SlabParams {
  slab::Ref<K, V> ref;
  Ops ops;
};

WEFT_KERNEL(refs_linear, 1)(LinearParams p) { run<K, V>(p.ref, p.ops); }
WEFT_KERNEL(refs_slab, 1)(SlabParams p) { run<K, V>(p.ref, p.ops); }
