// What leaves of a B-link tree were: versions, their times, and readers at a time. After chapter 4 of Awad's
// thesis and Wei et al., "Constant-time snapshots with applications to concurrent data structures" (PPoPP
// 2021). The host side is btree/past.go, which says what is different here.
//
// Beside each node lie two words: when what it has was written, and which node has what it was before. The
// head of such a list keeps its address. What a leaf was is copied to another node before the leaf is changed, or not
// at all where no snapshot can have it.
#pragma once

#include "btree_change.cuh"
#include "epoch.cuh"
#include "inorder.cuh"

namespace weft::btree {

constexpr uint32_t kPastLevel = kFreeLevel - 1;  // of nodes that are what a leaf was, and of those in stacks
constexpr uint64_t kUnset = 1ull << 63;          // a time that nobody has set yet, and which write it is of
constexpr uint64_t kAlways = kUnset - 1;         // a time behind all
constexpr uint32_t kFreeStacks = 1024, kTriedStacks = 4;

// PastControl lies beside the words.
struct alignas(128) PastControl {
  uint64_t clock;   // of the next snapshot; begins at 1
  uint64_t copied;  // nodes that have been copied
  uint64_t reused;  // nodes that were taken from the stacks
  uint64_t unused[13];
  uint64_t stacks[kFreeStacks];  // of free nodes: a count of changes above the first node
};

// Past is passed by value.
struct Past {
  PastControl* control;
  uint64_t* words;  // by node: time; the node before, and above it the one whose past this is
  uint64_t newest;  // time of the newest snapshot of the host, 0 if there is none; kAlways: kernels take snapshots
  EpochRef epochs;
  uint32_t reserve;  // nodes that copies leave, in kernels of users; kNone: the host has seen to it that there are enough
  uint32_t stocked;  // there may be free nodes in the stacks
  uint32_t pool;     // nodes for copies that kernels of users share: a block has no more than its part
  uint32_t unused;
};

__device__ __forceinline__ uint64_t* time_of(const Past& p, uint32_t id) { return p.words + 2 * uint64_t(id); }
__device__ __forceinline__ uint64_t* links_of(const Past& p, uint32_t id) { return time_of(p, id) + 1; }
__device__ __forceinline__ uint64_t link_words(uint32_t before, uint32_t of) { return uint64_t(of) << 32 | before; }

// ---- times -------------------------------------------------------------------

// date sets the time of a write that has been seen, unless somebody has. The writer keeps its latch until then, so who
// finds a leaf without one need not look. The clock is read behind
// the write, and a snapshot reads behind the clock; between both, two fences: either the snapshot sees
// the write, or the write sees the snapshot and is later. Whoever meets a write that has no time sets it,
// so that what has been read of it is not undone by a later snapshot.
__device__ __forceinline__ uint64_t date(const Past& p, uint32_t id, uint64_t unset) {
  fence_sc();
  const uint64_t now = load_relaxed(&p.control->clock), was = cas_relaxed(time_of(p, id), unset, now);
  return was == unset ? now : was;
}

// snapshot moves the clock on, and returns the time before: what was written up to then. Several at once may
// be one.
__device__ __forceinline__ uint64_t snapshot(const Past& p) {
  const uint64_t now = load_relaxed(&p.control->clock);
  cas_relaxed(&p.control->clock, now, now + 1);
  fence_sc();
  return now;
}

// ---- free nodes --------------------------------------------------------------

// Copies of an epoch that a block has in shared memory: of a batch's groups, which make 256, as many as an epoch mostly lasts.
constexpr uint32_t kBag = 1024;

// Free takes back nodes that no reader is in: a functor for epochs. What a block has retired is mostly for itself to
// spare. Others it pushes to one of some stacks, for all; the
// count of changes keeps who pops from taking one that has come and gone.
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

// reuse pops a free node from one of a few stacks, kNone if it meets none. Where others are at one too it goes on to the
// next: all of them together could not pop faster from it.
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

// Kept is what a leaf was before a change, and where it is now.
struct Kept {
  uint64_t time = 0, links = 0;
  uint32_t copy = kNone;
};

// Keeps is what a Writer does to the past. Where kernels take snapshots, copies are retired to the epochs of the
// block; else only snapshots of the host have them, and they go to the newest.
struct Keeps {
  static constexpr bool kKeeps = true;
  using Kept = btree::Kept;
  Past p;
  EpochBlock<kBag> block;
  uint32_t copied = 0;  // by this lane
  int32_t reused = 0;   // nodes that were free, less those that have been made so without being used

