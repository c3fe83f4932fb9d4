// Epoch-based reclamation by blocks: retired nodes are kept until no reader can be in them. The
// scheme follows DEBRA (Brown, PODC 2015) with blocks in place of processes, as in Awad's thesis
// (section 4.4.4). Package internal/epoch has the host side, the full explanation, and the twin of
// EpochRef.
//
//   __shared__ EpochBags<128> bags;
//   EpochBlock<128> epochs(p.epochs, &bags);
//   epochs.enter();                        // once
//   while (there is work) {
//     epochs.begin(free);                  // a group of operations; free(id) takes a node back
//     ... epochs.retire(id) ...            // any thread, when no link leads to the node any more
//   }
//   epochs.leave();                        // once
//
// All threads of the block call enter, begin, end and leave. A group must not use anything that an
// earlier group has read of a structure.
//
// Order. The announcement (release, then fence_sc) precedes what the group reads. A thread that
// scans the announcements has executed a fence_sc since it saw the epoch that it looks for. So
// either it sees the announcement, or the block sees every link that was gone when that epoch
// began. A group's accesses precede the announcement that ends the group. The thread that advances
// the epoch acquires that announcement (acq_rel), and the thread that frees acquires the advance
// through that fence.
#pragma once

#include "warp.cuh"

namespace weft {

constexpr uint32_t kEpochBags = 8;     // by epoch, in device memory
constexpr uint32_t kEpochStacks = 32;  // per bag, so that as many threads walk it
constexpr uint32_t kEpochLooks = 4;    // announcements that a thread reads per group
constexpr uint32_t kNoNode = ~0u;

// A slot of the announcements holds nothing, a block between two groups, or an epoch and a bit.
constexpr uint64_t kEpochVacant = 0, kEpochIdle = 2, kEpochActive = 1;

// EpochControl lies at the beginning of the memory (twin: control in internal/epoch).
struct alignas(128) EpochControl {
  uint64_t epoch;     // starts at 4
  uint64_t advanced;  // number of advances by kernels
  uint64_t retired;
  uint64_t freed;
  uint64_t held;  // nodes in the stacks of pins
  uint64_t unused[11];
  uint32_t bags[kEpochBags][kEpochStacks];  // first nodes
};

// EpochRef is passed by value to kernels.
struct EpochRef {
  EpochControl* control;
  uint64_t* announced;  // a slot for each running block
  uint32_t* links;      // by node: the next one in its stack
  // Stacks of the newest pin, which take nodes instead of freeing them; or nullptr.
  uint32_t* pin;
  // By slot, the shared memory of the previous block: all EpochLefts, then the nodes of four bags
  // per slot.
  uint32_t* left;
  uint32_t slots;
  uint32_t size;        // nodes of a bag in left
};

constexpr uint32_t kEpochSpare = 3;  // the bag of a block's own free nodes

// EpochLeft is what a block leaves to the next block of its slot, in addition to nodes.
struct EpochLeft {
  uint64_t epoch;
  uint32_t current;
  uint32_t count[4];
  uint32_t unused;
};

__device__ __forceinline__ EpochLeft* epoch_left(const EpochRef& r, uint32_t slot) {
  return reinterpret_cast<EpochLeft*>(r.left) + slot;
}
__device__ __forceinline__ uint32_t* epoch_left_ids(const EpochRef& r, uint32_t slot, uint32_t bag) {
  return reinterpret_cast<uint32_t*>(epoch_left(r, r.slots)) + (uint64_t(slot) * 4 + bag) * r.size;
}

// EpochBags is a block's shared memory: the nodes that it has retired in this epoch and the two
// before, and its spare nodes.
template <uint32_t Size>
struct EpochBags {
  uint64_t epoch;    // announced
  uint32_t current;  // the bag of epoch
  uint32_t slot;     // in the announcements
  uint32_t looked;   // slots seen to be in the epoch, or in none
  uint32_t active;
  uint32_t retired, freed, held;  // not counted yet
  uint32_t known[3];              // part of count that has been counted
  uint32_t count[4];              // may exceed Size: the rest is in device memory
  uint32_t ids[4][Size];
};

// epoch_push pushes a node onto a stack. It releases, so that whoever takes the stack sees the
// links.
__device__ __forceinline__ void epoch_push(const EpochRef& r, uint32_t* stack, uint32_t id) {
  uint32_t head = load_relaxed(stack), was;
  for (;;) {
    r.links[id] = head;
    was = cas_release(stack, head, id);
    if (was == head) return;
    head = was;
  }
}

// EpochCount counts the nodes freed and held.
struct EpochCount {
  uint32_t freed = 0, held = 0;
};

// epoch_give frees a node, or pushes it to the newest pin.
template <typename Free>
__device__ __forceinline__ void epoch_give(const EpochRef& r, uint32_t id, Free& free, EpochCount& n) {
  if (r.pin) {
    epoch_push(r, r.pin + id % kEpochStacks, id);
    n.held++;
  } else {
    free(id);
    n.freed++;
  }
}

// epoch_drain takes stacks and gives all their nodes, by n threads. This one is number i.
template <typename Free>
__device__ __forceinline__ void epoch_drain(const EpochRef& r, uint32_t* stacks, uint32_t count, uint64_t i, uint64_t n,
                                            Free& free, EpochCount& total) {
  for (; i < count; i += n) {
    if (load_relaxed(stacks + i) == kNoNode) continue;
    uint32_t id = exchange_acquire(stacks + i, kNoNode);
    while (id != kNoNode) {
      uint32_t next = r.links[id];
      epoch_give(r, id, free, total);
      id = next;
    }
  }
}

// epoch_collect is the work of a kernel that runs while no block is in a group, by all of its
// threads. It gives the nodes in stacks: those of the bags, or those of a pin that has ended. With
// the bags it also gives what blocks have left in their slots, except their spare nodes.
template <typename Free>
__device__ __forceinline__ void epoch_collect(const EpochRef& r, uint32_t* stacks, uint32_t count, Free free) {
  EpochCount total;
  bool ended = stacks != &r.control->bags[0][0];
  epoch_drain(r, stacks, count, thread_index(), threads_in_grid(), free, total);
  for (uint64_t i = thread_index(); !ended && i < uint64_t(r.slots) * 3; i += threads_in_grid()) {
    const uint32_t slot = uint32_t(i / 3), bag = uint32_t(i % 3), n = epoch_left(r, slot)->count[bag];
    for (uint32_t k = 0; k < n; k++) epoch_give(r, epoch_left_ids(r, slot, bag)[k], free, total);
    if (n != 0) epoch_left(r, slot)->count[bag] = 0;
  }
  uint64_t freed = total.freed, held = total.held;
  if (ended) held -= total.freed + total.held;  // they were counted as held
  if (freed != 0) add_relaxed(&r.control->freed, freed);
  if (held != 0) add_relaxed(&r.control->held, held);
}

// epoch_enter announces the epoch in a separate slot, for a thread that protects the current nodes
// beyond its launch. The protection lasts until epoch_leave, which any thread that has the slot may
// call. At most two epochs end meanwhile.
__device__ __forceinline__ uint32_t epoch_enter(const EpochRef& r) {
  uint32_t at = block_index() % r.slots;
  while (cas_relaxed(r.announced + at, kEpochVacant, kEpochIdle) != kEpochVacant) {
    at = at + 1 == r.slots ? 0 : at + 1;
    pause(100);
  }
  uint64_t now = load_relaxed(&r.control->epoch);
  for (uint64_t seen = 0; seen != now;) {
    seen = now;
    store_release(r.announced + at, seen << 1 | kEpochActive);
    fence_sc();
    now = load_relaxed(&r.control->epoch);
  }
  return at;
}
__device__ __forceinline__ void epoch_leave(const EpochRef& r, uint32_t slot) { store_release(r.announced + slot, kEpochVacant); }

// EpochBlock is a block's part in reclamation. Shared memory holds Size nodes of an epoch.
template <uint32_t Size>
class EpochBlock {
 public:
  __device__ __forceinline__ EpochBlock(const EpochRef& ref, EpochBags<Size>* bags) : r(ref), b(bags) {}

