// Old versions of the leaves of a B-link tree, their times, and readers as of a time. The scheme
// follows chapter 4 of Awad's thesis and Wei et al., "Constant-time snapshots with applications to
// concurrent data structures" (PPoPP 2021). The host side is btree/past.go, which explains the
// differences.
//
// Each node has two words: the time at which its contents were written, and the node with its
// previous version. The versions of a leaf form a list. The head of the list is the leaf, which
// keeps its address. Before a leaf changes, its contents are copied to another node, unless no
// snapshot can read the contents.
#pragma once

#include "btree_change.cuh"
#include "epoch.cuh"
#include "inorder.cuh"

namespace weft::btree {

// kPastLevel is the level of old versions of leaves and of nodes in stacks.
constexpr uint32_t kPastLevel = kFreeLevel - 1;
constexpr uint64_t kUnset = 1ull << 63;          // a time not set yet, with a mark of its write
constexpr uint64_t kAlways = kUnset - 1;         // a time after all others
constexpr uint32_t kFreeStacks = 1024, kTriedStacks = 4;

// PastControl lies next to the words of the nodes.
struct alignas(128) PastControl {
  uint64_t clock;   // time of the next snapshot; begins at 1
  uint64_t copied;  // number of nodes that have been copied
  uint64_t reused;  // number of free nodes that have been taken again
  uint64_t unused[13];
  uint64_t stacks[kFreeStacks];  // free nodes: a count of changes (upper half), the first node
};

// Past describes the versions of a tree. It is passed to kernels by value.
struct Past {
  PastControl* control;
  uint64_t* words;  // per node: time; previous node (lower half) and leaf of this past (upper half)
  // Time of the newest snapshot of the host, or 0 if none. kAlways: kernels take snapshots.
  uint64_t newest;
  EpochRef epochs;
  // In users' kernels, the number of nodes that copies must leave. kNone: the host has reserved
  // enough nodes.
  uint32_t reserve;
  uint32_t stocked;  // the stacks may have free nodes
  // Number of nodes for copies that users' kernels share. A block has no more than its share.
  uint32_t pool;
  uint32_t unused;
};

__device__ __forceinline__ uint64_t* time_of(const Past& p, uint32_t id) { return p.words + 2 * uint64_t(id); }
__device__ __forceinline__ uint64_t* links_of(const Past& p, uint32_t id) { return time_of(p, id) + 1; }
__device__ __forceinline__ uint64_t link_words(uint32_t before, uint32_t of) { return uint64_t(of) << 32 | before; }

// ---- times -------------------------------------------------------------------

// date sets the time of a visible write unless the time is set already, and returns the time. The
// writer keeps its latch until the time is set. So a reader need not check a leaf without a latch.
// The clock is read after the write, and a snapshot reads leaves after it has advanced the clock.
// Both have a fence in between. So either the snapshot reads the write, or the write gets a time
// after the snapshot. A thread that reads a write without a time sets the time. Otherwise a later
// snapshot could miss a write that the thread has already read.
__device__ __forceinline__ uint64_t date(const Past& p, uint32_t id, uint64_t unset) {
  fence_sc();
  const uint64_t now = load_relaxed(&p.control->clock), was = cas_relaxed(time_of(p, id), unset, now);
  return was == unset ? now : was;
}

// snapshot advances the clock and returns the previous time. The snapshot contains the writes up to
// that time. Several concurrent snapshots may share one time.
__device__ __forceinline__ uint64_t snapshot(const Past& p) {
  const uint64_t now = load_relaxed(&p.control->clock);
  cas_relaxed(&p.control->clock, now, now + 1);
  fence_sc();
  return now;
}

// ---- free nodes --------------------------------------------------------------

// kBag is the number of copies per epoch that a block holds in shared memory. A group of a batch
// makes 256 copies. So kBag suffices for four groups, and epochs mostly last no longer.
constexpr uint32_t kBag = 1024;

// Free frees a node that no reader can be in. It is the functor that epochs call. A block mostly
// keeps the nodes that it has retired itself, as spare nodes. It pushes other nodes to one of
// several stacks, which all blocks share. The count of changes prevents a pop from taking a node
// that was popped and pushed again meanwhile.
struct Free {
  Tree t;
  Past p;
  EpochBlock<kBag>* block = nullptr;
  __device__ __forceinline__ void operator()(uint32_t id) const {
    if (block && block->keep(id)) return;
    uint64_t* head = &p.control->stacks[id % kFreeStacks];
    for (uint64_t was = load_relaxed(head), now;; was = now) {
      store_relaxed(time_of(p, id), uint64_t(uint32_t(was)));
      now = cas_release(head, was, ((was >> 32) + 1) << 32 | id);
      if (now == was) return;
    }
  }
};

// reuse pops a free node from one of a few stacks, or returns kNone if it finds none. If another
// thread changes a stack at the same time, reuse tries the next stack. Two threads could not pop
// faster from one stack.
__device__ __forceinline__ uint32_t reuse(const Past& p, uint32_t first) {
#pragma unroll 1
  for (uint32_t i = 0; i < kTriedStacks; i++) {
    uint64_t* head = &p.control->stacks[(first + i) % kFreeStacks];
    const uint64_t was = load_acquire(head);
    if (uint32_t(was) == kNone) continue;
    const uint64_t next = load_relaxed(time_of(p, uint32_t(was)));
    if (cas_acquire(head, was, ((was >> 32) + 1) << 32 | uint32_t(next)) == was) return uint32_t(was);
  }
  return kNone;
}

// ---- writers -----------------------------------------------------------------

// Kept is the past of a leaf before a change, and the node with the copy of the leaf.
struct Kept {
  uint64_t time = 0, links = 0;
  uint32_t copy = kNone;
};

// Versioned is the Past of a Writer on a tree with versions. If kernels take snapshots, the block
// retires copies in its epochs. Otherwise only snapshots of the host read copies, and copies go to
// the newest of these snapshots.
struct Versioned {
  static constexpr bool kKeeps = true;
  using Kept = btree::Kept;
  Past p;
  EpochBlock<kBag> block;
  uint32_t copied = 0;  // number of nodes that this lane has copied
  int32_t reused = 0;   // number of free nodes taken, minus those freed again unused