  __device__ __forceinline__ bool outside() const { return p.newest == kAlways; }
  __device__ __forceinline__ bool shares() const { return p.reserve != kNone; }

  // first is a node for the writer to take, before others.
  __device__ __forceinline__ uint32_t first(uint32_t near) {
    uint32_t id = outside() ? block.take() : kNone;
    if (id == kNone && p.stocked) id = reuse(p, near);
    reused += id != kNone;
    return id;
  }
  // count adds what this tile did to the counters; all lanes of the warp are there.
  __device__ __forceinline__ void count() const {
    add_up(&p.control->copied, uint64_t(copied));
    add_up(&p.control->reused, uint64_t(int64_t(reused)));
    if (outside()) return;
    add_up(&p.epochs.control->retired, uint64_t(copied));
    add_up(&p.epochs.control->held, uint64_t(copied));
  }

  // of is a leaf's past, by one lane that has the latch.
  __device__ __forceinline__ Kept of(uint32_t id) const {
    Kept k;
    k.time = load_acquire(time_of(p, id));
    if (k.time >= kUnset) k.time = date(p, id, k.time);
    k.links = load_relaxed(links_of(p, id));
    return k;
  }
  // begin gives a node that nobody knows the past of another.
  __device__ __forceinline__ void begin(uint32_t id, const Kept& k) const {
    store_relaxed(time_of(p, id), k.time);
    store_relaxed(links_of(p, id), k.links);
  }
  // lead leads from a leaf to its copy, by a lane, behind the mark that the leaf is being changed. The
  // time comes last, since it is read first.
  __device__ __forceinline__ void lead(uint32_t id, const Kept& k, uint64_t time) const {
    if (k.copy != kNone) store_release(links_of(p, id), link_words(k.copy, id));
    store_release(time_of(p, id), time);
  }
  // write is lead for a change of pairs, whose state will be another. It returns what date needs.
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

// Then is a tile's way to what the leaf of a key was at a time; kAlways is the present. The way down is
// the present one: whatever has become of a leaf, the lists of those that have its keys lead to what had them then.
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
  Key low = 0;        // the smallest key that the leaf on the way has now
  bool lost = false;  // low is not known: the way went to the left
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
  // least is a key from which on all that was there then has been read; false: it is not known.
  __device__ __forceinline__ bool least(Key& key) const {
    const bool some = count_of(state) != 0;
    const Key first = S::key(node.word(l, 0));
    key = some && (lost || first < low) ? first : low;
    return some || !lost;
  }

  // find goes on to a key, and reads.
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

  // look reads a leaf and its past as they were at one moment, and what it was at the time. It reports
  // whether that has the key.
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
      // What a leaf was is not changed any more: one reading is enough.
      const uint32_t before = l.share(uint32_t(links), 0);
      if (before == kNone) __builtin_trap();  // somebody has freed what this reader needs
      l.sync();
      node.load_acquire(t, before, l.rank);
      when = l.share(load_acquire(time_of(past, before)), 0);
      links = load_acquire(links_of(past, before));
      state = node.state(l);
    }
    if (state & kDead) {  // what it had lies on its left
      at = node.link(l);
      lost = true;
      return false;
    }
    if (!node.beyond(l, key)) return true;
    proceed();
    return false;
  }

  // settled is a time that is set, the same for all lanes.
  __device__ __forceinline__ uint64_t settled(uint64_t when) const {
    if (l.vote(when >= kUnset) == 0) return l.share(when, 0);
    if (l.rank == 0 && when >= kUnset) when = date(past, at, when);
    return l.share(when, 0);
  }
};

}  // namespace weft::btree
