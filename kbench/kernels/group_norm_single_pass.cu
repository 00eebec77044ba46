// GroupNorm that reads its input once and writes its output once (sm_90).
//
// A group of the default problem is 8.4 MB: too large for one multiprocessor, small enough that the chip's shared
// memory holds three of them. So all blocks work on the same few groups at a time. Tiles of 16 KB are handed out in
// memory order by one counter; a tile stays on the chip from its load to its store, and only its two moments leave in
// between:
//
//   ticket -> bulk load -> [reducer] moments -> [finisher] statistics of the group -> [watcher] -> [writer] -> store
//
// Each block is a few independent *lines*, each a ring of slots with one warp per role, so that no warp waits for
// work that another one could do: the reducer handles every tile as soon as it lands, whatever the writer is waiting
// for. Between blocks nothing is locked or fenced: each message is 16 bytes in words that are all ones until written,
// and the words themselves say that they have arrived. group_norm_single_pass.md has the arithmetic and the
// measurements.
//
// Progress: a ticket is taken only with a free slot in hand, so every tile taken is loaded and reduced whatever else
// waits. Tickets come in memory order, and so do the tiles of a line. If no writer could move, each would hold a tile
// of the oldest unfinished group, and so would every slot; then all tiles of that group would have been taken, since
// the host admits no group with more tiles than writers and slots together hold, and the group would finish: a
// contradiction. The launch is cooperative, so all blocks that the count relies on are resident.

#include <cstdint>

#include "bulk_copy.cuh"
#include "launch.cuh"
#include "mbarrier.cuh"
#include "reduce.cuh"
#include "vector.cuh"
#include "welford.cuh"

namespace kbench {
namespace {

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

/// What a writer needs of a group. The mean comes in two parts, so that subtracting it costs no accuracy.
struct GroupStats {
  float mean_high, mean_low, rstd;
};

// Every block watches one of several copies of a group's statistics, each in an L2 line of its own: hundreds of warps
// polling one line would queue up behind each other.
constexpr int COPIES = 8;
constexpr int MESSAGE_STRIDE = 8;  // messages of 16 bytes in an L2 line of 128

// Memory starts as all ones. No message holds such a word: results of arithmetic that are NaN have other bits.
constexpr long long EMPTY_WORD = -1;

__device__ __forceinline__ longlong2 read_message(const longlong2* from) {
  longlong2 words;
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(words.x), "=l"(words.y) : "l"(from) : "memory");
  return words;
}

__device__ __forceinline__ void send_message(longlong2* to, long long first, long long second) {
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(first), "l"(second) : "memory");
}

__device__ __forceinline__ bool has_arrived(longlong2 words) {
  return words.x != EMPTY_WORD && words.y != EMPTY_WORD;
}

__device__ __forceinline__ long long pack(float low, float high) {
  return (static_cast<long long>(__float_as_int(high)) << 32) | static_cast<unsigned>(__float_as_int(low));
}

__device__ __forceinline__ GroupStats unpack_stats(longlong2 words) {
  return {__int_as_float(static_cast<int>(words.x)), __int_as_float(static_cast<int>(words.x >> 32)),
          __int_as_float(static_cast<int>(words.y))};
}

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

// Deviations about a centre, summed by one lane: four independent chains, since one would wait 4 cycles per addition.
struct DeviationSums {
  float4 linear = {0, 0, 0, 0}, square = {0, 0, 0, 0};

  __device__ __forceinline__ void add(float4 value, float centre) {
    add_one(value.x, centre, linear.x, square.x);
    add_one(value.y, centre, linear.y, square.y);
    add_one(value.z, centre, linear.z, square.z);
    add_one(value.w, centre, linear.w, square.w);
  }

  __device__ __forceinline__ static void add_one(float value, float centre, float& linear, float& square) {
    const float deviation = value - centre;
    linear += deviation;
    square = fmaf(deviation, deviation, square);
  }

  __device__ __forceinline__ Moments over_warp(float centre, double count) const {
    return moments_about(centre, count, warp_sum((linear.x + linear.y) + (linear.z + linear.w)),
                         warp_sum((square.x + square.y) + (square.z + square.w)));
  }
};

