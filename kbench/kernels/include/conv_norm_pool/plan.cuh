// What the roles of the fused convolution share: sizes, the division of work, the layout of shared memory.
//
// A cluster of blocks owns a sample, each block a band of its rows. Rows go in *units* of 4 convolution rows (one
// pooled row), each computed as two Winograd F(2,3) *pairs*: 4 input rows -> 4 transformed rows -> 2 convolution rows.
// Columns go in tiles of up to 126, every tile but the last owns 124 so that the next one starts on a pooling window.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../launch.cuh"
#include "../mbarrier.cuh"
#include "../reduce.cuh"
#include "../wgmma.cuh"

namespace kbench::conv_norm_pool {

constexpr int KERNEL = 3;
constexpr int POOL = 4;
constexpr int MAX_IN_CHANNELS = 8;    // one 16-byte core-matrix row of fp16
constexpr int MAX_OUT_CHANNELS = 64;  // rows of a warpgroup product
constexpr int MAX_CLUSTER = 4;

constexpr int PAIR_ROWS = 2;
constexpr int TRANSFORMED = 4;  // transformed rows of a pair
constexpr int TILE_OWNED = 124;
constexpr int TILE_MAX = 126;
constexpr int TILE_WINDOWS = 31;

constexpr int PART_BYTES = WGMMA_COLUMNS * MAX_IN_CHANNELS * 2;  // one fp16 part (high or low) of one transformed row
constexpr int STRIP_BYTES = 2 * PART_BYTES;
constexpr int STAGE_BYTES = TRANSFORMED * STRIP_BYTES;
constexpr int STAGES = 4;
constexpr int LOW_WEIGHTS_BYTES = WGMMA_ROWS * WGMMA_DEPTH * 2;  // of one transformed row: taps 0 and 1
constexpr int RAW_SLOTS = 4;                                     // the four input rows of a pair each, fp32
constexpr int RAW_PITCH = 532;  // floats of a channel's rows: 4 * 128, what alignment adds, and 16 banks between quads
constexpr int RAW_ROW_FLOATS = 132;  // between rows that are copied one by one

constexpr int CONSUMER_THREADS = 2 * WARPGROUP_THREADS;
constexpr int CONSUMER_WARPS = CONSUMER_THREADS / WARP_THREADS;
constexpr int PRODUCER_GROUPS = 3;
constexpr int PRODUCER_GROUP_WARPS = 2;
constexpr int PRODUCER_WARPS = PRODUCER_GROUPS * PRODUCER_GROUP_WARPS;
constexpr int WRITER_WARPS = 2;
constexpr int WRITER_THREADS = WRITER_WARPS * WARP_THREADS;
constexpr int WRITER_SLOTS = 2;
constexpr int STAGED_RUN = 512;     // pooled values that are normalised at a time, in a row
constexpr int STAGED_FLOATS = 544;  // with what alignment to 16 bytes adds
constexpr int BLOCK_THREADS = CONSUMER_THREADS + PRODUCER_WARPS * WARP_THREADS + WRITER_THREADS;
static_assert(BLOCK_THREADS == 4 * WARPGROUP_THREADS, "two warpgroups of consumers, two of the others");
constexpr int POOLED_STRIDE = 34;  // even and not a multiple of 4: a warp's 16 channels x 2 windows hit 32 banks
constexpr int MAX_ROUNDS = 4096;   // samples of one cluster in one launch: bits of `Shared::rejected`

// Named barriers (0 is __syncthreads).
enum Barrier : int { SCALES_READY = 1, WRITERS = 2, LAST_STATISTICS = 3, CONSUMERS = 4, PRODUCER_GROUP = 5 };

/// Waits at a named barrier until `threads` threads have come.
__device__ __forceinline__ void sync_threads(Barrier barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(int(barrier)), "r"(threads) : "memory");
}

/// Comes to a named barrier without waiting.
__device__ __forceinline__ void arrive_threads(Barrier barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(int(barrier)), "r"(threads) : "memory");
}

/// Index of this warp's warpgroup, in a form that the compiler knows to be the same for the whole warp: products in a
/// branch that might diverge would be serialised.
__device__ __forceinline__ int warpgroup_index() {
  return __shfl_sync(ALL_LANES, int(threadIdx.x) / WARPGROUP_THREADS, 0);
}

struct Arguments {
  const float *x, *weight, *bias, *gamma, *beta, *scale;
  float* out;
  int batch, in_channels, height, width, out_channels, groups;
  float eps, clamp_min, clamp_max;

  __host__ __device__ int out_height() const { return height - KERNEL + 1; }
  __host__ __device__ int out_width() const { return width - KERNEL + 1; }
  __host__ __device__ int pooled_height() const { return out_height() / POOL; }
  __host__ __device__ int pooled_width() const { return out_width() / POOL; }
  __host__ __device__ int units() const { return ceil_div(out_height(), POOL); }
  /// Whether rows start at multiples of 16 bytes and one tile holds all columns.
  __host__ __device__ bool is_simple() const {
    return width % 4 == 0 && width <= WGMMA_COLUMNS && reinterpret_cast<uintptr_t>(x) % 16 == 0;
  }
  __host__ __device__ int tiles() const {
    return out_width() <= TILE_MAX ? 1 : 1 + ceil_div(out_width() - TILE_MAX, TILE_OWNED);
  }
};

