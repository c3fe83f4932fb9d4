// Kernels that call each function of weft/warp.cuh, and use floating-point numbers as plain C++
// does. vocabulary_test.go has the expected results.
#include "weft/warp.cuh"

namespace weft::vocabulary {

// A thread has kOutputs outputs, and kCells cells that are 0 at first.
template <typename W>
struct WordsParams {
  const W* in;
  W* cells;
  W* out;
  uint32_t n;
  uint32_t unused;
};

constexpr uint32_t kCells = 2, kOutputs = 80;

template <typename W>
struct Thread {
  W *cell, *out;
  W v;
  uint32_t k = 0;
  __device__ __forceinline__ explicit Thread(const WordsParams<W>& p) {
    uint64_t i = thread_index();
    cell = p.cells + i * kCells, out = p.out + i * kOutputs, v = load_once(p.in + i);
  }
  __device__ __forceinline__ void put(W w) { store_once(out + k++, w); }
};

// WEFT_CHAIN defines a function that runs every atomic with one memory order. Place is a pointer or
// a Shared.
#define WEFT_CHAIN(order)                                             \
  template <typename W, typename Place>                               \
  __device__ __forceinline__ void chain_##order(Thread<W>& t, Place cell) { \
    t.put(exchange_##order(cell, W(t.v ^ t.k)));                      \
    t.put(add_##order(cell, W(t.v * 3)));                             \
    t.put(or_##order(cell, W(t.v >> 3)));                             \
    W old = and_##order(cell, W(~(t.v >> 1)));                        \
    t.put(old);                                                       \
    old &= W(~(t.v >> 1));                                            \
    t.put(cas_##order(cell, W(old + 1), W(7)));                       \
    t.put(cas_##order(cell, old, W(t.v + 5)));                        \
  }
WEFT_CHAIN(relaxed)
WEFT_CHAIN(acquire)
WEFT_CHAIN(release)
WEFT_CHAIN(acq_rel)
WEFT_CHAIN(relaxed_system)
WEFT_CHAIN(acquire_system)
WEFT_CHAIN(release_system)
WEFT_CHAIN(acq_rel_system)
#undef WEFT_CHAIN

template <typename W>
__device__ void words(const WordsParams<W>& p) {
  if (thread_index() >= p.n) return;
  Thread<W> t(p);
  chain_relaxed(t, t.cell);
  chain_acquire(t, t.cell);
  chain_release(t, t.cell);
  chain_acq_rel(t, t.cell);
  chain_relaxed_system(t, t.cell);
  chain_acquire_system(t, t.cell);
  chain_release_system(t, t.cell);
  chain_acq_rel_system(t, t.cell);
  fence();
  fence_sc();
  W* next = t.cell + 1;
  store_relaxed(next, W(t.v + 1)), t.put(load_relaxed(next));
  store_release(next, W(t.v + 2)), t.put(load_acquire(next));
  fence_system();
  fence_sc_system();
  store_relaxed_system(next, W(t.v + 3)), t.put(load_relaxed_system(next));
  store_release_system(next, W(t.v + 4)), t.put(load_acquire_system(next));
  CachePolicy once = evict_first(), often = evict_last();
  store_weak(next, W(t.v + 5), once), t.put(load_weak(next, often));
  store_relaxed(next, W(t.v + 6), often), t.put(load_relaxed(next, once));
  // Access both cells as one 128-bit word, if each has 64 bits.
  if (sizeof(W) == 8) {
    Word128* both = (Word128*)t.cell;
    Word128 w = load_weak(both, once);
    store_weak(both, Word128{w.y, w.x}, once);
    t.put(W(load_weak(both).x));
  }
}

// A thread reads a value from shared memory that the next thread of its block has written.
template <typename W>
__device__ void block(const WordsParams<W>& p) {
  alignas(16) __shared__ W mine[256];
  __shared__ W sum;
  Thread<W> t(p);
  uint32_t i = thread_in_block();
  Shared<W> cell = shared(mine) + i, all = shared(&sum);
  store_weak(cell, t.v);
  if (i == 0) store_weak(all, W(0));
  sync_block();
  add_relaxed(all, t.v);
  chain_relaxed(t, cell);
  t.put(min_relaxed(cell, W(t.v * 5)));
  t.put(max_relaxed(cell, W(t.v * 9)));
  sync_block();
  t.put(load_weak(shared(mine) + (i + 1) % threads_per_block()));
  t.put(load_relaxed(all));
  sync_block();
  store_relaxed(cell, W(i));
  sync_block();
  if (sizeof(W) == 8 && i % 2 == 0) {
    Shared<Word128> pair = {cell.address};
    Word128 w = load_weak(pair);
    store_weak(pair, Word128{w.y, w.x});
  }
  sync_block();
  t.put(load_weak(cell));
}

// A thread has kFloats outputs.
template <typename F>
struct FloatParams {
  const F* in;
  const int32_t* whole;
  F* out;
  F* sum;  // the kernel adds whole / 4 for each thread
  uint32_t* holds;
  int64_t* rounded;
  uint32_t n;
  uint32_t unused;
};

constexpr uint32_t kFloats = 24;

#define WEFT_MATH(name)                                                                    \
  __device__ __forceinline__ float name(float a) { return __builtin_##name##f(a); }        \
  __device__ __forceinline__ double name(double a) { return __builtin_##name(a); }
#define WEFT_MATH2(name)                                                                   \
  __device__ __forceinline__ float name(float a, float b) { return __builtin_##name##f(a, b); } \
  __device__ __forceinline__ double name(double a, double b) { return __builtin_##name(a, b); }
WEFT_MATH(sqrt)
WEFT_MATH(fabs)
WEFT_MATH(floor)
WEFT_MATH(ceil)
WEFT_MATH(trunc)
WEFT_MATH(rint)
WEFT_MATH2(fmin)
WEFT_MATH2(fmax)
WEFT_MATH2(copysign)
#undef WEFT_MATH
#undef WEFT_MATH2

template <typename F>
__device__ void floats(const FloatParams<F>& p) {
  uint32_t i = uint32_t(thread_index());
  if (i >= p.n) return;
  F a = p.in[i], b = p.in[(i + 1) % p.n], c = p.in[(i + 2) % p.n];
  int32_t whole = p.whole[i];
  F results[] = {a + b, a - b, a * b, a / b, F(1) / a, a * b + c, sqrt(fabs(a)), fabs(a), -a, fmin(a, b), fmax(a, b),
                 floor(a), ceil(a), trunc(a), rint(a), copysign(a, b), F(whole), F(uint32_t(whole)), F(int64_t(whole) * 77777777777),
                 F(uint64_t(int64_t(whole))), F(float(a)), F(double(a)), F(float(double(a) / 3)), F(a > b ? a : c)};
#pragma unroll
  for (uint32_t k = 0; k < kFloats; k++) p.out[i * kFloats + k] = results[k];
  static_assert(sizeof results == kFloats * sizeof(F));
  p.holds[i] = (a < b) | (a <= b) << 1 | (a > b) << 2 | (a >= b) << 3 | (a == b) << 4 | (a != b) << 5 | !(a < b) << 6 |
               !(a >= b) << 7 | __builtin_isnan(a) << 8 | (__builtin_isinf(a) != 0) << 9 | (__builtin_signbit(a) != 0) << 10;
  // Limit the number to the range of the integer types. Beyond that range, C++ defines no result.
  F small = fmin(fmax(a, F(-120)), F(120));
  p.rounded[i] = int64_t((signed char)small) + 1000 * int64_t(int32_t(small * 1000)) + int64_t(small * F(1 << 20)) * (1 << 20) +
                 int64_t(uint32_t(fabs(small)));
#ifdef __clang__
  __atomic_fetch_add(p.sum, F(whole) / 4, __ATOMIC_RELAXED);
#else  // nvcc's builtin takes integers only
  atomicAdd(p.sum, F(whole) / 4);
#endif
}

}  // namespace weft::vocabulary

using namespace weft::vocabulary;

extern "C" __global__ void vocabulary_words_32(WordsParams<uint32_t> p) { words(p); }
extern "C" __global__ void vocabulary_words_64(WordsParams<uint64_t> p) { words(p); }
extern "C" __global__ void vocabulary_block_32(WordsParams<uint32_t> p) { block(p); }
extern "C" __global__ void vocabulary_block_64(WordsParams<uint64_t> p) { block(p); }
extern "C" __global__ void vocabulary_floats_32(FloatParams<float> p) { floats(p); }
extern "C" __global__ void vocabulary_floats_64(FloatParams<double> p) { floats(p); }