  // enter takes a slot, and the nodes that the block before has left there. A slot becomes free
  // when a block that has one leaves, and that block does not wait.
  __device__ __forceinline__ void enter() {
    if (thread_in_block() == 0) {
      uint32_t at = block_index() % r.slots;
      while (cas_acquire(r.announced + at, kEpochVacant, kEpochIdle) != kEpochVacant) {
        at = at + 1 == r.slots ? 0 : at + 1;
        pause(100);
      }
      if (r.size != Size) __builtin_trap();  // the host has allocated for another size
      const EpochLeft* before = epoch_left(r, at);
      b->slot = at;
      b->epoch = before->epoch;
      b->current = before->current;
      b->looked = b->active = 0;
      b->retired = b->freed = b->held = 0;
      for (uint32_t i = 0; i < 4; i++) b->count[i] = before->count[i];
      for (uint32_t i = 0; i < 3; i++) b->known[i] = before->count[i];
    }
    sync_block();
    last = b->epoch;
    for (uint32_t bag = 0; bag < 4; bag++)
      for (uint32_t i = thread_in_block(); i < b->count[bag]; i += threads_per_block()) b->ids[bag][i] = epoch_left_ids(r, b->slot, bag)[i];
  }

  // begin ends the group before, if any, and begins another.
  template <typename Free>
  __device__ __forceinline__ void begin(Free free) {
    sync_block();
    if (thread_in_block() == 0) {
      trim();
      announce();
    }
    sync_block();
    const uint64_t now = b->epoch;
    if (now != last) rotate(now, free);
    last = now;
    look(now);
  }

