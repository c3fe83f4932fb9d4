// SlabAlloc, a warp-cooperative allocator of units of one size (Ashkiani, Farach-Colton and Owens,
// "A Dynamic Hash Table for the GPU", section V). Package alloc is the host side; its Ref is the
// twin of Allocator.
//
// A super block consists of memory blocks. A memory block has 1024 units and a bitmap of 32 words
// of 32 bits, one word per lane. Each owner has its own memory blocks of a pool, and no other owner
// takes units from them. A warp keeps the bitmap of one memory block, its resident block, in
// registers. It takes units by setting bits in the bitmap. When the resident block is full, the
// warp moves to another block, which a hash selects.
//
// allocate and release order no other accesses. After a thread has released a unit, the same launch
// may allocate the unit again. If the thread has written to the unit, it needs a fence before
// release. After allocate, all lanes need a fence and then sync_warp, because the lane that took a
// unit is not the lane that receives it. A slab needs no fences if it was never written, or if a
// separate launch releases it.
//
// The pool grows while kernels run. A kernel may read the address of a unit that was added after
// the kernel was launched, if another kernel has stored that address. The host first enters a
// unit's super block in the table and fills the unit with ones. Then it launches kernels that can
// take the unit. But these writes have no order with older kernels. So a thread calls publish
// before it publishes such an address, and calls meet after it has read one. While no such units
// exist, either call costs only a comparison.
#pragma once

#include "hash.cuh"
#include "warp.cuh"

namespace weft {

// The address of a unit consists of super block (8 bits), memory block (14 bits) and unit (10
// bits). At most 255 super blocks exist, so the last addresses are unused.
constexpr uint32_t kNoUnit = ~0u;

// sync_lanes is sync_warp for the lanes in `mask`. All of these lanes must call it.
__device__ __forceinline__ void sync_lanes(uint32_t mask) { asm volatile("bar.warp.sync %0;" ::"r"(mask) : "memory"); }

// Allocator is an owner's view of a pool. It is passed to kernels by value.
struct Allocator {
  const uint64_t* supers;  // addresses of the super blocks, or 0
  uint8_t* light;          // address of the first super block if all are contiguous, else null
  // First units of the owner's memory blocks. null: the owner has the first blocks of the pool.
  const uint32_t* list;
  uint32_t count;          // number of memory blocks to take units from
  uint32_t tries;          // maximum number of moves to another memory block per call
  uint32_t blocks;         // memory blocks per super block
  uint32_t unit;           // bytes per unit
  uint32_t known;          // end of the addresses of units that existed before the launch
  uint32_t old;            // end of the addresses of units that existed before any launch

  static constexpr uint32_t kBitmapBytes = 128, kUnits = 1024, kSupers = 255;

  // super returns the address of super block i. The light variant (section V) saves one memory
  // access, which mostly hits L1.
  __device__ __forceinline__ uint8_t* super(uint32_t i) const {
    if (light) return light + i * (uint64_t(blocks) * (kBitmapBytes + kUnits * unit));
    return reinterpret_cast<uint8_t*>(supers[i]);
  }
  __device__ __forceinline__ void* at(uint32_t address) const {
    return super(address >> 24) + uint64_t(blocks) * kBitmapBytes + uint64_t(address & 0xffffff) * unit;
  }
  // bitmap returns the address of the bitmap word that contains the bit of a unit.
  __device__ __forceinline__ uint32_t* bitmap(uint32_t address) const {
    return reinterpret_cast<uint32_t*>(super(address >> 24)) + (address & 0xffffff) / 32;
  }
  // has reports whether the owner has a unit with this address. If the owner has a list, it reports
  // whether the pool has one.
  __device__ __forceinline__ bool has(uint32_t address) const {
    if ((address & 0xffffff) >= blocks * kUnits) return false;
    return list ? address >> 24 < kSupers && load_relaxed(supers + (address >> 24)) != 0 : address < known;
  }
  // block returns the address of the first unit of the owner's memory block number i.
  __device__ __forceinline__ uint32_t block(uint32_t i) const {
    return list ? list[i] : (i / blocks) << 24 | (i % blocks) << 10;
  }

