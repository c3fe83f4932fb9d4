// What the kernels of both indexes share: batches, keys and their hashes, and the free units of the
// pool. The indexes are those that this package's Go code runs on a host, word for word, so it can
// read and recover what a GPU has written.
#pragma once

#include "weft/gphash_table.cuh"

namespace weft::baseline {

using gphash::put_word;
using gphash::row_word;

constexpr int kBlock = 256;  // threads of every kernel

// Tally is counted by launches (twin: tally in gpu.go, which explains it).
struct Tally {
  uint64_t changed;      // lookups: keys found; changes: keys inserted less those deleted
  uint64_t taken, given; // units, in total
  uint32_t slabs;        // appended to chains, in total
  uint32_t failed;       // operations without space
};

// Units are equal pieces of the pool for records or values, as a queue. Units that a launch frees
// are taken by later launches only, because others of the same launch may still read them.
struct Units {
  uint32_t* queue;  // numbers of units; the first n taken units were never in it
  uint64_t mask;    // entries of the queue less one
  uint64_t limit;   // how many may be taken, in total
  uint64_t first, words, n;
};

// Batch is the operations of a launch.
struct Batch {
  const uint8_t* keys;
  const uint8_t* vals;   // for Puts
  const uint8_t* kinds;  // or null: all have one kind
  uint8_t* out;          // receives values of Gets; or null
  uint8_t* ok;           // or null
  uint64_t n;
  uint32_t kind;
  uint32_t alone;        // no concurrent changes
};

// Index is a pool with the format of its keys and values.
struct Index {
  uint64_t* pool;  // word 0
  Tally* tally;
  Units units;
  uint64_t seed;
  uint32_t key_size, value_size;    // bytes
  uint32_t key_words, value_words;
};

// take returns the first word of a free unit, or 0.
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

// hash_of returns the hash of a key (twin: newItem in baseline.go).
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
