// A lock-free hash table of sorted linked lists, one operation per thread, by Harris's and
// Michael's algorithm. misra.go documents its purpose and its memory layout.
//
// A node is one 64-bit word, and so is the head of a bucket. Words are read and swapped as a whole,
// so a swap fails if either the link or the mark of deletion has changed. A node's key is written
// once, before the node is linked. cas_release links a node, and load_acquire follows the link. So
// a thread that reaches a node reads its key. A swap that copies a link into another node releases
// the link again.
#include "weft/hash.cuh"
#include "weft/warp.cuh"

namespace weft::misra {

constexpr int kBlock = 256;

struct ApplyParams {
  uint64_t* nodes;  // the heads of the buckets come first
  const uint32_t* keys;
  const uint8_t* kinds;
  uint8_t* ok;  // may be null
  uint64_t seed;
  uint32_t buckets;
  uint32_t first;  // the node of operation 0; operation i has node first + i
  uint32_t n;
  uint32_t unused;
};

// Values of weft.OpKind. For a set, OpPut and OpPutNew have the same effect.
constexpr uint8_t kGet = 0, kDelete = 3;

// A word is a key, the index of the next node (0: none) and the mark of deletion.
constexpr uint64_t kMark = 1;
__device__ __forceinline__ uint32_t key_of(uint64_t w) { return uint32_t(w >> 32); }
__device__ __forceinline__ uint32_t next_of(uint64_t w) { return uint32_t(w) >> 1; }
__device__ __forceinline__ uint64_t linked(uint32_t key, uint32_t next) { return uint64_t(key) << 32 | next << 1; }

// Place is the position of a key, or the position where the key belongs, between prev and cur.
struct Place {
  uint32_t prev, cur;        // indices; cur 0: the end of the list
  uint64_t before, current;  // words of prev and cur
  bool found;                // cur has the key
};

// find finds the place of a key, and unlinks marked nodes on the way.
__device__ __forceinline__ Place find(const ApplyParams& p, uint32_t head, uint32_t key) {
  for (;;) {
    Place at{head, 0, load_acquire(p.nodes + head), 0, false};
    for (;;) {
      at.cur = next_of(at.before);
      if (at.cur == 0) return at;
      at.current = load_acquire(p.nodes + at.cur);
      if (at.current & kMark) {
        uint64_t without = linked(key_of(at.before), next_of(at.current));
        if (cas_release(p.nodes + at.prev, at.before, without) != at.before) break;  // begin again
        at.before = without;
        continue;
      }
      if (key_of(at.current) >= key) {
        at.found = key_of(at.current) == key;
        return at;
      }
      at.prev = at.cur, at.before = at.current;
    }
  }
}

__device__ __forceinline__ bool search(const ApplyParams& p, uint32_t head, uint32_t key) {
  uint64_t w = load_acquire(p.nodes + head);
  while (next_of(w) != 0) {
    w = load_acquire(p.nodes + next_of(w));
    if (key_of(w) >= key) return key_of(w) == key && !(w & kMark);
  }
  return false;
}

__device__ __forceinline__ bool insert(const ApplyParams& p, uint32_t head, uint32_t key, uint32_t node) {
  for (;;) {
    Place at = find(p, head, key);
    if (at.found) return false;
    store_relaxed(p.nodes + node, linked(key, at.cur));
    if (cas_release(p.nodes + at.prev, at.before, linked(key_of(at.before), node)) == at.before) return true;
  }
}

// remove deletes a key by marking its node. If remove cannot unlink the node at once, the next find
// that reads the node unlinks it.
__device__ __forceinline__ bool remove(const ApplyParams& p, uint32_t head, uint32_t key) {
  for (;;) {
    Place at = find(p, head, key);
    if (!at.found) return false;
    if (cas_release(p.nodes + at.cur, at.current, at.current | kMark) != at.current) continue;
    cas_release(p.nodes + at.prev, at.before, linked(key_of(at.before), next_of(at.current)));
    return true;
  }
}

}  // namespace weft::misra

using namespace weft;
using namespace weft::misra;

extern "C" __global__ void __launch_bounds__(kBlock) misra_apply(ApplyParams p) {
  uint32_t i = uint32_t(thread_index());
  if (i >= p.n) return;
  uint32_t key = load_once(p.keys + i);
  uint8_t kind = load_once(p.kinds + i);
  uint32_t head = reduce(weft::hash(key, p.seed), p.buckets);
  bool ok;
  if (kind == kGet) ok = search(p, head, key);
  else if (kind == kDelete) ok = remove(p, head, key);
  else ok = insert(p, head, key, p.first + i);
  if (p.ok) store_once(p.ok + i, uint8_t(ok));
}