  __device__ __forceinline__ bool outside() const { return p.newest == kAlways; }
  __device__ __forceinline__ bool shares() const { return p.reserve != kNone; }

  // first returns a free node for the writer, or kNone. The writer tries it before it takes a new
  // node.
  __device__ __forceinline__ uint32_t first(uint32_t near) {
    uint32_t id = outside() ? block.take() : kNone;
    if (id == kNone && p.stocked) id = reuse(p, near);
    reused += id != kNone;
    return id;
  }
  // count adds what this tile did to the counters. All lanes of the warp call it.
  __device__ __forceinline__ void count() const {
    add_warp_sum(&p.control->copied, uint64_t(copied));
    add_warp_sum(&p.control->reused, uint64_t(int64_t(reused)));
    if (outside()) return;
    add_warp_sum(&p.epochs.control->retired, uint64_t(copied));
    add_warp_sum(&p.epochs.control->held, uint64_t(copied));
  }

  // of reads the past of a leaf, in one lane of the tile that holds the latch.
  __device__ __forceinline__ Kept of(uint32_t id) const {
    Kept k;
    k.time = load_acquire(time_of(p, id));
    if (k.time >= kUnset) k.time = date(p, id, k.time);
    k.links = load_relaxed(links_of(p, id));
    return k;
  }
  // begin sets the past of a node that no other thread can reach.
  __device__ __forceinline__ void begin(uint32_t id, const Kept& k) const {
    store_relaxed(time_of(p, id), k.time);
    store_relaxed(links_of(p, id), k.links);
  }
  // lead links a leaf to its copy, in one lane, after the leaf was marked as changing. It stores
  // the time last, because readers read the time first.
  __device__ __forceinline__ void lead(uint32_t id, const Kept& k, uint64_t time) const {
    if (k.copy != kNone) store_release(links_of(p, id), link_words(k.copy, id));
    store_release(time_of(p, id), time);
  }
  // write is lead for a change of pairs that results in `state`. It returns the time to pass to
  // date.
  __device__ __forceinline__ uint64_t write(uint32_t id, const Kept& k, uint32_t state) const {
    const uint64_t time = outside() ? kUnset | uint64_t(k.copy) << 20 | state / kVersion : load_relaxed(&p.control->clock);
    lead(id, k, time);
    return time;
  }
  __device__ __forceinline__ void drop(const Kept& k) {
    copied++;
    if (outside())
      block.retire(k.copy);
    else
      block.hold(k.copy);
  }
};

// ---- readers at a time ---------------------------------------------------------

// Then is a reader as of a time: a tile's path to the contents of a key's leaf at that time. The
// time kAlways is the present. A tile descends the present tree to the leaf that now has the key.
// The list of that leaf leads to the version that had the key at that time, no matter how leaves
// were split and merged since.
template <class S>
struct Then {
  using L = Lanes<S, false>;
  using Key = typename S::Key;
  const Tree& t;
  const Past& past;
  L l;
  uint64_t time;
  uint32_t at = kRoot;
  bool leaf = false;
  Key low = 0;        // the smallest key that the current leaf has now
  bool lost = false;  // low is unknown, because the path went to the left
  Node<S, false> node;
  uint32_t state = 0;

