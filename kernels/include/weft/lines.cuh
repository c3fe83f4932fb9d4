// Passes over all slots of a table that consists of lines.
#pragma once

#include "batch.cuh"
#include "spread.cuh"

namespace weft {

constexpr uint32_t kLineBytes = 128;

// each_slot calls f(live, word, line, slot) for every slot of lines [lo,hi), one slot per lane. It
// calls f for all lanes of a warp together. When f returns false, which it must do for all lanes
// alike, the warp stops. Keys from `end` on are sentinels.
template <class S, class F>
__device__ __forceinline__ void each_slot(typename S::Word* slots, typename S::Key end, uint32_t lo, uint32_t hi, F f) {
  using Word = typename S::Word;
  constexpr uint32_t per_line = kLineBytes / sizeof(Word);
  uint64_t n = uint64_t(hi - lo) * per_line;
  uint32_t lane = lane_index();
  for (uint64_t first = thread_index() - lane; first < n; first += threads_in_grid()) {
    uint64_t s = first + lane;
    uint32_t line = lo + uint32_t(s / per_line), slot = uint32_t(s % per_line);
    Word w = S::pair(S::kEmpty, 0);
    if (s < n) w = load_relaxed(slots + uint64_t(line) * per_line + slot);
    if (!f(S::key(w) < end, w, line, slot)) return;
  }
}

// export_live writes the live pairs in a range of lines to two columns. Each lane processes one
// slot at a time. live(line, slot, word, key) reports whether a slot has a key, and stores the
// user's key in key.
template <class S, class K, class V, class F>
__device__ __forceinline__ void export_live(const Export& to, typename S::Word* slots, uint32_t nlines, F live) {
  using Word = typename S::Word;
  constexpr uint32_t per_line = kLineBytes / sizeof(Word);
  uint64_t n = uint64_t(to.hi - to.lo) * per_line, stride = threads_in_grid();
  uint32_t lane = lane_index();
  Spread lines(nlines, to.step, to.lo + thread_index() / per_line, stride / per_line);
  for (uint64_t first = thread_index() - lane; first < n; first += stride, lines.next()) {
    uint64_t s = first + lane;
    uint32_t line = lines.at(to.lo + s / per_line), slot = uint32_t(s % per_line);
    Word w = S::pair(S::kEmpty, 0);
    if (s < n) w = load_relaxed(slots + uint64_t(line) * per_line + slot);
    typename S::Key key = 0;
    const bool has = live(line, slot, w, key);
    emit<S, K, V>(to, has, key, S::value(w));
  }
}

// Named reads the user's keys of a table that stores them unchanged. In the extra line, the table
// stores complements of keys. Keys from kEnd on are sentinels.
template <class S, typename S::Key kEnd>
struct Named {
  uint32_t nlines;
  __device__ __forceinline__ bool operator()(uint32_t line, uint32_t, typename S::Word w, typename S::Key& key) const {
    key = line == nlines ? ~S::key(w) : S::key(w);
    return S::key(w) < kEnd;
  }
};

}  // namespace weft
