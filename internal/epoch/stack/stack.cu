// A stack that frees and reuses nodes while other blocks may read them. stack.go describes its
// purpose.
//
// Weak accesses read and write the nodes. If two conflicting accesses are not ordered, the
// simulator reports a race. A read of a free node returns poison.
#include "weft/epoch.cuh"

namespace weft::stack {

constexpr uint32_t kPoison = 0xdeadbeef;
// number of nodes per epoch in shared memory; small, so that other nodes go to device memory
constexpr uint32_t kBag = 2;
constexpr uint32_t kLargeBag = 128;

struct Node {
  uint32_t value, next;
};

struct Counts {
  uint32_t pushed, popped;
  uint32_t wrong;    // reads of free nodes, and values that were popped twice
  uint32_t refused;  // pushes that found no free node
};

struct RunParams {
  EpochRef epochs;
  uint32_t* head;
  uint32_t* used;  // one flag per node: whether it is in use
  Node* nodes;
  uint32_t* seen;  // number of pops of each value
  Counts* counts;
  uint32_t n;       // number of nodes
  uint32_t groups;  // number of groups per block
  uint32_t walk;    // maximum number of nodes that a walk reads
  uint32_t first;   // value of the first push
  uint32_t linger;  // number of other reads between the beginning of a group and its walk
  uint32_t ends;    // not 0: a group ends before the next one begins
  // number of blocks that only walk; only their announcements order their reads with other blocks
  uint32_t readers;
  uint32_t unused;
};

struct CollectParams {
  EpochRef epochs;
  uint32_t* used;
  Node* nodes;
  uint32_t* stacks;
  uint32_t count;
  uint32_t unused;
};

// Pool frees a node: it poisons the node and clears its flag.
struct Pool {
  uint32_t* used;
  Node* nodes;
  __device__ __forceinline__ void operator()(uint32_t id) const {
    nodes[id] = {kPoison, kPoison};
    store_release(used + id, 0);
  }
};

__device__ __forceinline__ uint32_t take(const RunParams& p, uint32_t from) {
  for (uint32_t i = 0; i < p.n; i++) {
    uint32_t id = (from + i) % p.n;
    if (load_relaxed(p.used + id) == 0 && cas_acquire(p.used + id, 0u, 1u) == 0) return id;
  }
  return kNoNode;
}

__device__ __forceinline__ void push(const RunParams& p, uint32_t id, uint32_t value) {
  uint32_t head = load_relaxed(p.head), was;
  for (;; head = was) {
    p.nodes[id] = {value, head};
    was = cas_release(p.head, head, id);
    if (was == head) return;
  }
}

// pop removes the top node and returns it, or kNoNode if the stack is empty. If the node were
// reused between the first and the last line of the loop, pop would remove the wrong node.
__device__ __forceinline__ uint32_t pop(const RunParams& p) {
  for (;;) {
    uint32_t id = load_acquire(p.head);
    if (id == kNoNode) return id;
    uint32_t next = p.nodes[id].next;
    if (next == kPoison) add_relaxed(&p.counts->wrong, 1u);
    if (cas_acq_rel(p.head, id, next) == id) return id;
  }
}

// walk reads up to p.walk nodes from the top of the stack.
__device__ __forceinline__ void walk(const RunParams& p) {
  uint32_t id = load_acquire(p.head);
  for (uint32_t i = 0; i < p.walk && id != kNoNode; i++) {
    Node node = p.nodes[id];
    if (node.value == kPoison || node.next == kPoison) {
      add_relaxed(&p.counts->wrong, 1u);
      return;
    }
    id = node.next;
  }
}

}  // namespace weft::stack

using namespace weft;
using namespace weft::stack;

// run makes each thread walk, pop or push once in each group of its block.
template <uint32_t Bag>
__device__ __forceinline__ void run(const RunParams& p) {
  __shared__ EpochBags<Bag> bags;
  EpochBlock<Bag> epochs(p.epochs, &bags);
  epochs.enter();
  const uint32_t me = uint32_t(thread_index()), all = uint32_t(threads_in_grid());
  for (uint32_t g = 0; g < p.groups; g++) {
    epochs.begin(Pool{p.used, p.nodes});
    uint32_t kind = block_index() < p.readers ? 0 : (me + g) % 3;
    if (kind == 0) {
      for (uint32_t i = 0; i < p.linger; i++) load_relaxed(p.used);
      walk(p);
    }
    if (kind == 1) {
      uint32_t id = take(p, me), value = p.first + g * all + me;
      if (id == kNoNode) add_relaxed(&p.counts->refused, 1u);
      else push(p, id, value), add_relaxed(&p.counts->pushed, 1u);
    }
    uint32_t id = kind == 2 ? pop(p) : kNoNode;
    if (id != kNoNode) {
      uint32_t value = p.nodes[id].value;
      if (value == kPoison || add_relaxed(p.seen + value, 1u) != 0) add_relaxed(&p.counts->wrong, 1u);
      add_relaxed(&p.counts->popped, 1u);
      epochs.retire(id);
    }
    if (p.ends) epochs.end();
  }
  epochs.leave();
}

extern "C" __global__ void __launch_bounds__(256) stack_run(RunParams p) { run<kBag>(p); }

// stack_runlarge has large bags, so more of a block's nodes stay in shared memory.
extern "C" __global__ void __launch_bounds__(256) stack_runlarge(RunParams p) { run<kLargeBag>(p); }

extern "C" __global__ void __launch_bounds__(256) stack_collect(CollectParams p) {
  epoch_collect(p.epochs, p.stacks, p.count, Pool{p.used, p.nodes});
}
