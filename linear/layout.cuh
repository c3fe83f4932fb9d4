// Memory layout of package linear: the C++ twin of layout.go, and the
// parameters of its kernels: the twin of gpu.go.
#pragma once

#include "weft/hash.cuh"
#include "weft/warp.cuh"

namespace weft::linear {

constexpr uint32_t kLineBytes = 128;
constexpr uint32_t kSectorBytes = 32;

// ---- slots -----------------------------------------------------------------
//
// A slot is one word that changes by one compare-and-swap. The key lies above
// the value. Three keys are never stored: they mark slots that hold none.

template <class K>
struct Marks {
  static constexpr K kEmpty = ~K(0);        // never used since the last rehash
  static constexpr K kDead = ~K(0) - 1;     // deleted; the value field holds the key
  static constexpr K kPending = ~K(0) - 2;  // being written, below sm_90
};

// 32-bit key and value: a 64-bit compare-and-swap publishes both at once, so
// relaxed order is enough everywhere: no access of ours reads one word to
// learn about another.
struct Pair8 : Marks<uint32_t> {
  using Key = uint32_t;
  using Word = uint64_t;
  static constexpr bool kHasValue = true, kTwoStep = false;
  __device__ static Key key(Word w) { return Key(w >> 32); }
  __device__ static Key value(Word w) { return Key(w); }
  __device__ static Word pair(Key k, Key v) { return Word(k) << 32 | v; }
  __device__ static Word dead(Key k) { return pair(kDead, k); }
  __device__ static bool is_dead(Word w, Key k) { return w == dead(k); }
  __device__ static bool swap(Word* slot, Word from, Word to) { return cas_relaxed(slot, from, to) == from; }
};

// A 64-bit key or value: the word has 128 bits.
struct Pair16 : Marks<uint64_t> {
  using Key = uint64_t;
  using Word = Word128;
  static constexpr bool kHasValue = true;
  __device__ static Key key(Word w) { return w.y; }
  __device__ static Key value(Word w) { return w.x; }
  __device__ static Word pair(Key k, Key v) { return {v, k}; }
  __device__ static Word dead(Key k) { return pair(kDead, k); }
  __device__ static bool is_dead(Word w, Key k) { return w.y == kDead && w.x == k; }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  static constexpr bool kTwoStep = false;
  __device__ static bool swap(Word* slot, Word from, Word to) {
#if defined(__CUDA_ARCH__)
    return cas_relaxed(slot, from, to) == from;
#else
    return false;
#endif
  }
#else
  // Without a 128-bit compare-and-swap: (1) take the slot by exchanging its
  // key for kPending, (2) publish key and value by one 128-bit store. Every
  // reader loads all 128 bits at once, so it sees the old pair, the new pair,
  // or kPending beside a value it does not look at, and then looks again. The
  // owner waits for nobody between (1) and (2), so nobody waits for long; and
  // it is the same lane without a warp-wide step between, so no lane of its
  // own warp can keep it from (2).
  //
  // (1) compares the key alone. Another thread may have changed the value
  // since `from` was read; for a key that stays the same this is as if that
  // change had come just before the read.
  static constexpr bool kTwoStep = true;
  __device__ static bool swap(Word* slot, Word from, Word to) {
    if (cas_relaxed(&slot->y, from.y, kPending) != from.y) return false;
    store_relaxed(slot, to);
    return true;
  }
#endif
};

// Sets: the word is the key. A dead slot cannot remember its key; it need not,
// because the batches of a set either insert or delete.
template <class K>
struct KeyOnly : Marks<K> {
  using Key = K;
  using Word = K;
  using M = Marks<K>;
  static constexpr bool kHasValue = false, kTwoStep = false;
  __device__ static Key key(Word w) { return w; }
  __device__ static Key value(Word) { return 0; }
  __device__ static Word pair(Key k, Key) { return k; }
  __device__ static Word dead(Key) { return M::kDead; }
  __device__ static bool is_dead(Word, Key) { return false; }
  __device__ static bool swap(Word* slot, Word from, Word to) { return cas_relaxed(slot, from, to) == from; }
};
using Key4 = KeyOnly<uint32_t>;
using Key8 = KeyOnly<uint64_t>;

// ---- the table -------------------------------------------------------------

struct Counters {
  uint64_t live;  // keys in the table
  uint64_t used;  // slots that are not empty
};

// Table is passed by value to every kernel.
struct Table {
  Word128* lines;  // nlines + 1 of 128 bytes; the last holds the reserved keys
  Counters* counters;
  uint64_t seed;
  uint32_t nlines;
  uint32_t max_lines;  // longest path, in lines
};

// locate gives the home sector of a key: its index in the table. Keys that
// look like marks live in the extra line, under another name.
template <class S>
__device__ __forceinline__ uint32_t locate(const Table& t, typename S::Key key) {
  using Key = typename S::Key;
  if (key >= S::kPending) return t.nlines * 4;
  return uint32_t(reduce(hash(key, t.seed), Key(t.nlines) * 4));
}
template <class S>
__device__ __forceinline__ typename S::Key stored(typename S::Key key) {
  return key >= S::kPending ? ~key : key;
}

// Path is the order in which sectors are searched for a key: its home sector,
// the other sectors of that line (index xor 1, 2, 3), then the next line in the
// same order, and so on around the table. Any aligned group of 1, 2 or 4
// sectors is read as a whole without leaving the order, so kernels with
// different appetites agree on it.
struct Path {
  uint32_t home;