/// Whether larger convolution sums make smaller outputs: then pooling needs the minimum, as the maximum of the negated.
__device__ __forceinline__ bool is_negative(const Arguments& arguments, int channel) {
  return signbit(arguments.gamma[channel]) != signbit(arguments.scale[channel]);
}

/// This block's share: its band of every sample of its cluster.
struct Share {
  int rank, cluster_blocks, cluster, clusters;
  int first_unit, end_unit;
  int first_row, rows;  // convolution rows of the band
  int rounds;           // samples of this cluster

  __device__ __forceinline__ explicit Share(const Arguments& arguments) {
    unsigned block_rank = 0, blocks = 1;
    KBENCH_ASM_SM90("mov.u32 %0, %%cluster_ctarank;" : "=r"(block_rank));
    KBENCH_ASM_SM90("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    rank = int(block_rank);
    cluster_blocks = int(blocks);
    cluster = int(blockIdx.x) / cluster_blocks;
    clusters = int(gridDim.x) / cluster_blocks;
    const int units = arguments.units();
    const int band = ceil_div(units, cluster_blocks);
    first_unit = min(rank * band, units);
    end_unit = min(first_unit + band, units);
    first_row = first_unit * POOL;
    rows = min(end_unit * POOL, arguments.out_height()) - min(first_row, arguments.out_height());
    rounds = (arguments.batch - cluster + clusters - 1) / clusters;
  }

  __device__ __forceinline__ int sample(int round) const { return cluster + round * clusters; }
  __device__ __forceinline__ int pairs() const { return ceil_div(rows, PAIR_ROWS); }
  /// Pairs of one unit: 2, but for a last unit of one or two rows.
  __device__ __forceinline__ int unit_pairs(int unit) const {
    return min(POOL / PAIR_ROWS, ceil_div(first_row + rows - unit * POOL, PAIR_ROWS));
  }
};

/// Sums that blocks of a cluster tell each other, per group: of the values, of their squares, of the shifted squares.
struct GroupSums {
  double value, square, shifted_square;
};

/// x -> (x - shift) * factor for four channels, as x * factor + offset.
struct alignas(16) QuadScales {
  float factor[4], offset[4], shift[4];
};

struct Shared {
  alignas(1024) unsigned char zeros[PART_BYTES];                 // half of a B operand that contributes nothing
  unsigned char low_weights[TRANSFORMED * LOW_WEIGHTS_BYTES];    // A operands that registers have no room for
  unsigned char ring[STAGES * STAGE_BYTES];                      // transformed rows, split: the B operands
  alignas(16) float raw[RAW_SLOTS][MAX_IN_CHANNELS][RAW_PITCH];  // input rows in flight
  int skew[RAW_SLOTS][TRANSFORMED][MAX_IN_CHANNELS];             // floats before a row that its copy brought along
  float pooled[CONSUMER_WARPS][16 * POOLED_STRIDE];              // a warp's pooled row, to be stored in full sectors
  alignas(16) float staged[WRITER_WARPS][WRITER_SLOTS][STAGED_FLOATS];  // pooled values on their way to be normalised
  GroupSums group_sums[2][MAX_CLUSTER][MAX_OUT_CHANNELS];
  GroupSums channel_sums[MAX_OUT_CHANNELS];
  double weight_sums[MAX_IN_CHANNELS][MAX_OUT_CHANNELS];
  uint64_t full[STAGES], empty[STAGES];
  uint64_t raw_full[RAW_SLOTS], started[PRODUCER_GROUPS];
  uint64_t summed[2], reusable[2], exchanged[2], staged_full[WRITER_WARPS][WRITER_SLOTS];
  float sums[2][2][MAX_OUT_CHANNELS][2];  // per consumer warpgroup: of the products and of their squares
  float factor[MAX_OUT_CHANNELS], offset[MAX_OUT_CHANNELS];
  QuadScales scales[PRODUCER_GROUPS][PRODUCER_GROUP_WARPS][2];
  float shift[2][MAX_IN_CHANNELS];         // subtracted from the input before it is scaled
  uint32_t magnitude[2][MAX_IN_CHANNELS];  // largest |transformed input|, as bits
  int input_exponent[MAX_IN_CHANNELS];     // the input is multiplied by 2^this ...
  int live[MAX_IN_CHANNELS];               // ... unless all sampled pixels were equal
  int output_exponent[MAX_OUT_CHANNELS];   // the products come out multiplied by 2^this
  Share share;                             // kept here: the roles' registers are few
  int unfit_weights;
  uint32_t rejected[MAX_ROUNDS / 32];  // samples left to the exact path
};

// The rest of the 256 KB is L1, where spilled registers of the producers and writers live: 60 KB, and not the 28 that
// the largest carve-out would leave.
constexpr int SHARED_CARVEOUT_BYTES = 196 * 1024, MAX_CARVEOUT_BYTES = 228 * 1024;
static_assert(sizeof(Shared) + 1024 <= SHARED_CARVEOUT_BYTES, "1 KB is the system's");

}  // namespace kbench::conv_norm_pool