  // A thread calls publish before the relaxed write that makes a unit reachable for other threads.
  // A lane that has found a unit by a relaxed read calls meet, together with the other lanes in
  // `lanes`. The fences turn the write into a release, and the read into an acquire. The launch
  // that took the unit comes after the host has prepared the unit. With meet, the next accesses of
  // the lanes also come after that.
  __device__ __forceinline__ void publish(uint32_t address) const {
    if (address >= old) fence();
  }
  __device__ __forceinline__ void meet(uint32_t address, uint32_t lanes) const {
    if (!young(address)) return;
    fence();
    sync_lanes(lanes);
  }
  // young reports whether the unit with this address requires meet.
  __device__ __forceinline__ bool young(uint32_t address) const { return address - known < kNoUnit - known; }
};

// Resident is the memory block that a warp takes units from; initially none.
struct Resident {
  uint32_t first = kNoUnit;  // address of the block's first unit
  uint32_t taken = kAll;     // this lane's word of the bitmap when last read
  uint32_t changes = 0;

  // A hash selects the first kHashed blocks that a warp visits. After those, the warp visits all
  // blocks in order. If the number of further tries equals the number of blocks, the warp misses no
  // free unit.
  static constexpr uint32_t kHashed = 32;

  // block returns the number of the memory block that a worker, a warp or a lane, visits next.
  __device__ static __forceinline__ uint32_t block(const Allocator& a, uint32_t worker, uint32_t changes) {
    // The changes of a worker have distinct hashes, because hash is a bijection.
    uint32_t i = reduce(hash(worker * (kHashed + 1) + (changes < kHashed ? changes : kHashed), 0), a.count);
    if (changes >= kHashed) i = (i + (changes - kHashed)) % a.count;
    return i;
  }
  // change makes another block the resident block.
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

// allocate returns a unit to each lane with `wants`, or kNoUnit if it finds none. All lanes of the
// warp must call it. One atomic serves as many lanes as its bitmap word has free units.
__device__ __forceinline__ uint32_t allocate(const Allocator& a, Resident& r, bool wants) {
  const uint32_t lane = lane_index();
  // Warps that share a block begin at different words of its bitmap.
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
    // The first lanes of the queue receive the first bits.
    uint32_t place = popcount(queue & ((1u << lane) - 1));
    bool served = (queue >> lane & 1) != 0 && place < popcount(got);
    if (served) unit = r.first + from * 32 + lowest(got ^ first_bits(got, place));
    queue ^= ballot(kAll, served);
  }
  return unit;
}

// allocate_lane returns a unit to this lane, or kNoUnit if it finds none. Other lanes of the warp
// need not call it. Each call starts a new search, so warps that take many units should use a
// Resident.
__device__ __forceinline__ uint32_t allocate_lane(const Allocator& a) {
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

// release releases a unit. It returns false if the unit was not taken.
__device__ __forceinline__ bool release(const Allocator& a, uint32_t unit) {
  uint32_t bit = 1u << unit % 32;
  return (and_relaxed(a.bitmap(unit), ~bit) & bit) != 0;
}

// release_unused releases units that lanes have just received and do not need. Other lanes pass
// kNoUnit. All lanes of the warp must call it, so that the resident block's bitmap is updated.
__device__ __forceinline__ void release_unused(const Allocator& a, Resident& r, uint32_t unit) {
  for (uint32_t queue = ballot(kAll, unit != kNoUnit); queue != 0; queue &= queue - 1) {
    uint32_t u = shuffle(kAll, unit, lowest(queue));
    if (lane_index() == lowest(queue)) release(a, u);
    if ((u ^ r.first) / Allocator::kUnits == 0 && lane_index() == u % Allocator::kUnits / 32) r.taken &= ~(1u << u % 32);
  }
}

}  // namespace weft
