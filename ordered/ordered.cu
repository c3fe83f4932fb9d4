// Kernels of package ordered. doc.go explains the structure, and layout.go and index.go explain the
// memory.
//
// A change writes leaves and an index that no lookup reads yet. Memory that lookups read does not
// change. Launches run one after the other, so all accesses are weak.
#include "change.cuh"
#include "pool.cuh"
#include "range.cuh"
#include "weft/entry.cuh"

namespace weft::ordered {

struct AnswerParams {
  Index x;
  const void* keys;
  void* vals;
  uint8_t* ok;  // may be null; in: inserted; out: present before
  uint64_t n;
};

// reread sets the value of each PutNew row to the value of its key in the map.
template <class K, class V>
__device__ __forceinline__ void reread(const AnswerParams& p) {
  const uint32_t leaves = p.x.content->leaves;
  inorder::reread<K, V>(p, p.x.flip, [&](K key, V& val) {
    if (leaves == 0) return false;
    const Leaf<K, V>* leaf = leaf_at<K, V>(p.x, p.x.ids[leaf_of(p.x, leaves - 1, key)]);
    const uint32_t slot = lower(leaf, kPairs, key);
    if (slot == kPairs || leaf->keys[slot] != key) return false;
    val = leaf->vals[slot];
    return true;
  });
}

struct AddParams {
  const Content* content;
  uint64_t* to;
  uint32_t negate;
  uint32_t unused;
};

}  // namespace weft::ordered

// ---- entry points ----------------------------------------------------------

using namespace weft;
using namespace weft::ordered;
WEFT_WIDTHS;

WEFT_KERNEL(ordered_get, 4)(SeekParams p) { get<K, V>(p); }
WEFT_KERNEL(ordered_seek, 4)(SeekParams p) { seek<K, V>(p); }
WEFT_KERNEL(ordered_count, 4)(SeekParams p) { weft::ordered::count<K, V>(p); }
WEFT_KERNEL(ordered_range, 4)(SeekParams p) { range<K, V>(p); }
WEFT_KERNEL(ordered_copy, 4)(CopyParams p) { copy_pairs<K, V>(p); }
WEFT_KERNEL(ordered_before, 1)(BeforeParams p) { count_before(p); }
WEFT_KERNEL(ordered_settle, 4)(ChangeParams p) { settle<K, V>(p); }
WEFT_KERNEL(ordered_settle_puts, 8)(ChangeParams p) { settle_puts<K, V>(p); }
WEFT_KERNEL(ordered_plan, 8)(ChangeParams p) { plan<false>(p); }
WEFT_KERNEL(ordered_plan_gaps, 4)(ChangeParams p) { plan<true>(p); }
WEFT_KERNEL(ordered_write, 4)(ChangeParams p) { write<K, V, false>(p); }
WEFT_KERNEL(ordered_write_gaps, 4)(ChangeParams p) { write<K, V, true>(p); }
WEFT_KERNEL(ordered_enter, 4)(ChangeParams p) { enter<K, V>(p); }
WEFT_KERNEL(ordered_load, 4)(ChangeParams p) { load<K, V>(p); }
WEFT_KERNEL(ordered_refill, 4)(ChangeParams p) { refill<K, V>(p); }
WEFT_KERNEL(ordered_finish, 4)(ChangeParams p) { finish<K>(p, false); }
WEFT_KERNEL(ordered_finish_all, 4)(ChangeParams p) { finish<K>(p, true); }
WEFT_KERNEL(ordered_mark, 4)(MarkParams p) { mark(p); }
WEFT_KERNEL(ordered_survey, 4)(CollectParams p) { survey(p); }
WEFT_KERNEL(ordered_collect, 4)(CollectParams p) { collect(p); }
WEFT_KERNEL(ordered_reread, 4)(AnswerParams p) { weft::ordered::reread<K, V>(p); }
WEFT_KERNEL(ordered_add, 1)(AddParams p) {
  if (thread_index() != 0) return;
  add(p.to, p.content->live, p.negate);
}
