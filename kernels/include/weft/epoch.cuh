// Epoch-based reclamation by blocks: a retired node is kept until no reader can be in it. The
// scheme follows DEBRA (Brown, PODC 2015) with blocks in place of processes, as in Awad's thesis
// (section 4.4.4). Package internal/epoch has the host side, the full explanation, and the twin of
// EpochRef.
//
//   __shared__ EpochBags<128> bags;
//   EpochBlock<128> epochs(p.epochs, &bags);
//   epochs.enter();                        // once
//   while (there is work) {
//     epochs.begin(free);                  // a group of operations; free(id) frees a node
//     ... epochs.retire(id) ...            // any thread, when no link leads to the node any more
//   }
//   epochs.leave();                        // once
//
// All threads of the block call enter, begin, end and leave. A group must not use what an earlier
// group has read from a structure.
//
// Memory order: a group announces its epoch (release, then fence_sc) before it reads the structure.
// A thread that scans the announcements has executed a fence_sc since it read the epoch that it
// looks for. So either the scan finds the announcement, or the group finds no link that was removed
// before that epoch began. A group's accesses come before the announcement that ends the group. The
// thread that advances the epoch acquires that announcement (acq_rel). The thread that frees nodes
// acquires the advance by its fence_sc.
#pragma once

#include "warp.cuh"

namespace weft {

constexpr uint32_t kEpochBags = 8;     // bags in device memory, selected by epoch
constexpr uint32_t kEpochStacks = 32;  // number of stacks per bag; one thread walks one stack
constexpr uint32_t kEpochLooks = 4;    // number of announcements that a thread reads per group
constexpr uint32_t kNoNode = ~0u;

// An announcement is vacant, or idle (its block is between two groups), or an epoch with the active
// bit.
constexpr uint64_t kEpochVacant = 0, kEpochIdle = 2, kEpochActive = 1;

// EpochControl lies at the beginning of the memory (twin: Control in internal/epoch).
struct alignas(128) EpochControl {
  uint64_t epoch;     // starts at 4
  uint64_t advanced;  // number of advances by kernels
  uint64_t retired;
  uint64_t freed;
  uint64_t held;  // number of nodes in the stacks of pins
  uint64_t unused[11];
  uint32_t bags[kEpochBags][kEpochStacks];  // the first node of each stack
};

// EpochRef describes the memory of a reclaimer. It is passed to kernels by value.
struct EpochRef {
  EpochControl* control;
  uint64_t* announced;  // a slot for each running block
  uint32_t* links;      // per node: the next node in its stack
  // Stacks of the newest pin, or nullptr. With a pin, nodes go to these stacks instead of being
  // freed.
  uint32_t* pin;
  // Shared memory that the previous block of each slot has left: the EpochLefts of all slots, then
  // four bags of nodes per slot.
  uint32_t* left;
  uint32_t slots;
  uint32_t size;        // capacity of a bag in left
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

// EpochBags is the shared memory of a block. It holds the nodes retired in this epoch and in the
// two before, and spare nodes.
template <uint32_t Size>
struct EpochBags {
  uint64_t epoch;    // announced epoch
  uint32_t current;  // index of the bag for this epoch
  uint32_t slot;     // index in the announcements
  uint32_t looked;   // number of slots that were found in the epoch or in none
  uint32_t active;
  uint32_t retired, freed, held;  // not added to the counters yet
  uint32_t known[3];              // part of count that is in the counters
  uint32_t count[4];              // may exceed Size: the rest is in device memory
  uint32_t ids[4][Size];
};

// epoch_push pushes a node onto a stack. The push is a release, so a thread that takes the stack
// also reads its links.
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

// epoch_give frees a node, or pushes it to the newest pin if one exists.
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

// epoch_drain empties `count` stacks and calls epoch_give for all their nodes. n threads share the
// work, and this thread is number i.
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

// epoch_collect frees nodes in a kernel that runs while no block is in a group. All threads of the
// kernel call it. It calls epoch_give for the nodes in `stacks`: the stacks of the bags, or those
// of a pin that has ended. With the bags, it also takes the nodes that blocks have left in their
// slots, except their spare nodes.
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

// epoch_enter announces the epoch in a separate slot. It protects the current nodes beyond the
// launch of its thread, until epoch_leave. Any thread that has the slot's number may call
// epoch_leave. At most two epochs end meanwhile.
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

// EpochBlock is one block's part of the reclamation. Its shared memory holds Size nodes per epoch.
template <uint32_t Size>
class EpochBlock {
 public:
  __device__ __forceinline__ EpochBlock(const EpochRef& ref, EpochBags<Size>* bags) : r(ref), b(bags) {}

