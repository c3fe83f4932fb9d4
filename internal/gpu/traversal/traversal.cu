// Kernels of algorithms on graphs in compressed sparse rows. The Go files of the package describe
// their launches.
#include "levels.cuh"
#include "ranks.cuh"
#include "search.cuh"

using namespace weft;

#define WEFT_TRAVERSAL(name, Params) \
  extern "C" __global__ void __launch_bounds__(256) traversal_##name(traversal::Params p) { traversal::name(p); }

WEFT_TRAVERSAL(turn_sources, TurnParams)
WEFT_TRAVERSAL(turn_offsets, TurnParams)

WEFT_TRAVERSAL(rank_start, RankParams)
WEFT_TRAVERSAL(rank_cut, CutParams)
WEFT_TRAVERSAL(rank_gather, RankParams)
WEFT_TRAVERSAL(rank_apply, RankParams)

WEFT_TRAVERSAL(search_start, SearchParams)
WEFT_TRAVERSAL(search_down, SearchParams)
WEFT_TRAVERSAL(search_up, SearchParams)

WEFT_TRAVERSAL(unite_start, UniteParams)
WEFT_TRAVERSAL(unite_first, UniteParams)
WEFT_TRAVERSAL(unite_flatten, UniteParams)
WEFT_TRAVERSAL(unite_sample, UniteParams)
WEFT_TRAVERSAL(unite_pick, UniteParams)
WEFT_TRAVERSAL(unite_rest, UniteParams)
WEFT_TRAVERSAL(unite_count, UniteParams)

WEFT_TRAVERSAL(path_check, PathParams)
WEFT_TRAVERSAL(path_mean, PathParams)
WEFT_TRAVERSAL(path_start, PathParams)
WEFT_TRAVERSAL(path_relax, PathParams)
WEFT_TRAVERSAL(path_least, PathParams)
WEFT_TRAVERSAL(path_gather, PathParams)
WEFT_TRAVERSAL(path_count, PathParams)

WEFT_TRAVERSAL(core_start, CoreParams)
WEFT_TRAVERSAL(core_loops, CoreParams)
WEFT_TRAVERSAL(core_peel, CoreParams)
WEFT_TRAVERSAL(core_least, CoreParams)
WEFT_TRAVERSAL(core_gather, CoreParams)
