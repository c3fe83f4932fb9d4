// SlabAlloc, a warp-cooperative allocator of units of one size (Ashkiani,
// Farach-Colton and Owens, "A Dynamic Hash Table for the GPU", section V). The
// host side is package alloc; Ref is the twin of Allocator.
//
//
// Super blocks hold memory blocks. A memory block holds 1024 units and a bitmap of 32 words of 32
// bits, one per lane. An owner has memory blocks of a pool that no other owner takes units from. A
// warp keeps the bitmap of one memory block, its resident, in registers and takes units by setting
// bits in it. When its resident is full it moves to another by a hash.
//
// Allocating and releasing order nothing else. A thread that writes into a unit and releases it,
// and may see it allocated again in the same launch, needs a fence before release. After allocate
// it needs a fence of all lanes and then sync_warp: the lane that took the unit is not the one that
// gets it. (A slab that was never written, or that is released in a separate launch, needs none.)
//
// The pool grows while kernels run. A kernel that was launched earlier may read, in memory that
// others change, the address of a unit that was added later. Its super block was entered in the
// table, and the unit filled with ones, before the kernel that took it, but in no order with this
// one. So a thread that publishes such an address calls publish before, and one that reads it calls
// meet after. Neither costs more than a comparison while no such units exist.
#pragma once

#include "hash.cuh"
#include "warp.cuh"

namespace weft {

// A unit's address: super block (8 bits), memory block (14), unit (10). At most 255 super blocks
// exist, so the last addresses are unused.
constexpr uint32_t kNoUnit = ~0u;

// sync_lanes is sync_warp for some lanes, all of which must call it.
__device__ __forceinline__ void sync_lanes(uint32_t mask) { asm volatile("bar.warp.sync %0;" ::"r"(mask) : "memory"); }

// Allocator is passed by value to kernels.
struct Allocator {
  const uint64_t* supers;  // addresses of the super blocks, or 0
  uint8_t* light;          // address of the first if they are contiguous, else null
  // First units of the owner's memory blocks; null: the pool's first ones, in order.
  const uint32_t* list;
  uint32_t count;          // memory blocks to take units from
  uint32_t tries;          // memory blocks to move to before giving up
  uint32_t blocks;         // memory blocks in each super block
  uint32_t unit;           // bytes
  uint32_t known;          // end of the units that existed before the launch
  uint32_t old;            // end of the units that existed before any launch

  static constexpr uint32_t kBitmapBytes = 128, kUnits = 1024, kSupers = 255;

  // The light variant (section V) saves one memory access, mostly to L1.
  __device__ __forceinline__ uint8_t* super(uint32_t i) const {
    if (light) return light + i * (uint64_t(blocks) * (kBitmapBytes + kUnits * unit));
    return reinterpret_cast<uint8_t*>(supers[i]);
  }
  __device__ __forceinline__ void* at(uint32_t address) const {
    return super(address >> 24) + uint64_t(blocks) * kBitmapBytes + uint64_t(address & 0xffffff) * unit;
  }
  // bitmap returns the word with the bit of a unit.
  __device__ __forceinline__ uint32_t* bitmap(uint32_t address) const {
    return reinterpret_cast<uint32_t*>(super(address >> 24)) + (address & 0xffffff) / 32;
  }
  // has reports whether the owner has a unit of that address; if it has a list, whether the pool
  // has one.
  __device__ __forceinline__ bool has(uint32_t address) const {
    if ((address & 0xffffff) >= blocks * kUnits) return false;
    return list ? address >> 24 < kSupers && load_relaxed(supers + (address >> 24)) != 0 : address < known;
  }
  // block returns the first unit of the owner's memory block number i.
  __device__ __forceinline__ uint32_t block(uint32_t i) const {
    return list ? list[i] : (i / blocks) << 24 | (i % blocks) << 10;
  }

  // publish comes before the relaxed write by which this thread lets others find a unit. meet comes
  // after the relaxed read by which one of these lanes of the warp, all of which call it, has found
  // it. The fences make a release of the write and an acquire of the read. The launch that took the
  // unit is ordered after what the host did before; with meet, so is what the lanes do next.
  __device__ __forceinline__ void publish(uint32_t address) const {
    if (address >= old) fence();
  }
  __device__ __forceinline__ void meet(uint32_t address, uint32_t lanes) const {
    if (!young(address)) return;
    fence();
    sync_lanes(lanes);
  }
  // young reports whether an address is that of a unit that requires meet.
  __device__ __forceinline__ bool young(uint32_t address) const { return address - known < kNoUnit - known; }
};

// Resident is a warp's memory block, initially none.
struct Resident {
  uint32_t first = kNoUnit;  // address of the block's first unit
  uint32_t taken = kAll;     // this lane's word of the bitmap, as last seen
  uint32_t changes = 0;