  // retire gives up a node that no link leads to. Readers in it may stay.
  __device__ __forceinline__ void retire(uint32_t id) {
    uint32_t bag = b->current, at = add_relaxed(shared(&b->count[0]) + bag, 1);
    if (at < Size) b->ids[bag][at] = id;
    else epoch_push(r, stack(b->epoch, id), id);
  }

  // hold pushes a node to the newest pin at once, for kernels without groups, when only readers
  // that pins protect can be in it. The caller counts it as retired and held.
  __device__ __forceinline__ void hold(uint32_t id) { epoch_push(r, r.pin + id % kEpochStacks, id); }

  // end ends the group, for a block that does something else for a while.
  __device__ __forceinline__ void end() {
    sync_block();
    if (thread_in_block() == 0) {
      b->active = 0;
      store_release(r.announced + b->slot, kEpochIdle);
    }
    sync_block();
  }

  // keep stores a spare node of this block, in a functor for begin. It returns false if the bag is
  // full.
  __device__ __forceinline__ bool keep(uint32_t id) {
    const uint32_t at = add_relaxed(shared(&b->count[kEpochSpare]), 1);
    if (at < Size) b->ids[kEpochSpare][at] = id;
    return at < Size;
  }
  // take returns a spare node, or kNoNode, in a group, by any thread.
  __device__ __forceinline__ uint32_t take() {
    const auto count = shared(&b->count[kEpochSpare]);
    if (int32_t(load_relaxed(count)) <= 0) return kNoNode;
    const int32_t n = int32_t(add_relaxed(count, ~0u));
    return n > 0 ? b->ids[kEpochSpare][n - 1] : kNoNode;
  }
  // spares returns the number of spare nodes, while no thread takes or keeps any.
  __device__ __forceinline__ uint32_t spares() const { return b->count[kEpochSpare]; }

  // holds returns the number of nodes that the block has, retired or spare, while no thread takes,
  // keeps or retires any.
  __device__ __forceinline__ uint32_t holds() const { return b->count[0] + b->count[1] + b->count[2] + spares(); }
  // room returns how many nodes can be retired in this epoch before some go to device memory, while
  // no thread retires any.
  __device__ __forceinline__ uint32_t room() const { return Size - held_in(b->current); }

  // leave ends the group, and leaves the retired and the spare nodes to the next block of the slot,
  // and a node of this thread, if it has one. It reports whether that node fit.
  __device__ __forceinline__ bool leave(uint32_t id = kNoNode) {
    sync_block();
    if (thread_in_block() == 0) trim();
    sync_block();
    const bool kept = id != kNoNode && keep(id);
    sync_block();
    for (uint32_t bag = 0; bag < 4; bag++) {
      const uint32_t n = held_in(bag);
      for (uint32_t i = thread_in_block(); i < n; i += threads_per_block()) epoch_left_ids(r, b->slot, bag)[i] = b->ids[bag][i];
    }
    sync_block();
    if (thread_in_block() == 0) {
      EpochLeft* to = epoch_left(r, b->slot);
      to->epoch = b->epoch;
      to->current = b->current;
      for (uint32_t i = 0; i < 4; i++) to->count[i] = held_in(i);
      for (uint32_t i = 0; i < 3; i++) b->retired += b->count[i] - b->known[i];
      account();
      store_release(r.announced + b->slot, kEpochVacant);
    }
    return kept;
  }

 private:
  __device__ __forceinline__ uint32_t* stack(uint64_t epoch, uint32_t id) const {
    return &r.control->bags[epoch % kEpochBags][id % kEpochStacks];
  }

  // held_in returns how many nodes of a bag are in shared memory.
  __device__ __forceinline__ uint32_t held_in(uint32_t bag) const { return b->count[bag] < Size ? b->count[bag] : Size; }
  // trim corrects the number of spare nodes: a take from an empty bag and a keep into a full one
  // have changed it.
  __device__ __forceinline__ void trim() {
    const int32_t n = int32_t(b->count[kEpochSpare]);
    b->count[kEpochSpare] = n < 0 ? 0 : held_in(kEpochSpare);
  }