/// Moments of a full tile in one pass over shared memory. The centre is the mean of the tile's first quarter: if that
/// quarter's mean lies far from the tile's, the tile's own variance is at least a quarter of that distance squared,
/// so the sums about it cancel by a small factor at worst. Calls `release` as soon as the slot has been read.
template <typename P, typename Release>
__device__ __forceinline__ Moments full_tile_moments(const float4* slot, int lane, Release release) {
  constexpr int PART = P::VECTORS_PER_LANE / 4;
  float centre = 0.0f;
  DeviationSums sums;
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    float4 values[PART];
#pragma unroll
    for (int i = 0; i < PART; ++i) values[i] = slot[(part * PART + i) * WARP_THREADS + lane];
    if (part == 3) release();
    if (part == 0) {
      float4 total = {0, 0, 0, 0};
#pragma unroll
      for (int i = 0; i < PART; ++i) {
        total.x += values[i].x, total.y += values[i].y, total.z += values[i].z, total.w += values[i].w;
      }
      centre = warp_sum((total.x + total.y) + (total.z + total.w)) * (4.0f / P::TILE_FLOATS);
    }
#pragma unroll
    for (int i = 0; i < PART; ++i) sums.add(values[i], centre);
  }
  return sums.over_warp(centre, P::TILE_FLOATS);
}

/// As full_tile_moments, for the shorter tile at the end of a group.
template <typename Release>
__device__ __forceinline__ Moments short_tile_moments(const float4* slot, unsigned vectors, int lane, Release release) {
  const float count = float(vectors * VECTOR_FLOATS);
  float total = 0.0f;
  for (unsigned i = lane; i < vectors; i += WARP_THREADS) {
    const float4 value = slot[i];
    total += (value.x + value.y) + (value.z + value.w);
  }
  const float centre = warp_sum(total) / count;
  DeviationSums sums;
  for (unsigned i = lane; i < vectors; i += WARP_THREADS) sums.add(slot[i], centre);
  release();
  return sums.over_warp(centre, count);
}

/// Reduces every tile of a line as it lands, sends its moments to the group's finisher, and names the group to the
/// watcher.
template <typename P>
__device__ __forceinline__ void run_reducer(const Problem& problem, typename P::Ring& line, const float4* slots,
                                            int lane) {
  RingCursor<P::DEPTH> slot;
  RingCursor<P::Ring::MESSAGES> message;
  while (true) {
    barrier_wait(&line.loaded[slot.slot], slot.parity);
    const int tile = line.tile[slot.slot];
    const auto release_slot = [&] {
      __syncwarp();
      if (lane == 0) barrier_arrive(&line.reduced[slot.slot]);
    };
    const auto name_group = [&](int group) {
      if (lane != 0) return;
      line.group[message.slot] = group;
      barrier_arrive(&line.watched[message.slot]);
    };
    if (tile == NO_TILE) {
      name_group(NO_TILE);
      release_slot();
      return;
    }
    const TilePlace place = TilePlace::of<P::TILE_FLOATS>(tile, problem);
    name_group(place.group);
    const float4* values = slots + slot.slot * P::TILE_VECTORS;
    const Moments moments = place.vectors == P::TILE_VECTORS
                                ? full_tile_moments<P>(values, lane, release_slot)
                                : short_tile_moments(values, place.vectors, lane, release_slot);
    if (lane == 0) {
      send_message(problem.tile_moments + tile, __double_as_longlong(moments.mean), __double_as_longlong(moments.m2));
    }
    slot.advance();
    message.advance();
  }
}

/// Waits for the statistics of one group after another on behalf of the line's writer, which has stores to issue
/// meanwhile.
template <typename P>
__device__ __forceinline__ void run_watcher(const Problem& problem, typename P::Ring& line, int lane) {
  RingCursor<P::Ring::MESSAGES> message;
  while (true) {
    barrier_wait(&line.watched[message.slot], message.parity);
    const int group = line.group[message.slot];
    if (group == NO_TILE) return;
    const longlong2* from = problem.group_stats + (int64_t(group) * COPIES + blockIdx.x % COPIES) * MESSAGE_STRIDE;
    longlong2 words = read_message(from);
    while (!has_arrived(words)) words = read_message(from);
    __syncwarp();
    if (lane == 0) {
      line.stats[message.slot] = unpack_stats(words);
      barrier_arrive(&line.stats_known[message.slot]);
    }
    message.advance();
  }
}