  __device__ __forceinline__ uint32_t line() const { return home / 4; }
  __device__ __forceinline__ uint32_t sector() const { return home % 4; }

  // piece is the index, in 16-byte pieces, of half a sector of the path.
  __device__ __forceinline__ uint64_t piece(const Table& t, uint32_t ordinal, uint32_t half) const {
    uint32_t at = line() + ordinal / 4;
    if (at >= t.nlines && line() != t.nlines) at -= t.nlines;
    return uint64_t(at) * 8 + (sector() ^ ordinal % 4) * 2 + half;
  }
  // steps is the length of the path in groups of that many sectors. The extra
  // line is a path of its own.
  __device__ __forceinline__ uint32_t steps(const Table& t, uint32_t sectors) const {
    return (line() == t.nlines ? 1 : t.max_lines) * 4 / sectors;
  }
};

// ---- parameters ------------------------------------------------------------

enum Kind : uint32_t { kGet, kPut, kPutNew, kDelete };  // weft.OpKind

enum Flags : uint32_t {
  kReuse = 1,  // inserts may take dead slots: no deletes in this launch
  kDefer = 2,  // leave what duplicates could decide, and list it
};

// List is an array that a launch appends to.
struct List {
  uint32_t* items;
  uint32_t* count;
};

struct GetParams {
  Table table;
  const void* keys;
  void* vals;      // may be null
  uint8_t* found;  // may be null
  uint64_t* hits;  // may be null; added to
  uint64_t n;
  uint32_t spread;  // one key per tile, not per lane
  uint32_t unused;
};

struct ChangeParams {
  Table table;
  const void* keys;
  const void* vals;      // may be null: no Put or PutNew
  const uint8_t* kinds;  // may be null: all are of one kind
  void* out;             // values of Get and PutNew; may be null
  uint8_t* ok;           // may be null
  List deferred;         // with kDefer
  List failed;           // operations that found no room; items may be null
  uint32_t n;
  uint32_t first;        // added to the indices in failed
  uint32_t kind;
  uint32_t flags;
};

struct RankParams {
  const void* keys;
  uint32_t* ranks;  // mask + 1 entries, zero
  List deferred;
  uint32_t mask;
  uint32_t n;
  uint32_t kind;
  uint32_t unused;
};

struct SettleParams {
  Table table;
  RankParams rank;
  const void* vals;
  uint8_t* ok;
};

struct RehashParams {
  Table from, to;
  uint32_t* lost;
};

struct ExportParams {
  Table table;
  void* keys;
  void* vals;
  uint32_t* count;
  uint32_t lo, hi;
};

struct StatsParams {
  Table table;
  uint64_t* sum;
  uint32_t* longest;
};

// ---- counting --------------------------------------------------------------

// count adds the number of threads with p to a counter: one atomic a block.
// All threads of the block must call it.
__device__ __forceinline__ void count(uint64_t* to, bool p) {
  uint32_t n = count_block(p);
  if (n != 0 && thread_in_block() == 0) add_relaxed(to, uint64_t(n));
}

}  // namespace weft::linear
