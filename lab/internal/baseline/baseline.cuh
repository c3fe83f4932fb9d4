// What the kernels of both indexes have in common: batches, keys and their hashes, and which units
// of the pool are free. The indexes are those that the Go of this package runs on a host, word for
// word, so that it reads and mends what a GPU has written.
#pragma once

#include "weft/gphash_table.cuh"

namespace weft::baseline {

using gphash::put_word;
using gphash::row_word;

constexpr int kBlock = 256;  // threads of every kernel

// Tally is what launches count (twin: tally in gpu.go, which says more).
struct Tally {
  uint64_t changed;      // lookups: keys found; changes: keys inserted less those deleted
  uint64_t taken, given; // units, ever
  uint32_t slabs;        // that chains have got, ever
  uint32_t failed;       // operations that have found no room
};

// Units are pieces of equal size of the pool for records or values, as a queue: what a launch gives
// back those behind it take, since others of this one may still read it.
struct Units {
  uint32_t* queue;  // numbers of units; the first n that are taken have not been in it
  uint64_t mask;    // entries of the queue less one
  uint64_t limit;   // how many may be taken, ever
  uint64_t first, words, n;
};

// Batch is the operations of a launch.
struct Batch {
  const uint8_t* keys;
  const uint8_t* vals;   // of Puts
  const uint8_t* kinds;  // or null: all are of one kind
  uint8_t* out;          // receives values of Gets; or null
  uint8_t* ok;           // or null
  uint64_t n;
  uint32_t kind;
  uint32_t alone;        // nobody changes the index meanwhile
};

// Index is a pool and what the keys and values in it are like.
struct Index {
  uint64_t* pool;  // word 0
  Tally* tally;
  Units units;
  uint64_t seed;
  uint32_t key_size, value_size;    // bytes
  uint32_t key_words, value_words;
};

// take is the word at which a free unit begins, or 0.
__device__ __forceinline__ uint64_t take(const Index& x) {
  const Units& u = x.units;
  const uint64_t at = add_relaxed(&x.tally->taken, uint64_t(1));
  if (at >= u.limit) return 0;
  return u.first + u.words * (at < u.n ? at : load_relaxed(u.queue + (at & u.mask)));
}

// give frees the unit that begins at a word, for launches behind this one.
__device__ __forceinline__ void give(const Index& x, uint64_t word) {
  const Units& u = x.units;
  const uint64_t at = add_relaxed(&x.tally->given, uint64_t(1));
  store_relaxed(u.queue + (at & u.mask), uint32_t((word - u.first) / u.words));
}

__device__ __forceinline__ uint64_t load(const Index& x, uint64_t word) { return load_relaxed_system(x.pool + word); }
__device__ __forceinline__ void store(const Index& x, uint64_t word, uint64_t v) { store_relaxed_system(x.pool + word, v); }

// hash_of is the hash of a key (twin: newItem in baseline.go).
__device__ __forceinline__ uint64_t hash_of(const Index& x, const uint8_t* key) {
  uint64_t h = x.seed ^ x.key_size;
  for (uint32_t i = 0; i < x.key_words; i++) h = hash(h ^ row_word(key, x.key_size, i), x.seed);
  return h;
}

// Operation is one of a batch.
struct Operation {
  const uint8_t* key;
  const uint8_t* val;
  uint8_t* out;
  uint64_t hash;
  uint32_t kind;
};

__device__ __forceinline__ Operation operation(const Index& x, const Batch& b, uint64_t i) {
  const uint8_t* key = b.keys + i * x.key_size;
  return {key, b.vals + i * x.value_size, b.out ? b.out + i * x.value_size : nullptr, hash_of(x, key),
          b.kinds ? load_once(b.kinds + i) : b.kind};
}

}  // namespace weft::baseline