/// Normalises the part of a tile that one lane holds and stores it.
template <typename P>
__device__ __forceinline__ void store_tile(const Problem& problem, const TilePlace& place, const GroupStats& stats,
                                           const float4 (&values)[P::VECTORS_PER_LANE], int lane) {
  float4* out = reinterpret_cast<float4*>(problem.y + place.first_float(problem));
  const float* gamma = problem.gamma + place.group_channel(problem);
  const float* beta = problem.beta + place.group_channel(problem);
  const unsigned channel = place.offset / problem.spatial;
  if (place.vectors == P::TILE_VECTORS && (place.offset + P::TILE_FLOATS - 1) / problem.spatial == channel) {
    const float scale = __ldg(gamma + channel) * stats.rstd;
    const float shift = fmaf(-stats.mean_low, scale, __ldg(beta + channel));
#pragma unroll
    for (int i = 0; i < P::VECTORS_PER_LANE; ++i) {
      out[i * WARP_THREADS + lane] = centred_affine(values[i], stats.mean_high, scale, shift);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < P::VECTORS_PER_LANE; ++i) {
    const unsigned vector = i * WARP_THREADS + lane;
    if (vector < place.vectors) {
      const unsigned own_channel = (place.offset + vector * VECTOR_FLOATS) / problem.spatial;
      const float scale = __ldg(gamma + own_channel) * stats.rstd;
      const float shift = fmaf(-stats.mean_low, scale, __ldg(beta + own_channel));
      out[vector] = centred_affine(values[i], stats.mean_high, scale, shift);
    }
  }
}

/// Takes reduced tiles into registers, refills their slots, and stores each tile when its statistics are known.
template <typename P>
__device__ __forceinline__ void run_writer(const Problem& problem, typename P::Ring& line, float4* slots, int lane) {
  RingCursor<P::DEPTH> slot;
  RingCursor<P::Ring::MESSAGES> message;
  while (true) {
    barrier_wait(&line.reduced[slot.slot], slot.parity);
    const int tile = line.tile[slot.slot];
    if (tile == NO_TILE) return;
    const TilePlace place = TilePlace::of<P::TILE_FLOATS>(tile, problem);
    float4* own_slot = slots + slot.slot * P::TILE_VECTORS;
    float4 values[P::VECTORS_PER_LANE];
#pragma unroll
    for (int i = 0; i < P::VECTORS_PER_LANE; ++i) {
      // Past the end of a short tile lies what the slot held before: harmless, and never stored.
      values[i] = own_slot[i * WARP_THREADS + lane];
    }
    __syncwarp();
    // Ahead of the stores, although the ticket takes about a microsecond to come: what the slot waits for, the memory
    // waits for too.
    if (lane == 0) {
      const int ticket = atomicAdd(problem.ticket, 1) + 1 + P::SLOTS * int(gridDim.x);
      fill_slot<P>(problem, line, own_slot, slot.slot, ticket);
    }
    __syncwarp();
    const int channel = place.first_channel(problem);
    prefetch_to_l1(problem.gamma + channel);
    prefetch_to_l1(problem.beta + channel);
    barrier_wait(&line.stats_known[message.slot], message.parity);
    store_tile<P>(problem, place, line.stats[message.slot], values, lane);
    __syncwarp();
    slot.advance();
    message.advance();
  }
}

/// Merges the moments of every gridDim-th group's tiles, in the order of the tiles, and tells all blocks the result.
template <typename P>
__device__ __forceinline__ void run_finisher(const Problem& problem, int lane) {
  constexpr int BATCH = 4;  // messages per lane on their way at once
  const int tiles = problem.tiles_per_group;
  const double last_count = double(problem.group_floats) - double(tiles - 1) * P::TILE_FLOATS;
  const double inverse_count = 1.0 / double(problem.group_floats);
  for (int group = blockIdx.x; group < problem.norm_groups; group += gridDim.x) {
    const longlong2* from = problem.tile_moments + int64_t(group) * tiles;
    double centre = 0.0, linear = 0.0, square = 0.0;
    for (int first = 0; first < tiles; first += BATCH * WARP_THREADS) {
      longlong2 words[BATCH];
      bool complete;
      do {
        complete = true;
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
          const int tile = first + i * WARP_THREADS + lane;
          words[i] = tile < tiles ? read_message(from + tile) : make_longlong2(0, 0);
          complete &= has_arrived(words[i]);
        }
      } while (!__all_sync(ALL_LANES, complete));
      if (first == 0) centre = __shfl_sync(ALL_LANES, __longlong_as_double(words[0].x), 0);
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        const int tile = first + i * WARP_THREADS + lane;
        const double count = tile < tiles - 1 ? double(P::TILE_FLOATS) : (tile == tiles - 1 ? last_count : 0.0);
        const double deviation = tile < tiles ? __longlong_as_double(words[i].x) - centre : 0.0;
        linear += count * deviation;
        square += __longlong_as_double(words[i].y) + count * deviation * deviation;
      }
    }
    linear = warp_sum(linear);
    square = warp_sum(square);
    const double shift = linear * inverse_count;
    const double mean = centre + shift;
    const double variance = (square - shift * linear) * inverse_count;
    // Rounding may leave a constant group slightly below zero; a comparison keeps NaN, which fmax would drop.
    const float rstd = float(rsqrt((variance < 0.0 ? 0.0 : variance) + problem.eps));
    const float mean_high = float(mean);
    if (lane < COPIES) {
      send_message(problem.group_stats + (int64_t(group) * COPIES + lane) * MESSAGE_STRIDE,
                   pack(mean_high, float(mean - double(mean_high))), pack(rstd, 0.0f));
    }
    if (lane == 0) {
      problem.mean[group] = mean_high;
      problem.rstd[group] = rstd;
    }
  }
}

