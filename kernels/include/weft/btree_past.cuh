// Old versions of leaves of a B-link tree: their times, and readers at a time. The scheme follows
// chapter 4 of Awad's thesis and Wei et al., "Constant-time snapshots with applications to
// concurrent data structures" (PPoPP 2021). The host side is btree/past.go, which explains the
// differences.
//
// Each node has two words: the time at which its contents were written, and the node with its
// previous version. The head of such a list keeps its address. Before a leaf changes, its contents
// are copied to another node, unless no snapshot can read them.
#pragma once

#include "btree_change.cuh"
#include "epoch.cuh"
#include "inorder.cuh"

namespace weft::btree {

// of old versions of leaves, and of nodes in stacks
constexpr uint32_t kPastLevel = kFreeLevel - 1;
constexpr uint64_t kUnset = 1ull << 63;          // a time not set yet, and the write that it is for
constexpr uint64_t kAlways = kUnset - 1;         // a time after all others
constexpr uint32_t kFreeStacks = 1024, kTriedStacks = 4;

// PastControl lies next to the words.
struct alignas(128) PastControl {
  uint64_t clock;   // of the next snapshot; begins at 1
  uint64_t copied;  // nodes that have been copied
  uint64_t reused;  // nodes taken from the stacks
  uint64_t unused[13];
  uint64_t stacks[kFreeStacks];  // free nodes: a count of changes above the first node
};

// Past is passed by value.
struct Past {
  PastControl* control;
  uint64_t* words;  // by node: time; the previous node, and above it the owner of this past
  // Time of the newest snapshot of the host, or 0; kAlways: kernels take snapshots.
  uint64_t newest;
  EpochRef epochs;
  // Nodes that copies must leave, in users' kernels; kNone: the host has reserved enough.
  uint32_t reserve;
  uint32_t stocked;  // the stacks may have free nodes
  // Nodes for copies that users' kernels share: a block has no more than its share.
  uint32_t pool;
  uint32_t unused;
};

__device__ __forceinline__ uint64_t* time_of(const Past& p, uint32_t id) { return p.words + 2 * uint64_t(id); }
__device__ __forceinline__ uint64_t* links_of(const Past& p, uint32_t id) { return time_of(p, id) + 1; }
__device__ __forceinline__ uint64_t link_words(uint32_t before, uint32_t of) { return uint64_t(of) << 32 | before; }

// ---- times -------------------------------------------------------------------

// date sets the time of a write that has been seen, unless it is set. The writer keeps its latch
// until then, so a reader that finds a leaf without a latch need not check. The clock is read after
// the write, and a snapshot reads after the clock, with two fences in between. So either the
// snapshot sees the write, or the write sees the snapshot and is later. A thread that meets a write
// without a time sets it, so that a later snapshot does not undo what it has read.
__device__ __forceinline__ uint64_t date(const Past& p, uint32_t id, uint64_t unset) {
  fence_sc();
  const uint64_t now = load_relaxed(&p.control->clock), was = cas_relaxed(time_of(p, id), unset, now);
  return was == unset ? now : was;
}

// snapshot advances the clock, and returns the previous time: writes up to then are visible.
// Several concurrent snapshots may share one time.
__device__ __forceinline__ uint64_t snapshot(const Past& p) {
  const uint64_t now = load_relaxed(&p.control->clock);
  cas_relaxed(&p.control->clock, now, now + 1);
  fence_sc();
  return now;
}

// ---- free nodes --------------------------------------------------------------

// Copies of an epoch that a block holds in shared memory: a group of a batch makes 256, as many as
// an epoch mostly lasts.
constexpr uint32_t kBag = 1024;

// Free takes back nodes that no reader is in: a functor for epochs. A block mostly keeps the nodes
// that it has retired as its own spares. It pushes others to one of several stacks, for all blocks.
// The count of changes keeps a pop from taking a node that was popped and pushed meanwhile.
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
// thread is at a stack, it goes on to the next: together they could not pop faster from one.
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

// Kept is the past of a leaf before a change, and the node of its copy.
struct Kept {
  uint64_t time = 0, links = 0;
  uint32_t copy = kNone;
};

// Keeps is the Past of a Writer on a tree with versions. If kernels take snapshots, copies are
// retired to the epochs of the block. Otherwise only snapshots of the host read them, and they go
// to the newest.
struct Keeps {
  static constexpr bool kKeeps = true;
  using Kept = btree::Kept;
  Past p;
  EpochBlock<kBag> block;
  uint32_t copied = 0;  // by this lane
  int32_t reused = 0;   // nodes that were free, less those freed again unused