  __device__ __forceinline__ Then(const Tree& tree, const Past& p, uint64_t when) : t(tree), past(p), time(when) {}

  __device__ __forceinline__ void restart() { at = kRoot, leaf = lost = false, low = 0; }
  // proceed moves to the leaf on the right.
  __device__ __forceinline__ void proceed() {
    low = node.high(l);
    at = node.link(l);
    lost = false;
  }
  // least sets `key` to the first key of the range that the version covers. It returns false if
  // that key is unknown.
  __device__ __forceinline__ bool least(Key& key) const {
    const bool some = count_of(state) != 0;
    const Key first = S::key(node.word(l, 0));
    key = some && (lost || first < low) ? first : low;
    return some || !lost;
  }

  // find moves to the leaf of a key and reads it.
  __device__ __forceinline__ void find(Key key) {
    while (!(leaf ? look(key) : descend(key))) {
    }
  }

 private:
  __device__ __forceinline__ bool descend(Key key) {
    read(t, l, at, false, node, state);
    const uint32_t level = level_of(state);
    if (level == 0) {
      leaf = true;
    } else if (node.beyond(l, key)) {
      proceed();
    } else {
      Key least;
      at = node.child(l, key, least);
      low = least, lost = false;
      leaf = level == 1;
    }
    return false;
  }

  // look reads a leaf and its past in a consistent state, and then the leaf's version at the time.
  // It reports whether that version covers the key.
  __device__ __forceinline__ bool look(Key key) {
    l.sync();
    uint64_t* word = state_word<S>(t, at);
    const uint64_t first = load_acquire(word);
    node.load_acquire(t, at, l.rank);
    uint64_t when = load_acquire(time_of(past, at));
    uint64_t links = load_acquire(links_of(past, at));
    const uint64_t again = load_relaxed(word);
    state = node.state(l);
    const bool one = first == again && uint32_t(first >> 32) == state && !(state & kChanging);
    if (l.vote(!one)) return false;
    if (level_of(state) != 0) {  // the root was being split when the path led here
      leaf = false;
      return false;
    }
    when = settled(when);
    while (when > time) {
      // Old versions do not change, so one read suffices.
      const uint32_t before = l.share(uint32_t(links), 0);
      if (before == kNone) __builtin_trap();  // the version that this reader needs was freed
      l.sync();
      node.load_acquire(t, before, l.rank);
      when = l.share(load_acquire(time_of(past, before)), 0);
      links = load_acquire(links_of(past, before));
      state = node.state(l);
    }
    if (state & kDead) {  // its pairs have moved to the left neighbor
      at = node.link(l);
      lost = true;
      return false;
    }
    if (!node.beyond(l, key)) return true;
    proceed();
    return false;
  }

  // settled sets the time if it is not set, and returns the time to all lanes.
  __device__ __forceinline__ uint64_t settled(uint64_t when) const {
    if (l.vote(when >= kUnset) == 0) return l.share(when, 0);
    if (l.rank == 0 && when >= kUnset) when = date(past, at, when);
    return l.share(when, 0);
  }
};

}  // namespace weft::btree