  // After kHashed hashed blocks, a warp visits all of them in order: with as many further tries as
  // blocks, it misses no free unit.
  static constexpr uint32_t kHashed = 32;

  // block returns the number of the memory block that a worker moves to next.
  __device__ static __forceinline__ uint32_t block(const Allocator& a, uint32_t worker, uint32_t changes) {
    // The changes of a worker have distinct numbers: hash is a bijection.
    uint32_t i = reduce(hash(worker * (kHashed + 1) + (changes < kHashed ? changes : kHashed), 0), a.count);
    if (changes >= kHashed) i = (i + (changes - kHashed)) % a.count;
    return i;
  }
  // change moves to another block.
  __device__ __forceinline__ void change(const Allocator& a) {
    uint32_t i = block(a, uint32_t(thread_index() / kWarp), changes);
    changes++;
    first = a.block(i);
    taken = load_relaxed(a.bitmap(first) + lane_index());
  }
};

// first_bits returns the n lowest set bits of x, or all of them.
__device__ __forceinline__ uint32_t first_bits(uint32_t x, uint32_t n) {
  uint32_t rest = x;
#pragma unroll 1
  while (n-- != 0 && rest != 0) rest &= rest - 1;
  return x ^ rest;
}

// allocate returns a unit to each lane that wants one, or kNoUnit if none was found. All lanes of
// the warp must call it. One atomic serves as many lanes as its word has free units.
__device__ __forceinline__ uint32_t allocate(const Allocator& a, Resident& r, bool wants) {
  const uint32_t lane = lane_index();
  // Warps that share a block begin at different words of it.
  const uint32_t turn = uint32_t(thread_index() / kWarp) % 32;
  uint32_t queue = ballot(kAll, wants), unit = kNoUnit, tries = 0;
  while (queue != 0) {
    uint32_t free = ballot(kAll, r.taken != kAll);
    if (free == 0) {
      if (tries++ == a.tries || a.count == 0) break;
      r.change(a);
      continue;
    }
    uint32_t turned = free >> turn | uint32_t(uint64_t(free) << (32 - turn));
    uint32_t from = (lowest(turned) + turn) % 32, got = 0;
    if (lane == from) {
      uint32_t ask = first_bits(~r.taken, popcount(queue));
      uint32_t was = or_relaxed(a.bitmap(r.first) + lane, ask);
      r.taken = was | ask;
      got = ask & ~was;
    }
    got = shuffle(kAll, got, from);
    // The first lanes of the queue get the first bits.
    uint32_t place = popcount(queue & ((1u << lane) - 1));
    bool served = (queue >> lane & 1) != 0 && place < popcount(got);
    if (served) unit = r.first + from * 32 + lowest(got ^ first_bits(got, place));
    queue ^= ballot(kAll, served);
  }
  return unit;
}

// allocate_alone returns a unit to this lane, or kNoUnit if it has found none, whatever its
// neighbors do. It begins its search anew each time, so warps that take many units should use a
// Resident.
__device__ __forceinline__ uint32_t allocate_alone(const Allocator& a) {
  const uint32_t me = uint32_t(thread_index());
  const uint32_t tries = a.count == 0 ? 0 : a.tries;
#pragma unroll 1
  for (uint32_t changes = 0; changes < tries; changes++) {
    const uint32_t first = a.block(Resident::block(a, me, changes));
#pragma unroll 1
    for (uint32_t w = 0; w < kWarp; w++) {
      const uint32_t from = (w + me) % kWarp;
      uint32_t taken = load_relaxed(a.bitmap(first) + from);
      while (taken != kAll) {
        const uint32_t ask = ~taken & (taken + 1);
        const uint32_t was = or_relaxed(a.bitmap(first) + from, ask);
        if ((was & ask) == 0) return first + from * 32 + lowest(ask);
        taken = was | ask;
      }
    }
  }
  return kNoUnit;
}

// release gives a unit back; false if it was not taken.
__device__ __forceinline__ bool release(const Allocator& a, uint32_t unit) {
  uint32_t bit = 1u << unit % 32;
  return (and_relaxed(a.bitmap(unit), ~bit) & bit) != 0;
}

// take_back releases units that lanes have just received and do not need; other lanes pass kNoUnit.
// All lanes of the warp must call it, so that the resident is updated.
__device__ __forceinline__ void take_back(const Allocator& a, Resident& r, uint32_t unit) {
  for (uint32_t queue = ballot(kAll, unit != kNoUnit); queue != 0; queue &= queue - 1) {
    uint32_t u = shuffle(kAll, unit, lowest(queue));
    if (lane_index() == lowest(queue)) release(a, u);
    if ((u ^ r.first) / Allocator::kUnits == 0 && lane_index() == u % Allocator::kUnits / 32) r.taken &= ~(1u << u % 32);
  }
}

}  // namespace weft