template <typename P>
__global__ void __launch_bounds__(P::THREADS, 1) group_norm_single_pass(const Problem problem) {
  extern __shared__ __align__(128) float4 slots[];
  __shared__ typename P::Ring lines[P::LINES];
  const int lane = threadIdx.x % WARP_THREADS;
  // A warp's index, in a register that the compiler knows to be the same for all lanes.
  const int warp = __shfl_sync(ALL_LANES, int(threadIdx.x) / WARP_THREADS, 0);
  if (threadIdx.x < P::LINES) lines[threadIdx.x].init();
  fence_barrier_init();
  __syncthreads();
  if (warp == 3 * P::LINES) return run_finisher<P>(problem, lane);

  const int line = warp % P::LINES;
  float4* line_slots = slots + line * P::DEPTH * P::TILE_VECTORS;
  switch (warp / P::LINES) {
    case 0:
      // The first tiles need no tickets; the counter starts behind them.
      for (int slot = 0; lane == 0 && slot < P::DEPTH; ++slot) {
        fill_slot<P>(problem, lines[line], line_slots + slot * P::TILE_VECTORS, slot,
                     (slot * P::LINES + line) * int(gridDim.x) + int(blockIdx.x));
      }
      __syncwarp();
      return run_writer<P>(problem, lines[line], line_slots, lane);
    case 1:
      return run_reducer<P>(problem, lines[line], line_slots, lane);
    default:
      return run_watcher<P>(problem, lines[line], lane);
  }
}

// Two lines of six 16 KB slots: deep rings let reducers run far ahead of the writers. Measured against other plans in
// group_norm_single_pass.md.
using DefaultPlan = Plan<4096, 2, 6>;

struct Shape {
  int64_t batch, groups, channels_per_group, spatial;

  int64_t norm_groups() const { return batch * groups; }
  int64_t group_floats() const { return channels_per_group * spatial; }
};

/// Blocks that one launch has on the current device, 0 if it cannot run there.
template <typename P>
cudaError_t resident_blocks(int* blocks) {
  *blocks = 0;
  int major = 0, cooperative = 0, multiprocessors = 0, per_multiprocessor = 0, shared_limit = 0;
  cudaError_t status = device_attribute(&major, cudaDevAttrComputeCapabilityMajor);
  if (status == cudaSuccess) status = device_attribute(&cooperative, cudaDevAttrCooperativeLaunch);
  if (status == cudaSuccess) status = device_attribute(&multiprocessors, cudaDevAttrMultiProcessorCount);
  if (status == cudaSuccess) status = device_attribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  if (status != cudaSuccess || major < 9 || cooperative == 0 || shared_limit < P::SHARED_BYTES) return status;
  const auto kernel = group_norm_single_pass<P>;
  status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::SHARED_BYTES);
  if (status != cudaSuccess) return status;
  status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel, P::THREADS, P::SHARED_BYTES);
  *blocks = per_multiprocessor > 0 ? multiprocessors : 0;
  return status;
}

/// Layout of a launch; no blocks if the shape does not fit this kernel.
template <typename P>
struct Layout {
  int64_t tiles_per_group, tiles, group_stats_messages;

