// Accounting for users' kernels on a table: how many keys they may insert, and how many they have
// inserted.
#pragma once

#include "change.cuh"

namespace weft {

// Account holds what users' kernels have done since it was last added to their table's counters. It
// lies in device memory.
struct Account {
  uint32_t lost;     // changes that overflowed, or were not permitted
  uint32_t unused;
  uint64_t tickets;  // insertions: completed in the upper half, admitted in the lower
  uint64_t revived;  // insertions into dead slots
  uint64_t deleted;  // pairs
};

// active_lanes returns the lanes that execute this together: some of those that come.
__device__ __forceinline__ uint32_t active_lanes() {
  uint32_t lanes;
  asm volatile("activemask.b32 %0;" : "=r"(lanes)::"memory");
  return lanes;
}

// add_together adds a number for each lane that comes, with one atomic for those that execute it
// together.
__device__ __forceinline__ void add_together(uint64_t* to, uint64_t each) {
  uint32_t lanes = active_lanes();
  if (lane_index() == lowest(lanes)) add_relaxed(to, each * popcount(lanes));
}

// Counts are consulted before a key enters a table: admit returns kNothing if it may, and record
// receives the outcome. kFull means that no key enters any more: if a swap then finds the slot
// unchanged, the key stays absent. (A thread that records an insertion has seen its swap succeed,
// and swaps of a slot have one order.)

// Uncounted is for kernels that count by themselves. The host has made sure of the capacity.
struct Uncounted {
  __device__ __forceinline__ Outcome admit(bool) const { return kNothing; }
  __device__ __forceinline__ void record(bool, Outcome) const {}
};

// Quota hands out tickets for `limit` insertions. A ticket that proves needless is given back. So a
// lane that gets none while some are out retries: their holders need a few more instructions, and
// wait for no other lane.
struct Quota {
  static constexpr uint64_t kUsed = uint64_t(1) << 32;
  Account* account;
  uint32_t limit;

  __device__ __forceinline__ Outcome admit(bool enters) const {
    if (!enters) return kNothing;
    // A waiting lane only reads. If all lanes took tickets and gave them back, none would be
    // available for long.
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
  // take takes a ticket for this lane: its number, and how many had been used.
  __device__ __forceinline__ uint64_t take() const {
    uint32_t lanes = active_lanes(), lane = lane_index(), first = lowest(lanes);
    uint64_t tickets = 0;
    if (lane == first) tickets = add_relaxed(&account->tickets, uint64_t(popcount(lanes)));
    return shuffle(lanes, tickets, first) + popcount(lanes & ((1u << lane) - 1));
  }
};

// settle adds an account to the counters of its table, except lost, and resets it. No kernel works
// on the table meanwhile.
__device__ __forceinline__ void settle(Counters& counters, Account& account) {
  uint64_t inserted = account.tickets >> 32;
  counters.live += inserted - account.deleted;
  counters.used += inserted - account.revived;
  account.tickets = account.revived = account.deleted = 0;
}

}  // namespace weft
