// What the roles of the fused convolution share: sizes, the division of work, the layout of shared memory.
//
// A cluster of blocks owns a sample, each block a band of its rows. Rows go in *units* of 4 convolution rows (one
// pooled row). Input rows come in *chunks* of 4 too: a unit reads its own chunk and the first two rows of the next.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../launch.cuh"
#include "../mbarrier.cuh"
#include "../named_barrier.cuh"
#include "../reduce.cuh"
#include "../wgmma.cuh"

namespace kbench::conv_norm_pool {

constexpr int KERNEL = 3;
constexpr int TAPS = KERNEL * KERNEL;
constexpr int POOL = 4;
constexpr int HALO = KERNEL - 1;
constexpr int MAX_IN_CHANNELS = 8;    // one 16-byte core-matrix row of fp16
constexpr int MAX_OUT_CHANNELS = 64;  // rows of a warpgroup product
constexpr int MAX_CLUSTER = 4;
constexpr int TILE_OWNED = 124;  // columns of every tile but the last, so that the next one starts on a pooling window
constexpr int TILE_MAX = WGMMA_COLUMNS - HALO;
constexpr int TILE_WINDOWS = TILE_OWNED / POOL;
constexpr int MAX_ROUNDS = 4096;  // samples of one cluster in one launch: bits of `Shared::rejected`

// A row's columns lie in PHASES: column c is pixel c / PHASES of phase c % PHASES. A consumer's thread then holds whole
// pooling windows, and a filter tap is still a start address: the next column is the next phase. The first HALO phases
// are kept once more behind the last, a pixel further on, for the taps of the last ones.
constexpr int PHASES = 16;
constexpr int PHASE_PIXELS = WGMMA_COLUMNS / PHASES;  // the columns of a core matrix
constexpr int PIXEL_BYTES = MAX_IN_CHANNELS * 2;
constexpr int PHASE_BYTES = PHASE_PIXELS * PIXEL_BYTES;
constexpr int ROW_BYTES = (PHASES + HALO) * PHASE_BYTES;  // one fp16 part (high or low) of one input row
static_assert(PHASE_PIXELS == 8 && PHASES % POOL == 0, "a phase is a core matrix, no window crosses pixels");
constexpr int CHUNK_BYTES = POOL * ROW_BYTES;
constexpr int CHUNKS = 4;
// The first two rows are kept twice, so that the six rows of every unit follow each other without a wrap.
constexpr int PLANE_BYTES = CHUNKS * CHUNK_BYTES + HALO * ROW_BYTES;
constexpr int RING_BYTES = 2 * PLANE_BYTES;

constexpr int CONSUMER_THREADS = 2 * WARPGROUP_THREADS;
constexpr int CONSUMER_WARPS = CONSUMER_THREADS / WARP_THREADS;
constexpr int PRODUCER_THREADS = WARPGROUP_THREADS;
constexpr int PRODUCER_WARPS = PRODUCER_THREADS / WARP_THREADS;
constexpr int WRITER_THREADS = WARPGROUP_THREADS;
constexpr int WRITER_WARPS = WRITER_THREADS / WARP_THREADS;
constexpr int BLOCK_THREADS = CONSUMER_THREADS + PRODUCER_THREADS + WRITER_THREADS;
static_assert(PRODUCER_WARPS == POOL && WARP_THREADS * POOL == WGMMA_COLUMNS, "a warp a row, a lane four columns");

constexpr int MAX_WINDOWS = 496;  // pooled values of a channel in a band: 16 rows of 31
constexpr int POOLED_PITCH = MAX_WINDOWS + 1;
static_assert(POOLED_PITCH % 8 == 1, "8 channels x 4 windows, 8 apart, of a warp's store hit 32 banks");
constexpr int DRAINS = 4;  // parts of a band that are handed back one by one once they are written

// Named barriers (0 is __syncthreads).
enum Barrier : int {
  SCALES_READY = 1,
  WRITERS = 2,
  LAST_STATISTICS = 3,
  CONSUMERS = 4,
  PRODUCERS = 5,
  INITIALISED = 6
};

/// Tells the other blocks that this one has started; each thread calls it once it has met its whole block. As a role's
/// first act it is right and 0.4 us faster, but memcheck does not return from it (docs/kernels.md).
__device__ __forceinline__ void arrive_cluster() {
  KBENCH_ASM_SM90("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_cluster() { KBENCH_ASM_SM90("barrier.cluster.wait.aligned;" ::: "memory"); }

/// By all but the writer, which `initialise`s and publishes the scales.
__device__ __forceinline__ void wait_for_scales() {
  sync_threads<BLOCK_THREADS>(INITIALISED);
  sync_threads<BLOCK_THREADS>(SCALES_READY);
  arrive_cluster();
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
  // How the launch divides the work, so that no block starts with divisions.
  int clusters, band_units;
  int drain_shift;               // a part of a band that is drained at a time has 2^this pooled rows
  int full_rounds, more_rounds;  // samples of every cluster; clusters that have one more

  __host__ __device__ int out_height() const { return height - KERNEL + 1; }
  __host__ __device__ int out_width() const { return width - KERNEL + 1; }
  __host__ __device__ int pooled_height() const { return out_height() / POOL; }
  __host__ __device__ int pooled_width() const { return out_width() / POOL; }
  __host__ __device__ int units() const { return ceil_div(out_height(), POOL); }
  __host__ __device__ int tiles() const {
    return out_width() <= TILE_MAX ? 1 : 1 + ceil_div(out_width() - TILE_MAX, TILE_OWNED);
  }
  /// Columns that a tile has to itself.
  __host__ __device__ int columns(int tile) const {
    const int left = out_width() - tile * TILE_OWNED;
    return left <= TILE_MAX ? left : TILE_OWNED;
  }
};

/// Whether larger convolution sums make smaller outputs: then pooling needs the minimum, as the maximum of the negated.
__device__ __forceinline__ bool is_negative(const Arguments& arguments, int channel) {
  return signbit(arguments.gamma[channel]) != signbit(arguments.scale[channel]);
}

/// This block's share: its band of every sample of its cluster.
struct Share {
  int rank, cluster_blocks, cluster, clusters;
  int first_unit, units;  // of the band
  int first_row, rows;    // convolution rows of the band
  int pooled_rows;        // of the band
  int rounds, tiles;      // samples of this cluster, and column tiles of each

  __device__ __forceinline__ explicit Share(const Arguments& arguments) {
    unsigned block_rank = 0, blocks = 1;
    KBENCH_ASM_SM90("mov.u32 %0, %%cluster_ctarank;" : "=r"(block_rank));
    KBENCH_ASM_SM90("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    rank = int(block_rank);
    cluster_blocks = int(blocks);
    unsigned cluster_id = 0;
    KBENCH_ASM_SM90("mov.u32 %0, %%clusterid.x;" : "=r"(cluster_id));
    cluster = int(cluster_id);
    clusters = arguments.clusters;
    const int all_units = arguments.units();
    first_unit = min(rank * arguments.band_units, all_units);
    units = min(arguments.band_units, all_units - first_unit);
    first_row = first_unit * POOL;
    rows = max(0, min(units * POOL, arguments.out_height() - first_row));
    pooled_rows = rows / POOL;
    rounds = arguments.full_rounds + (cluster < arguments.more_rounds);
    tiles = arguments.tiles();
  }

  __device__ __forceinline__ int sample(int round) const { return cluster + round * clusters; }
  /// Chunks of a tile: one a unit, the halo of the last, and the column sums.
  __device__ __forceinline__ int chunks() const { return units == 0 ? 0 : units + 2; }
  /// Sums of a band's input rows are handed over divided by 2^this: none is larger than the largest value then.
  __device__ __forceinline__ int sum_exponent() const { return 32 - __clz(rows + HALO - 1); }
};

/// Sums that blocks of a cluster tell each other, per group: of the values, of their squares, of the shifted squares.
struct GroupSums {
  double value, square, shifted_square;
};
constexpr int GROUP_SUMS = sizeof(GroupSums) / sizeof(double);

struct Shared {
  alignas(128) unsigned char ring[RING_BYTES];   // input rows, split, channel-minor: the B operands
  float pooled[MAX_OUT_CHANNELS][POOLED_PITCH];  // of the sample in work, not yet normalised
  GroupSums group_sums[2][MAX_CLUSTER][MAX_OUT_CHANNELS];
  GroupSums channel_sums[MAX_OUT_CHANNELS];
  double weight_sums[MAX_IN_CHANNELS][MAX_OUT_CHANNELS];
  uint64_t full[CHUNKS], empty[CHUNKS];
  uint64_t measured[2];  // by the producer: nothing of a band's input is unknown
  uint64_t summed[2], reusable[2], exchanged[2], drained[DRAINS];
  float sums[2][2][MAX_OUT_CHANNELS][2];  // per consumer warpgroup: of the products and of their squares
  float factor[MAX_OUT_CHANNELS], offset[MAX_OUT_CHANNELS];
  alignas(16) float input_factor[MAX_IN_CHANNELS];  // x -> (x - shift) * factor, as x * factor + offset
  alignas(16) float input_offset[2][MAX_IN_CHANNELS];
  float shift[2][MAX_IN_CHANNELS];
  uint32_t magnitude[2][MAX_IN_CHANNELS];  // largest |input| after that, as bits
  int input_exponent[MAX_IN_CHANNELS];     // the factor is 2^this ...
  int live[MAX_IN_CHANNELS];               // ... unless all sampled pixels were equal
  int output_exponent[MAX_OUT_CHANNELS];   // the products come out multiplied by 2^this
  int unfit_weights;
  uint32_t rejected[MAX_ROUNDS / 32];  // samples left to the exact path
};

static_assert(sizeof(Shared) <= 227 * 1024, "what a block may have");

}  // namespace kbench::conv_norm_pool
