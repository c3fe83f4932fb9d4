// Kernels that hash and checksum byte strings. gphash/digest_test.go has the expected results.
#include "weft/crc32c.cuh"
#include "weft/siphash.cuh"

namespace weft::vocabulary {

// Each warp processes one string.
struct DigestParams {
  const uint64_t* words;  // all strings, concatenated
  const uint32_t* first;  // first word of each string
  const uint32_t* bytes;  // length of each string
  uint64_t* sip13;
  uint64_t* fast;
  uint32_t* crc32c;       // result of each lane
  uint64_t seed0, seed1;
  uint32_t n;
  uint32_t unused;
};

__device__ __forceinline__ void digest(const DigestParams& p) {
  uint32_t i = uint32_t(thread_index() / kWarp), lane = lane_index();
  if (i >= p.n) return;
  const uint64_t* words = p.words + p.first[i];
  uint32_t bytes = p.bytes[i];
  auto word = [&](uint32_t k) { return load_once(words + k); };
  if (lane == 0) p.sip13[i] = sip13(p.seed0, p.seed1, bytes, word);
  if (lane == 1) p.fast[i] = fast_hash(p.seed0, p.seed1, bytes, word);
  sync_warp();
  const uint32_t* halves = (const uint32_t*)words;
  p.crc32c[i * kWarp + lane] = crc32c_warp(bytes, [&](uint32_t k) { return load_once(halves + k); });
}

}  // namespace weft::vocabulary

extern "C" __global__ void digest_strings(weft::vocabulary::DigestParams p) { digest(p); }
