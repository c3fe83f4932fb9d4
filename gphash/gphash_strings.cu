// Kernels of package gphash for byte strings of any length. Work that involves only slots uses the
// kernels of gphash.cu.
#include "strings.cuh"
#include "tuning.cuh"

using namespace weft::gphash;

#define STRINGS_KERNEL(name, blocks) extern "C" __global__ void __launch_bounds__(kBlock, blocks) gphash_strings_##name

STRINGS_KERNEL(hash, 1)(StringsHashParams p) { hash_strings(p); }
STRINGS_KERNEL(find, kGetBlocks)(StringsFindParams p) { find(p); }
STRINGS_KERNEL(list, 1)(BucketsParams p) { list(p); }
STRINGS_KERNEL(change, kChangeBlocks)(StringsChangeParams p) { change_strings(p); }
STRINGS_KERNEL(change_crowded, 1)(StringsChangeParams p) { change_crowded_strings(p); }
STRINGS_KERNEL(follow, 1)(StringsChangeParams p) { follow_strings(p); }
STRINGS_KERNEL(log, 1)(RedoParams p) { log<kBlock, kInRecords>(p); }
STRINGS_KERNEL(settle, 1)(RedoParams p) { apply_batch<kInRecords>(p); }
STRINGS_KERNEL(move_up, 1)(BucketsParams p) { move_up<kInRecords>(p); }
