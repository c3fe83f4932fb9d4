// User kernels that iterate over whole tables.
#include "weft/entry.cuh"
#include "weft/linear.cuh"
#include "weft/slab.cuh"

using namespace weft;

constexpr int kBlock = 256;

using K = Integer<WEFT_KEY_BITS>::Type;
#if WEFT_VALUE_BITS
using V = Integer<WEFT_VALUE_BITS>::Type;
#else
using V = void;
#endif

#include "each.cuh"

struct EachLinearParams {
  linear::Ref<K, V> ref;
  Pairs<K, V> to;
};
struct EachSlabParams {
  slab::Ref<K, V> ref;
  Pairs<K, V> to;
};

WEFT_KERNEL(refs_each_linear, 1)(EachLinearParams p) { p.to.copy(p.ref); }
WEFT_KERNEL(refs_each_slab, 1)(EachSlabParams p) { p.to.copy(p.ref); }