  explicit Layout(const Shape& shape)
      : tiles_per_group(ceil_div(shape.group_floats(), int64_t(P::TILE_FLOATS))),
        tiles(tiles_per_group * shape.norm_groups()),
        group_stats_messages(shape.norm_groups() * COPIES * MESSAGE_STRIDE) {}

  /// Blocks to launch where `available` can be resident; none if the shape does not fit this kernel.
  int64_t blocks(const Shape& shape, int64_t available) const {
    const bool whole_vectors = shape.spatial % VECTOR_FLOATS == 0;
    const bool indexable = shape.group_floats() <= INT32_MAX && tiles <= INT32_MAX / 2;
    const bool fits = tiles_per_group <= available * P::TILES_HELD;
    return whole_vectors && indexable && fits ? min(tiles, available) : 0;
  }

  /// Messages of all tiles and groups, and the ticket counter.
  int64_t workspace_bytes() const { return (tiles + group_stats_messages + 1) * int64_t(sizeof(longlong2)); }
};

template <typename P>
int launch(const Shape& shape, Problem problem, void* workspace, int64_t blocks, cudaStream_t stream) {
  const Layout<P> layout(shape);
  const bool aligned = is_aligned(problem.x, VECTOR_BYTES) && is_aligned(problem.y, VECTOR_BYTES);
  if (blocks < 1 || layout.blocks(shape, blocks) != blocks || !aligned) return int(cudaErrorInvalidValue);
  problem.tile_moments = static_cast<longlong2*>(workspace);
  problem.group_stats = problem.tile_moments + layout.tiles;
  problem.ticket = reinterpret_cast<int*>(problem.group_stats + layout.group_stats_messages);
  problem.tiles = int(layout.tiles);
  problem.tiles_per_group = int(layout.tiles_per_group);
  // All ones: no message has arrived. The ticket counter starts at -1, which the kernel allows for.
  KBENCH_RETURN_IF_ERROR(cudaMemsetAsync(workspace, 0xff, size_t(layout.workspace_bytes()), stream));
  void* arguments[] = {&problem};
  KBENCH_RETURN_IF_ERROR(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(group_norm_single_pass<P>),
                                                     dim3(unsigned(blocks)), dim3(P::THREADS), arguments,
                                                     size_t(P::SHARED_BYTES), stream));
  return launch_status();
}

}  // namespace
}  // namespace kbench

/// How to launch a shape on the current device: `blocks`, 0 if this kernel cannot take it (use another one then), and
/// the size of the workspace. Once per shape and device, before the first launch.
extern "C" int kbench_group_norm_single_pass_plan(int64_t batch, int64_t groups, int64_t channels_per_group,
                                                  int64_t spatial, int64_t* blocks, int64_t* workspace_bytes) {
  const kbench::Shape shape{batch, groups, channels_per_group, spatial};
  const kbench::Layout<kbench::DefaultPlan> layout(shape);
  int available = 0;
  KBENCH_RETURN_IF_ERROR(kbench::resident_blocks<kbench::DefaultPlan>(&available));
  *blocks = layout.blocks(shape, available);
  *workspace_bytes = layout.workspace_bytes();
  return 0;
}

/// x, y: (batch, groups * channels_per_group, spatial), 16-byte aligned; gamma, beta: per channel; mean, rstd: (batch,
/// groups); blocks and the workspace's size as planned, its content arbitrary. cudaErrorInvalidValue for what the plan
/// rejects.
extern "C" int kbench_group_norm_single_pass(const float* x, float* y, const float* gamma, const float* beta,
                                             float* mean, float* rstd, void* workspace, int64_t blocks,
                                             int64_t batch, int64_t groups, int64_t channels_per_group,
                                             int64_t spatial, double eps, void* stream) {
  const kbench::Shape shape{batch, groups, channels_per_group, spatial};
  kbench::Problem problem{};
  problem.x = x, problem.y = y, problem.gamma = gamma, problem.beta = beta, problem.mean = mean, problem.rstd = rstd;
  problem.norm_groups = int(shape.norm_groups());
  problem.groups = int(groups);
  problem.channels_per_group = int(channels_per_group);
  problem.group_floats = unsigned(shape.group_floats());
  problem.spatial = unsigned(spatial);
  problem.eps = eps;
  return kbench::launch<kbench::DefaultPlan>(shape, problem, workspace, blocks, static_cast<cudaStream_t>(stream));
}