  __device__ __forceinline__ bool outside() const { return p.newest == kAlways; }
  __device__ __forceinline__ bool shares() const { return p.reserve != kNone; }

  // first returns a node for the writer to take, before new ones.
  __device__ __forceinline__ uint32_t first(uint32_t near) {
    uint32_t id = outside() ? block.take() : kNone;
    if (id == kNone && p.stocked) id = reuse(p, near);
    reused += id != kNone;
    return id;
  }
  // count adds what this tile did to the counters; all lanes of the warp call it.
  __device__ __forceinline__ void count() const {
    add_up(&p.control->copied, uint64_t(copied));
    add_up(&p.control->reused, uint64_t(int64_t(reused)));
    if (outside()) return;
    add_up(&p.epochs.control->retired, uint64_t(copied));
    add_up(&p.epochs.control->held, uint64_t(copied));
  }

  // of reads a leaf's past, in one lane that has the latch.
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
  // lead links a leaf to its copy, in one lane, after marking the leaf as changing. The time is
  // stored last, since it is read first.
  __device__ __forceinline__ void lead(uint32_t id, const Kept& k, uint64_t time) const {
    if (k.copy != kNone) store_release(links_of(p, id), link_words(k.copy, id));
    store_release(time_of(p, id), time);
  }
  // write is lead for a change of pairs that leads to `state`. It returns the argument for date.
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

// Then is a tile's path to the contents of a key's leaf at a time; kAlways is the present. It goes
// down the present tree: whatever has become of a leaf, the lists of the leaves with its keys lead
// to its version at that time.
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
  Key low = 0;        // the smallest key that the leaf at hand has now
  bool lost = false;  // low is unknown: the path went to the left
  Node<S, false> node;
  uint32_t state = 0;

  __device__ __forceinline__ Then(const Tree& tree, const Past& p, uint64_t when) : t(tree), past(p), time(when) {}

  __device__ __forceinline__ void restart() { at = kRoot, leaf = lost = false, low = 0; }
  // proceed goes on to the leaf on the right.
  __device__ __forceinline__ void proceed() {
    low = node.high(l);
    at = node.link(l);
    lost = false;
  }
  // least returns a key from which on all pairs of that time have been read, or false if it is
  // unknown.
  __device__ __forceinline__ bool least(Key& key) const {
    const bool some = count_of(state) != 0;
    const Key first = S::key(node.word(l, 0));
    key = some && (lost || first < low) ? first : low;
    return some || !lost;
  }

  // find goes to the leaf of a key, and reads it.
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

  // look reads a leaf and its past in a consistent state, and its version at the time. It reports
  // whether that covers the key.
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
    if (level_of(state) != 0) {  // the root was being split when it led here
      leaf = false;
      return false;
    }
    when = settled(when);
    while (when > time) {
      // Old versions do not change: reading them once is enough.
      const uint32_t before = l.share(uint32_t(links), 0);
      if (before == kNone) __builtin_trap();  // the version that this reader needs was freed
      l.sync();
      node.load_acquire(t, before, l.rank);
      when = l.share(load_acquire(time_of(past, before)), 0);
      links = load_acquire(links_of(past, before));
      state = node.state(l);
    }
    if (state & kDead) {  // its pairs have moved to its left neighbor
      at = node.link(l);
      lost = true;
      return false;
    }
    if (!node.beyond(l, key)) return true;
    proceed();
    return false;
  }

  // settled returns a time that is set, the same for all lanes.
  __device__ __forceinline__ uint64_t settled(uint64_t when) const {
    if (l.vote(when >= kUnset) == 0) return l.share(when, 0);
    if (l.rank == 0 && when >= kUnset) when = date(past, at, when);
    return l.share(when, 0);
  }
};

}  // namespace weft::btree
