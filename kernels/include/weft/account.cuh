// What kernels of users do to a table: how many keys they may insert, and how many
// they have.
#pragma once

#include "change.cuh"

namespace weft {

// Account is what kernels of users have done since their table's counters took
// account of it. It lies in device memory.
struct Account {
  uint32_t lost;     // changes that found no room, or were not permitted
  uint32_t unused;
  uint64_t tickets;  // of insertions: used in the upper half, given in the lower
  uint64_t revived;  // insertions into dead slots
  uint64_t deleted;  // pairs
};

// active_lanes are those that are here together: some of those that come.
__device__ __forceinline__ uint32_t active_lanes() {
  uint32_t lanes;
  asm volatile("activemask.b32 %0;" : "=r"(lanes)::"memory");
  return lanes;
}

// add_together adds a number for each lane that comes, by one atomic for those
// that are here together.
__device__ __forceinline__ void add_together(uint64_t* to, uint64_t each) {
  uint32_t lanes = active_lanes();
  if (lane_index() == lowest(lanes)) add_relaxed(to, each * popcount(lanes));
}

// What counts is asked before a key enters a table: admit returns kNothing if it may,
// and record is told what has come of it. kFull means that no key enters any more: if
// a swap then finds the slot as it was, the key stays absent. (Who records that it has
// entered has seen its swap succeed, and swaps of a slot have one order.)

// Uncounted is for kernels whose host has seen to the room, and which count by
// themselves.
struct Uncounted {
  __device__ __forceinline__ Outcome admit(bool) const { return kNothing; }
  __device__ __forceinline__ void record(bool, Outcome) const {}
};

// Quota gives tickets to so many insertions. One that turns out to be needless is
// given back, so whoever gets none while some are out tries again: those who have
// one need a few more instructions, and wait for nobody.
struct Quota {
  static constexpr uint64_t kUsed = uint64_t(1) << 32;
  Account* account;
  uint32_t limit;

  __device__ __forceinline__ Outcome admit(bool enters) const {
    if (!enters) return kNothing;
    // Who waits only looks: if all took tickets and gave them back, there would be
    // none to be had for long.
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
  // take gives this lane a ticket: its number, and how many had been used.
  __device__ __forceinline__ uint64_t take() const {
    uint32_t lanes = active_lanes(), lane = lane_index(), first = lowest(lanes);
    uint64_t tickets = 0;
    if (lane == first) tickets = add_relaxed(&account->tickets, uint64_t(popcount(lanes)));
    return shuffle(lanes, tickets, first) + popcount(lanes & ((1u << lane) - 1));
  }
};

// settle adds an account to the counters of its table, but for what was lost, and
// begins it anew. No kernel works on the table meanwhile.
__device__ __forceinline__ void settle(Counters& counters, Account& account) {
  uint64_t inserted = account.tickets >> 32;
  counters.live += inserted - account.deleted;
  counters.used += inserted - account.revived;
  account.tickets = account.revived = account.deleted = 0;
}

}  // namespace weft
