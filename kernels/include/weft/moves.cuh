// The common part of the kernels of structures in which keys move (evict.cuh). Thread blocks have
// `Block` threads.
#pragma once

#include "evict.cuh"
#include "lines.cuh"

namespace weft {

// EvictParams holds the parameters of a change, and the operations that found no slot in it.
template <class Table>
struct EvictParams {
  Table table;
  Changes changes;
  List spilled;    // those operations; the items become zero
  uint32_t still;  // 1: no key may move
  uint32_t unused;
};

template <class Table>
struct RehashParams {
  Table from, to;
  uint32_t* lost;   // incremented for each key that finds no slot
  uint32_t lo, hi;  // lines [lo,hi) of `from`; line nlines is the extra line
};

// change_in_place runs a batch by change(op), in the launch that moves no keys. An operation that
// finds no slot runs again in a later launch, and only then contends.
template <class S, class K, class V, class Table, class F>
__device__ __forceinline__ void change_in_place(const ChangeParams<Table>& p, F change) {
  uint32_t i = uint32_t(thread_index());
  Operation<S> op = operation<S, K, V>(p.changes, i);
  change(op);
  outcome<S, V>(p.changes, i, op);
  list(p.changes, i, op, contends(op) && op.outcome != kFull);
  tally_block(p.table.counters, op.outcome);
}

// evict_batch runs the operations that change_in_place has left over. Reduces is the type of values
// that may be combined, or void.
template <class Rules, class K, class V, class Reduces, int Block, class Table>
__device__ __forceinline__ void evict_batch(const EvictParams<Table>& p) {
  using S = typename Rules::S;
  __shared__ SlotQueue queues[Block / kWarp];
  if (load_relaxed(p.spilled.count) == 0) return;
  begin_moving(p.table);
  Mover<Rules> mover{p.table, queues[thread_in_block() / kWarp]};
  each_spilled(p.spilled, p.changes.n, [&](uint32_t i) __attribute__((always_inline)) {
    Operation<S> op = operation<S, K, V>(p.changes, i);
    insert_locked<Rules, Reduces>(p.changes.flags & ~kKeysFixed, op, p.still, mover);
    outcome<S, V>(p.changes, i, op);
    list(p.changes, i, op, contends(op));
    tally(p.table.counters, op.outcome);
  });
  mover.count();
  end_moving(p.table);
}

// kStepTries is the maximum number of tries for an operation that finds locks taken, in the launch
// of single steps. Another thread moves a key in about the time of one try. An operation that is
// left over costs ten times as much.
constexpr uint32_t kStepTries = 8;

// step_batch runs the operations that the first launch has left over and that need only one step.
// Each lane works by itself, under the lock of bucket(key). All lanes of a warp call step(has, op),
// which inserts for the lanes that hold their lock. It returns kRevived if it has inserted, kFull
// if the operation is left over, and kAgain if it found a lock taken. A lane takes the next
// operation after its operation is completed or left over. Completed operations leave the list.
// fresh is the growth of the number of used slots by the steps.
template <class S, class K, class V, class Table, class Bucket, class Step>
__device__ __forceinline__ void step_batch(const EvictParams<Table>& p, const int32_t& fresh, Bucket bucket, Step step) {
  const Table& t = p.table;
  const uint32_t count = load_relaxed(p.spilled.count);
  if (count == 0) return;
  begin_moving(t);
  const uint64_t stride = threads_in_grid();
  uint64_t at = thread_index();
  uint32_t item = 0, tries = 0;
  uint32_t* lock = nullptr;
  Operation<S> op{false, 0, 0, 0};
  int32_t live = 0;
#pragma unroll 1
  while (ballot(kAll, op.there || at < count) != 0) {
    if (!op.there && at < count) {
      item = load_relaxed(p.spilled.items + at);
      op = operation<S, K, V>(p.changes, item);
      lock = lock_of(t, bucket(op.key)), tries = 0;
    }
    const bool has = op.there && try_lock(lock);
    sync_warp();
    op.outcome = step(has, op);
    sync_warp();
    if (has) unlock(lock);
    if (op.there && ((has && op.outcome != kAgain) || ++tries == kStepTries)) {
      if (has && op.outcome == kRevived) {
        outcome<S, V>(p.changes, item, op);
        store_relaxed(p.spilled.items + at, kSettled);
        live++;
      }
      op.there = false;
      at += stride;
    }
  }
  count_all(&t.counters->live, live);
  count_all(&t.counters->used, fresh);
  end_moving(t);
}

// rehash_lines inserts the keys of lines into another table. stored(line, slot, word, key) reports
// whether a slot has a key, and stores the user's key in key. The kernel ends early after a key
// finds no slot: the table is too full, and each later key would move many keys. The keys are
// distinct, but moves need locks, too.
template <class Rules, int Block, class Table, class F>
__device__ __forceinline__ void rehash_lines(const RehashParams<Table>& p, F stored) {
  using S = typename Rules::S;
  using Word = typename S::Word;
  __shared__ SlotQueue queues[Block / kWarp];
  Mover<Rules> mover{p.to, queues[thread_in_block() / kWarp]};
  each_slot<S>(reinterpret_cast<Word*>(p.from.lines), S::kNone, p.lo, p.hi, [&](bool, Word w, uint32_t line, uint32_t slot) __attribute__((always_inline)) {
    Operation<S> op{false, kPutNew, 0, S::value(w)};
    op.there = stored(line, slot, w, op.key);
    insert_locked(0, op, false, mover);
    tally(p.to.counters, op.outcome);
    uint32_t lost = popcount(ballot(kAll, op.outcome == kFull));
    if (lost != 0 && lane_index() == 0) add_relaxed(p.lost, lost);
    return lost == 0 && ballot(kAll, load_relaxed(p.lost) != 0) == 0;
  });
  mover.count();
}

}  // namespace weft