  // enter takes a slot, and the nodes that the previous block of the slot has left. If no slot is
  // free, it waits until a block leaves. A block that has a slot does not wait for others.
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

  // begin ends the current group, if any, and begins another.
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

  // retire retires a node that no link leads to. Readers may still be in the node.
  __device__ __forceinline__ void retire(uint32_t id) {
    uint32_t bag = b->current, at = add_relaxed(shared(&b->count[0]) + bag, 1);
    if (at < Size) b->ids[bag][at] = id;
    else epoch_push(r, stack(b->epoch, id), id);
  }

  // hold pushes a node to the newest pin immediately, in kernels without groups. Only readers that
  // pins protect may be in the node. The caller counts the node as retired and held.
  __device__ __forceinline__ void hold(uint32_t id) { epoch_push(r, r.pin + id % kEpochStacks, id); }

  // end ends the group, for a block that does other work for a while.
  __device__ __forceinline__ void end() {
    sync_block();
    if (thread_in_block() == 0) {
      b->active = 0;
      store_release(r.announced + b->slot, kEpochIdle);
    }
    sync_block();
  }

  // keep stores a node as a spare node of this block. The functor that begin receives calls it. It
  // returns false if the bag is full.
  __device__ __forceinline__ bool keep(uint32_t id) {
    const uint32_t at = add_relaxed(shared(&b->count[kEpochSpare]), 1);
    if (at < Size) b->ids[kEpochSpare][at] = id;
    return at < Size;
  }
  // take returns a spare node, or kNoNode if none is left. Any thread may call it in a group.
  __device__ __forceinline__ uint32_t take() {
    const auto count = shared(&b->count[kEpochSpare]);
    if (int32_t(load_relaxed(count)) <= 0) return kNoNode;
    const int32_t n = int32_t(add_relaxed(count, ~0u));
    return n > 0 ? b->ids[kEpochSpare][n - 1] : kNoNode;
  }
  // spares returns the number of spare nodes. No thread may take or keep nodes meanwhile.
  __device__ __forceinline__ uint32_t spares() const { return b->count[kEpochSpare]; }

  // holds returns the number of nodes that the block has, retired or spare. No thread may take,
  // keep or retire nodes meanwhile.
  __device__ __forceinline__ uint32_t holds() const { return b->count[0] + b->count[1] + b->count[2] + spares(); }
  // room returns the number of nodes that can be retired in this epoch before some go to device
  // memory. No thread may retire nodes meanwhile.
  __device__ __forceinline__ uint32_t room() const { return Size - held_in(b->current); }

  // leave ends the group. The retired and the spare nodes stay for the next block of the slot. A
  // thread may add a node, and leave reports whether that node fit.
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

  // held_in returns the number of nodes of a bag that are in shared memory.
  __device__ __forceinline__ uint32_t held_in(uint32_t bag) const { return b->count[bag] < Size ? b->count[bag] : Size; }
  // trim corrects the number of spare nodes. A take from an empty bag and a keep into a full bag
  // have also changed it.
  __device__ __forceinline__ void trim() {
    const int32_t n = int32_t(b->count[kEpochSpare]);
    b->count[kEpochSpare] = n < 0 ? 0 : held_in(kEpochSpare);
  }

  // announce announces the current epoch for the group. It reads the epoch again after the fence,
  // and repeats if the epoch has changed. So the announced epoch was current after the
  // announcement. A node is therefore never retired in an epoch that all other blocks have left.
  // The fence also makes the previous read of the epoch an acquire.
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

  // rotate moves to the bag of a new epoch. No group uses nodes that were retired three epochs ago
  // any more. rotate frees or pins such nodes of this block, and those that any block has put into
  // device memory.
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

  // look reads a few announcements in each thread of the block. It advances the epoch when all
  // slots have been found in this epoch or in none.
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

  // pin_all pushes the nodes of a bag to the newest pin. Each of kEpochStacks threads links every
  // 32nd node into one list, and pushes the list. pin_all returns the number of this thread's
  // nodes.
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

  // account adds this block's numbers to the counters.
  __device__ __forceinline__ void account() {
    EpochControl* c = r.control;
    if (b->retired != 0) add_relaxed(&c->retired, uint64_t(b->retired));
    if (b->freed != 0) add_relaxed(&c->freed, uint64_t(b->freed));
    if (b->held != 0) add_relaxed(&c->held, uint64_t(b->held));
    b->retired = b->freed = b->held = 0;
  }

  const EpochRef r;
  EpochBags<Size>* const b;
  uint64_t last = 0;  // epoch of the previous group
};

}  // namespace weft