  // announce announces the epoch that the group sees. It reads the epoch again after the fence, so
  // that the epoch has not ended for longer than it takes to announce the next. So a node is never
  // retired in an epoch that all others have left. The fence makes an acquire of the read before
  // it, too.
  __device__ __forceinline__ void announce() {
    uint64_t now = load_relaxed(&r.control->epoch);
    if (b->active && now == b->epoch) return;
    for (uint64_t seen = 0; seen != now;) {
      seen = now;
      store_release(r.announced + b->slot, seen << 1 | kEpochActive);
      fence_sc();
      now = load_relaxed(&r.control->epoch);
    }
    b->active = 1;
    if (b->epoch == now) return;
    b->looked = 0;
    b->epoch = now;
  }

  // rotate moves to the bag of a new epoch. Nodes retired three epochs ago are in no group any
  // more: those of this block, and those of that epoch in device memory, whoever put them there.
  template <typename Free>
  __device__ __forceinline__ void rotate(uint64_t now, Free& free) {
    const uint32_t steps = now - last < 3 ? uint32_t(now - last) : 3, current = b->current;
    EpochCount total;
    for (uint32_t k = 1; k <= steps; k++) {
      const uint32_t bag = (current + k) % 3, n = held_in(bag);
      if (r.pin) {
        total.held += pin_all(bag);
        continue;
      }
      for (uint32_t i = thread_in_block(); i < n; i += threads_per_block()) free(b->ids[bag][i]), total.freed++;
    }
    epoch_drain(r, stack(now - 3, 0), kEpochStacks, thread_in_block(), threads_per_block(), free, total);
    if (total.freed != 0) add_relaxed(shared(&b->freed), total.freed);
    if (total.held != 0) add_relaxed(shared(&b->held), total.held);
    sync_block();
    if (thread_in_block() == 0) {
      for (uint32_t k = 1; k <= steps; k++) {
        uint32_t bag = (current + k) % 3;
        b->retired += b->count[bag] - b->known[bag];
        b->count[bag] = b->known[bag] = 0;
      }
      trim();
      b->current = (current + steps) % 3;
      account();
    }
    sync_block();
  }

  // look reads some announcements per thread of the block. It advances the epoch when all have been
  // seen in it, or in none.
  __device__ __forceinline__ void look(uint64_t now) {
    const uint32_t looked = b->looked, i = looked + thread_in_block();
    bool late = false;
#pragma unroll
    for (uint32_t k = 0; k < kEpochLooks; k++) {
      const uint32_t at = i + k * threads_per_block();
      const uint64_t w = at < r.slots ? load_acquire(r.announced + at) : kEpochVacant;
      late = late || (w != kEpochVacant && w != kEpochIdle && w != (now << 1 | kEpochActive));
    }
    if (count_block(late) != 0 || thread_in_block() != 0) return;
    b->looked = looked + kEpochLooks * threads_per_block();
    if (b->looked < r.slots) return;
    b->looked = 0;
    if (cas_acq_rel(&r.control->epoch, now, now + 1) == now) add_relaxed(&r.control->advanced, uint64_t(1));
  }

  // pin_all pushes a bag to the newest pin: each of kEpochStacks threads links every 32nd node into
  // one piece. It returns the number of this thread's nodes.
  __device__ __forceinline__ uint32_t pin_all(uint32_t bag) {
    const uint32_t n = held_in(bag);
    uint32_t mine = 0;
    for (uint32_t i = thread_in_block(); i < kEpochStacks && i < n; i += threads_per_block()) {
      uint32_t first = b->ids[bag][i], id = first;
      mine++;
      for (uint32_t k = i + kEpochStacks; k < n; k += kEpochStacks) {
        uint32_t next = b->ids[bag][k];
        r.links[id] = next;
        id = next;
        mine++;
      }
      uint32_t head = load_relaxed(r.pin + i), was;
      for (;; head = was) {
        r.links[id] = head;
        was = cas_release(r.pin + i, head, first);
        if (was == head) break;
      }
    }
    return mine;
  }

  // account adds to the counters.
  __device__ __forceinline__ void account() {
    EpochControl* c = r.control;
    if (b->retired != 0) add_relaxed(&c->retired, uint64_t(b->retired));
    if (b->freed != 0) add_relaxed(&c->freed, uint64_t(b->freed));
    if (b->held != 0) add_relaxed(&c->held, uint64_t(b->held));
    b->retired = b->freed = b->held = 0;
  }

  const EpochRef r;
  EpochBags<Size>* const b;
  uint64_t last = 0;  // epoch of the group before
};

}  // namespace weft
