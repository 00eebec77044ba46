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

#include "group_norm_single_pass/line.cuh"
#include "group_norm_single_pass/messages.cuh"
#include "group_norm_single_pass/tile_moments.cuh"
#include "launch.cuh"
#include "mbarrier.cuh"
#include "reduce.cuh"
#include "vector.cuh"
#include "welford.cuh"

namespace kbench::single_pass {
namespace {

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
}  // namespace kbench::single_pass

/// How to launch a shape on the current device: `blocks`, 0 if this kernel cannot take it (use another one then), and
/// the size of the workspace. Once per shape and device, before the first launch.
extern "C" int kbench_group_norm_single_pass_plan(int64_t batch, int64_t groups, int64_t channels_per_group,
                                                  int64_t spatial, int64_t* blocks, int64_t* workspace_bytes) {
  const kbench::single_pass::Shape shape{batch, groups, channels_per_group, spatial};
  const kbench::single_pass::Layout<kbench::single_pass::DefaultPlan> layout(shape);
  int available = 0;
  KBENCH_RETURN_IF_ERROR(kbench::single_pass::resident_blocks<kbench::single_pass::DefaultPlan>(&available));
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
  const kbench::single_pass::Shape shape{batch, groups, channels_per_group, spatial};
  kbench::single_pass::Problem problem{};
  problem.x = x, problem.y = y, problem.gamma = gamma, problem.beta = beta, problem.mean = mean, problem.rstd = rstd;
  problem.norm_groups = int(shape.norm_groups());
  problem.groups = int(groups);
  problem.channels_per_group = int(channels_per_group);
  problem.group_floats = unsigned(shape.group_floats());
  problem.spatial = unsigned(spatial);
  problem.eps = eps;
  return kbench::single_pass::launch<kbench::single_pass::DefaultPlan>(shape, problem, workspace, blocks,
                                                                      static_cast<cudaStream_t>(stream));
}
