// Accounting for users' kernels that change a table: how many keys they may insert, and how many
// they have inserted.
#pragma once

#include "change.cuh"

namespace weft {

// Account counts the changes by users' kernels that are not included in their table's counters yet.
// It lies in device memory.
struct Account {
  uint32_t lost;     // changes that overflowed or were not permitted
  uint32_t unused;
  uint64_t tickets;  // insertions: completed in the upper half, admitted in the lower half
  uint64_t revived;  // insertions into dead slots
  uint64_t deleted;  // deleted pairs
};

// active_lanes returns the lanes that execute this call together. Other lanes of the warp may call
// it at another time.
__device__ __forceinline__ uint32_t active_lanes() {
  uint32_t lanes;
  asm volatile("activemask.b32 %0;" : "=r"(lanes)::"memory");
  return lanes;
}

// add_together adds `each` for every lane that calls it. Lanes that execute the call together use
// one atomic.
__device__ __forceinline__ void add_together(uint64_t* to, uint64_t each) {
  uint32_t lanes = active_lanes();
  if (lane_index() == lowest(lanes)) add_relaxed(to, each * popcount(lanes));
}

// Before a key enters a table, the change calls admit. admit returns kNothing if the key may enter,
// and record then receives the outcome. kFull means that no further key may enter. The change then
// swaps the slot with its own contents. If that succeeds, the slot is unchanged, and the key stays
// absent. (A thread records an insertion only after its swap has succeeded, and the swaps of a slot
// have one order.)

// Uncounted admits every key. Kernels use it if they count by themselves and the host has reserved
// the capacity.
struct Uncounted {
  __device__ __forceinline__ Outcome admit(bool) const { return kNothing; }
  __device__ __forceinline__ void record(bool, Outcome) const {}
};

// Quota issues tickets for `limit` insertions. A lane returns a ticket that it did not need. If all
// tickets are taken but some are not used yet, admit returns kAgain, and the lane retries. The
// lanes with these tickets need a few more instructions and wait for no other lane.
struct Quota {
  static constexpr uint64_t kUsed = uint64_t(1) << 32;
  Account* account;
  uint32_t limit;

  __device__ __forceinline__ Outcome admit(bool enters) const {
    if (!enters) return kNothing;
    // A waiting lane only reads. If all waiting lanes took tickets and returned them, a free ticket
    // would hardly ever be visible.
    uint64_t tickets = load_relaxed(&account->tickets);
    if (uint32_t(tickets) < limit) {
      tickets = take();
      if (uint32_t(tickets) < limit) return kNothing;
      add_relaxed(&account->tickets, ~uint64_t(0));
    }
    return tickets / kUsed >= limit ? kFull : kAgain;
  }
  __device__ __forceinline__ void record(bool enters, Outcome done) const {
    if (!enters) return;
    if (inserted(done)) add_together(&account->tickets, kUsed);
    else add_relaxed(&account->tickets, ~uint64_t(0));
    if (done == kRevived) add_together(&account->revived, 1);
  }

 private:
  // take takes a ticket for this lane. It returns the number of the ticket in the lower half, and
  // the number of completed insertions in the upper half.
  __device__ __forceinline__ uint64_t take() const {
    uint32_t lanes = active_lanes(), lane = lane_index(), first = lowest(lanes);
    uint64_t tickets = 0;
    if (lane == first) tickets = add_relaxed(&account->tickets, uint64_t(popcount(lanes)));
    return shuffle(lanes, tickets, first) + popcount(lanes & ((1u << lane) - 1));
  }
};

// settle adds an account, except for `lost`, to the counters of its table. It resets the numbers
// that it has added. No kernel may use the table meanwhile.
__device__ __forceinline__ void settle(Counters& counters, Account& account) {
  uint64_t inserted = account.tickets >> 32;
  counters.live += inserted - account.deleted;
  counters.used += inserted - account.revived;
  account.tickets = account.revived = account.deleted = 0;
}

}  // namespace weft
