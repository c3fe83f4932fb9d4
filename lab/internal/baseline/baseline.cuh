// Code that the kernels of both indexes share: batches, keys and their hashes, and the free units
// of the pool. The Go code of this package runs the same indexes on a host, with the same words in
// memory. So it can read and recover an index that a GPU has written.
#pragma once

#include "weft/gphash_table.cuh"

namespace weft::baseline {

using gphash::put_word;
using gphash::row_word;

constexpr int kBlock = 256;  // threads of every kernel

// Tally has the counts of launches. tally in gpu.go has the same fields and explains them.
struct Tally {
  uint64_t changed;      // lookups: keys found; changes: keys inserted minus keys deleted
  uint64_t taken, given; // total numbers of units
  uint32_t slabs;        // total number of slabs appended to chains
  uint32_t failed;       // number of operations that found no space
};

// Units are pieces of the pool with equal sizes, for records or values. Freed units are in a queue.
// Only later launches take the units that a launch frees, because other operations of the same
// launch may still read them.
struct Units {
  uint32_t* queue;  // numbers of freed units; the first n units that are taken are not in it
  uint64_t mask;    // number of entries of the queue minus one
  uint64_t limit;   // maximum total number of units taken
  uint64_t first, words, n;
};

// Batch holds the operations of a launch.
struct Batch {
  const uint8_t* keys;
  const uint8_t* vals;   // values of Puts
  const uint8_t* kinds;  // null: all operations have the same kind
  uint8_t* out;          // receives values of Gets; may be null
  uint8_t* ok;           // may be null
  uint64_t n;
  uint32_t kind;
  uint32_t alone;        // not 0: no concurrent changes
};

// Index is a pool, with the format of its keys and values.
struct Index {
  uint64_t* pool;  // address of word 0
  Tally* tally;
  Units units;
  uint64_t seed;
  uint32_t key_size, value_size;    // bytes
  uint32_t key_words, value_words;
};

// take takes a free unit. It returns the first word of the unit, or 0 if no unit is free.
__device__ __forceinline__ uint64_t take(const Index& x) {
  const Units& u = x.units;
  const uint64_t at = add_relaxed(&x.tally->taken, uint64_t(1));
  if (at >= u.limit) return 0;
  return u.first + u.words * (at < u.n ? at : load_relaxed(u.queue + (at & u.mask)));
}

// give frees the unit that begins at a word, for later launches.
__device__ __forceinline__ void give(const Index& x, uint64_t word) {
  const Units& u = x.units;
  const uint64_t at = add_relaxed(&x.tally->given, uint64_t(1));
  store_relaxed(u.queue + (at & u.mask), uint32_t((word - u.first) / u.words));
}

__device__ __forceinline__ uint64_t load(const Index& x, uint64_t word) { return load_relaxed_system(x.pool + word); }
__device__ __forceinline__ void store(const Index& x, uint64_t word, uint64_t v) { store_relaxed_system(x.pool + word, v); }

// hash_of returns the hash of a key, like newItem in baseline.go.
__device__ __forceinline__ uint64_t hash_of(const Index& x, const uint8_t* key) {
  uint64_t h = x.seed ^ x.key_size;
  for (uint32_t i = 0; i < x.key_words; i++) h = hash(h ^ row_word(key, x.key_size, i), x.seed);
  return h;
}

// Operation is an operation of a batch.
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
