// Data of the single-pass group norm: the problem, its tiles, and a line's ring of slots with its barriers.
#pragma once

#include <cstdint>

#include "../bulk_copy.cuh"
#include "../mbarrier.cuh"
#include "../reduce.cuh"
#include "../vector.cuh"
#include "messages.cuh"

namespace kbench::single_pass {

struct Problem {
  const float* __restrict__ x;
  float* __restrict__ y;
  const float* __restrict__ gamma;
  const float* __restrict__ beta;
  float* __restrict__ mean;
  float* __restrict__ rstd;
  longlong2* tile_moments;  // one message per tile
  longlong2* group_stats;   // COPIES messages per group, MESSAGE_STRIDE apart
  int* ticket;
  int tiles, tiles_per_group;
  int norm_groups;                     // batch * groups: what is normalised together, "group" below
  int groups, channels_per_group;      // of one sample
  unsigned group_floats, spatial;
  double eps;
};

/// A tile's place: which group, where in it, how long.
struct TilePlace {
  int group;
  unsigned offset;   // floats from the start of the group
  unsigned vectors;  // float4s; fewer than a full tile only at the end of a group

  template <int TILE_FLOATS>
  __device__ __forceinline__ static TilePlace of(int tile, const Problem& problem) {
    const int group = tile / problem.tiles_per_group;
    const unsigned offset = unsigned(tile - group * problem.tiles_per_group) * TILE_FLOATS;
    return {group, offset, min(unsigned(TILE_FLOATS), problem.group_floats - offset) / VECTOR_FLOATS};
  }

  /// First channel of the group, as an index into gamma and beta.
  __device__ __forceinline__ int group_channel(const Problem& problem) const {
    return (group % problem.groups) * problem.channels_per_group;
  }

  __device__ __forceinline__ int first_channel(const Problem& problem) const {
    return group_channel(problem) + int(offset / problem.spatial);
  }

  __device__ __forceinline__ int64_t first_float(const Problem& problem) const {
    return int64_t(group) * problem.group_floats + offset;
  }
};

constexpr int NO_TILE = -1;

/// One line's shared state. Slot barriers turn once per use of a slot, message barriers once per tile.
template <int DEPTH>
struct Line {
  // A writer holds one tile in registers beside the DEPTH in slots, so one more message than slots is on its way.
  static constexpr int MESSAGES = DEPTH + 1;
  uint64_t loaded[DEPTH];         // the copy engine has filled the slot, or there is no tile for it
  uint64_t reduced[DEPTH];        // the reducer has read the slot
  uint64_t watched[MESSAGES];     // the reducer has named the group to watch
  uint64_t stats_known[MESSAGES]; // the watcher has its statistics
  int tile[DEPTH];
  int group[MESSAGES];
  GroupStats stats[MESSAGES];

  __device__ void init() {
    for (int slot = 0; slot < DEPTH; ++slot) {
      barrier_init(&loaded[slot], 1);
      barrier_init(&reduced[slot], 1);
    }
    for (int message = 0; message < MESSAGES; ++message) {
      barrier_init(&watched[message], 1);
      barrier_init(&stats_known[message], 1);
    }
  }
};

template <int TILE_FLOATS_, int LINES_, int DEPTH_>
struct Plan {
  static constexpr int TILE_FLOATS = TILE_FLOATS_;
  static constexpr int LINES = LINES_;
  static constexpr int DEPTH = DEPTH_;
  static constexpr int TILE_VECTORS = TILE_FLOATS / VECTOR_FLOATS;
  static constexpr int VECTORS_PER_LANE = TILE_VECTORS / WARP_THREADS;
  static constexpr int THREADS = (3 * LINES + 1) * WARP_THREADS;
  static constexpr int SLOTS = LINES * DEPTH;
  static constexpr int TILE_BYTES = TILE_FLOATS * int(sizeof(float));
  static constexpr int SHARED_BYTES = SLOTS * TILE_BYTES;
  /// Tiles that a block holds when all its slots and writers are full.
  static constexpr int TILES_HELD = LINES * (DEPTH + 1);
  static_assert(TILE_VECTORS % (4 * WARP_THREADS) == 0, "a reducer goes through a full tile in four equal parts");
  static_assert(TILE_BYTES % BULK_COPY_ALIGNMENT_BYTES == 0, "slots follow each other without gaps");
  static_assert(TILE_BYTES < (1 << 20), "a barrier counts at most 2^20 - 1 bytes");
  using Ring = Line<DEPTH>;
};

/// Puts the load of `tile` into a slot, or the news that there are no more tiles.
template <typename P>
__device__ __forceinline__ void fill_slot(const Problem& problem, typename P::Ring& line, float4* slot, int index,
                                          int tile) {
  if (tile >= problem.tiles) {
    line.tile[index] = NO_TILE;
    barrier_arrive(&line.loaded[index]);
    return;
  }
  const TilePlace place = TilePlace::of<P::TILE_FLOATS>(tile, problem);
  const uint32_t bytes = place.vectors * uint32_t(sizeof(float4));
  line.tile[index] = tile;
  barrier_arrive_expect(&line.loaded[index], bytes);
  bulk_load(slot, problem.x + place.first_float(problem), bytes, &line.loaded[index]);
}

}  // namespace kbench::single_pass
