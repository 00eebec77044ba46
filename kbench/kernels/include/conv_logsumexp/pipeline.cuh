// One producer warpgroup turns fp32 input rows into a ring of fp16 pairs; consumer warpgroups take the output rows in
// turn.
//
// Both passes over the input (statistics, then epilogue) run on it. Input rows have sequence numbers within the
// block: a run of r output rows takes r + 2 of them. `full[row]` says that an input row and all before it are there;
// `empty[row]` that the output row starting there, and so every earlier reader of that slot, is done (the two halo
// rows go with the last row).
#pragma once

#include "../bulk_copy.cuh"
#include "../named_barrier.cuh"
#include "convolution.cuh"

namespace kbench::conv_logsumexp {

constexpr int WEIGHT_PITCH = MAX_INPUT_CHANNELS * TAPS + 1;  // odd: one row per lane without bank conflicts
constexpr int BATCH_ROWS = 3;                                // input rows on their way in the producer's registers
constexpr int PREFETCHED_ROWS = 32;                          // on their way to the cache beyond those
constexpr int LINE_FLOATS = 32;                              // of a line of the cache
constexpr int PRODUCER_BARRIER = 1;
constexpr int FIRST_CONSUMER_BARRIER = 2;  // one per consumer warpgroup
constexpr int FIRST_TURN_BARRIER = 6;      // likewise
constexpr int CONSUMERS_BARRIER = 10;      // all of them
// Of the first pass on correlations: its ring has stages of BATCH_ROWS rows, each with a barrier to give it back.
constexpr int STAGES = RING_ROWS / BATCH_ROWS;
constexpr int ZERO_ROW = RING_ROWS;  // a row of zeros in the ring's planes
static_assert(STAGES * BATCH_ROWS <= ZERO_ROW, "no stage uses the row of zeros");
constexpr int FIRST_STAGE_BARRIER = 11;
constexpr int EDGES_TAKEN_BARRIER = 2, ZERO_ROW_BARRIER = 3, RUN_BARRIER = 4;
static_assert(FIRST_STAGE_BARRIER + STAGES <= 16, "a block has 16 barriers");
constexpr int LAG_TILES = 8, LAGS = 2 * LAG_TILES;  // 13 distances between taps, sums, and two tiles' halves to spare
constexpr int LAG_WARPS = TILE_PIXELS / 16, CONSUMER_WARPS = LAG_WARPS + 4;
constexpr int EDGES_GROUP = 2;                // the warpgroup for edges; 0 and 1 take the lags
constexpr int EDGE_ROWS = 16;                 // of the columns at the edges, taken together
constexpr int PAIRS = TAPS * (TAPS + 1) / 2;  // of taps
// Pitch of the transposition buffer: rows 8 banks apart, so that 16 lanes' 8-byte stores hit 32 banks.
constexpr int TRANSPOSE_PITCH = TILE_PIXELS + 8;

/// What the epilogue needs of a channel: exponents of both activations' arguments, as multiples of the accumulator.
struct ChannelConstants {
  float gate_slope, gate_offset;    // 2 log2(e) * normalised value
  float value_slope, value_offset;  // log2(e) * convolution
};

struct SampleConstants {
  float offset;  // to add to the logarithm, base 2
  int tier;
};

/// What makes up G of a pair of taps: offsets of floats within CorrelationShared.
struct alignas(16) PairTerms {
  uint16_t lag, columns[2], rows[2];      // 64 sums each: of the whole run, less those of the edges
  uint16_t corners[4], other_corners[4];  // 8 channels each: their products, which two edges have taken off
  uint8_t factor, taps, other_taps;
};

/// Of the first pass, see correlation.cuh; lags' sums are [channel][channel of the row before].
struct CorrelationShared {
  float weights[MAX_CHANNELS * WEIGHT_PITCH];
  uint4 zero, ones;                  // a pixel outside the image, and one to sum others up
  uint4 columns[2][4][TILE_PIXELS];  // high and low parts of the run's first two and last two columns
  uint4 rows[2][4][TILE_PIXELS];     // and rows
  union {
    float lags[LAG_WARPS][LAGS][64];
    struct {
      float all_lags[LAGS][64];  // their sums, over the first
      float gram[PAIRS][64];
      double parts[CONSUMER_WARPS][2][MAX_CHANNELS];
    };
  };
  float column_lags[4][LAGS][64];
  float row_lags[6][6][64];
  float corners[4][4][8];
  float peaks[4];  // largest squared norm of three pixels below each other, of each warp of the producer
  float sums[TAPS * 8], power[8], nothing[64];
  PairTerms terms[PAIRS];
};

/// Of the second pass.
template <int CONSUMERS>
struct EpilogueShared {
  alignas(16) float transpose[CONSUMERS][4][8][TRANSPOSE_PITCH];
  alignas(16) float warp_sums[CONSUMERS][2][4][TILE_PIXELS];
  alignas(16) float warp_maxima[CONSUMERS][2][4][TILE_PIXELS];
};

template <int CONSUMERS>
struct alignas(128) Shared {
  alignas(128) unsigned char ring[RING_BYTES];
  alignas(128) WeightSlices weights;
  union {
    CorrelationShared correlation;
    EpilogueShared<CONSUMERS> epilogue;
  };
  alignas(16) ChannelConstants channels[2][MAX_CHANNELS];
  double weight_sum[MAX_CHANNELS][MAX_INPUT_CHANNELS + 1];
  double channel_mean[MAX_CHANNELS];
  double channel_squares[MAX_CHANNELS];
  float channel_weight[MAX_CHANNELS];
  uint64_t full[RING_ROWS], empty[RING_ROWS], constants_full[2], constants_empty[2];
  uint64_t stage_full[STAGES], edges_full[TILE_PIXELS / EDGE_ROWS];
  uint64_t weights_loaded, lags_full, lags_empty;
  float bias[MAX_CHANNELS], gamma[MAX_CHANNELS], beta[MAX_CHANNELS];
  float weight_scale[MAX_CHANNELS], weight_l1[MAX_CHANNELS], weight_l2[MAX_CHANNELS];
  float weight_l1_of[MAX_CHANNELS][MAX_INPUT_CHANNELS];
  float warp_scratch[4][4];
  Frame frame;
  SampleConstants samples[2];
  int special;  // whether a sample of the block is of TIER_REPEAT or TIER_EXACT: else nothing follows the second pass
};

/// `loaders` threads load the weights.
template <int CONSUMERS>
__device__ void init_barriers(Shared<CONSUMERS>& shared, int loaders) {
  shared.special = 0;
  barrier_init(&shared.weights_loaded, loaders);
  barrier_init(&shared.lags_full, 3 * WARPGROUP_THREADS);
  barrier_init(&shared.lags_empty, WARPGROUP_THREADS);
  for (int row = 0; row < RING_ROWS; ++row) {
    barrier_init(&shared.full[row], 4);
    barrier_init(&shared.empty[row], 4);
  }
  for (int buffer = 0; buffer < 2; ++buffer) {
    barrier_init(&shared.constants_full[buffer], WARPGROUP_THREADS);
    barrier_init(&shared.constants_empty[buffer], CONSUMERS * WARPGROUP_THREADS);
  }
  for (int stage = 0; stage < STAGES; ++stage) barrier_init(&shared.stage_full[stage], WARPGROUP_THREADS);
  for (uint64_t& edges : shared.edges_full) barrier_init(&edges, WARPGROUP_THREADS);
  constexpr uint32_t ONES = 0x3C003C00u;  // two of fp16
  shared.correlation.zero = make_uint4(0u, 0u, 0u, 0u);
  shared.correlation.ones = make_uint4(ONES, ONES, ONES, ONES);
  fence_barrier_init();
}

/// Brings the weights into shared memory, with each channel's scale, absolute sum and sums per input channel, and
/// from there as fp16 slices. Called by THREADS threads, the first of which is `first`.
template <int THREADS, int CONSUMERS>
__device__ void load_weights(const Problem& problem, Shared<CONSUMERS>& shared, int first) {
  const int thread = threadIdx.x - first;
  float* staged = shared.correlation.weights;
  const int own = problem.in_channels * TAPS;
  constexpr int EACH = MAX_CHANNELS * MAX_INPUT_CHANNELS * TAPS / THREADS;
  static_assert(EACH * THREADS == MAX_CHANNELS * MAX_INPUT_CHANNELS * TAPS, "no thread is left over");
  float values[EACH];  // all on their way at once: they come from cold memory
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int index = thread + i * THREADS;
    const int channel = index / (MAX_INPUT_CHANNELS * TAPS), k = index % (MAX_INPUT_CHANNELS * TAPS);
    values[i] = channel < problem.channels && k < own ? __ldg(problem.weight + channel * own + k) : 0.f;
  }
  if (thread < problem.channels) {
    shared.bias[thread] = __ldg(problem.bias + thread);
    shared.gamma[thread] = __ldg(problem.gamma + thread);
    shared.beta[thread] = __ldg(problem.beta + thread);
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int index = thread + i * THREADS;
    staged[index / (MAX_INPUT_CHANNELS * TAPS) * WEIGHT_PITCH + index % (MAX_INPUT_CHANNELS * TAPS)] = values[i];
  }
  sync_threads<THREADS>(CONSUMERS_BARRIER);
  for (int i = thread; i < MAX_CHANNELS * MAX_INPUT_CHANNELS; i += THREADS) {
    const int channel = i / MAX_INPUT_CHANNELS, input = i % MAX_INPUT_CHANNELS;
    float largest = 0.f, l1 = 0.f, l2 = 0.f;
    double sum = 0;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
      const float w = staged[channel * WEIGHT_PITCH + input * TAPS + tap];
      largest = fmaxf(largest, fabsf(w));
      l1 += fabsf(w);
      sum += double(w);
    }
    shared.weight_sum[channel][input] = sum;
    shared.weight_l1_of[channel][input] = l1;
#pragma unroll
    for (int step = 1; step < MAX_INPUT_CHANNELS; step *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    }
    const float scale = power_of_two_scale(largest, WEIGHT_EXPONENT);
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
      const float w = staged[channel * WEIGHT_PITCH + input * TAPS + tap] * scale;
      l2 = fmaf(w, w, l2);
    }
#pragma unroll
    for (int step = 1; step < MAX_INPUT_CHANNELS; step *= 2) {
      l1 += __shfl_xor_sync(~0u, l1, step);
      l2 += __shfl_xor_sync(~0u, l2, step);
    }
    if (input == 0) {
      shared.weight_scale[channel] = scale;
      shared.weight_l1[channel] = l1;
      shared.weight_l2[channel] = sqrtf(l2);
    }
  }
  sync_threads<THREADS>(CONSUMERS_BARRIER);
  for (int i = thread; i < MAX_CHANNELS * TAPS; i += THREADS) {
    const int channel = i % MAX_CHANNELS, tap = i / MAX_CHANNELS;
    const float* row = staged + channel * WEIGHT_PITCH + tap;
    const float scale = shared.weight_scale[channel];
    SplitPair pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = split_fp16(row[2 * j * TAPS] * scale, row[(2 * j + 1) * TAPS] * scale);
    const uint4 high = make_uint4(pairs[0].high, pairs[1].high, pairs[2].high, pairs[3].high);
    shared.weights[HIGH_SLICE + tap][channel] = high;
    shared.weights[LOW_SLICE + tap][channel] = make_uint4(pairs[0].low, pairs[1].low, pairs[2].low, pairs[3].low);
    if (tap == TAPS - 1) {
      shared.weights[HIGH_8_SLICE][channel] = high;
      shared.weights[EMPTY_SLICE][channel] = make_uint4(0u, 0u, 0u, 0u);
    }
  }
  fence_shared_to_async();
  sync_threads<THREADS>(CONSUMERS_BARRIER);
}

/// The producer's side: each of 128 threads owns a pixel column and keeps the next BATCH_ROWS rows' values on their
/// way in registers. It publishes rows by ordinary stores; whoever reads them with the tensor cores fences. A fence
/// here would wait for the loads in flight, and make every batch pay the memory's latency.
template <int CONSUMERS>
class Feeder {
 public:
  __device__ Feeder(const Problem& problem, Shared<CONSUMERS>& shared)
      : problem_(problem), shared_(shared), thread_(threadIdx.x % WARPGROUP_THREADS) {}

  /// Takes over shared.frame; all of the warpgroup, after a barrier.
  __device__ void use_frame() {
#pragma unroll
    for (int c = 0; c < MAX_INPUT_CHANNELS; ++c) origin_[c] = shared_.frame.origin[c] * shared_.frame.scale;
    scale_ = shared_.frame.scale;
  }

  /// Feeds all rows of a run to the first pass on correlations, with its edges kept aside. `prepare`, which announces
  /// the run and sees to the frame, is called when the first rows are on their way.
  template <typename Prepare>
  __device__ void feed_correlated(const Run& run, bool first_run, Prepare prepare) {
    // Up to 2 * BATCH_ROWS - 1 rows beyond the run's are loaded where that stays within the input.
    const bool follows = run.sample < problem_.batch - 1 || run.y + run.rows + 2 + 2 * BATCH_ROWS <= problem_.height;
    if (problem_.width == TILE_PIXELS && follows) {
      feed_correlated_rows<true>(run, first_run, prepare);
    } else {
      feed_correlated_rows<false>(run, first_run, prepare);
    }
  }

  /// Waits until all that feed_correlated() has fed is used up.
  __device__ void drain_correlated() {
    for (int stage = max(0, stage_ - STAGES); stage < stage_; ++stage) {
      sync_threads<3 * WARPGROUP_THREADS>(FIRST_STAGE_BARRIER + stage % STAGES);
    }
    sync_threads<2 * WARPGROUP_THREADS>(EDGES_TAKEN_BARRIER);
  }

  /// Asks the cache for a run's first rows, which then come while the sample's frame is made.
  __device__ void announce(const Run& run) const { prefetch(run, 0, min(PREFETCHED_ROWS, run.rows + 2)); }

  /// Feeds input rows [begin, end) of an announced run's rows + 2.
  __device__ void feed(const Run& run, int begin, int end) {
    const uint32_t width = problem_.width, plane = uint32_t(problem_.height) * width;
    const float* sample = problem_.x + int64_t(run.sample) * problem_.in_channels * plane;
    const float* pixel = sample + uint32_t(run.y + begin) * width + min(uint32_t(run.left() + thread_), width - 1);
    // Opaque: offsets that depend on it are made here, not kept in registers through all that comes before.
    uint32_t plane_bytes = plane * uint32_t(sizeof(float));
    asm volatile("" : "+r"(plane_bytes));
    float values[BATCH_ROWS][MAX_INPUT_CHANNELS];
    load(values, pixel, plane_bytes, 0, end - begin - 1);
    for (int first = begin; first < end; first += BATCH_ROWS) {
#pragma unroll
      for (int i = 0; i < BATCH_ROWS; ++i) {
        const int slot = (sequence_ + i) & (RING_ROWS - 1);
        if (first + i < end) barrier_wait(&shared_.empty[slot], ((sequence_ + i) / RING_ROWS & 1) ^ 1);
      }
#pragma unroll
      for (int i = 0; i < BATCH_ROWS; ++i) store(values[i], (sequence_ + i) & (RING_ROWS - 1), first + i < end);
      __syncwarp();
      const int lane = thread_ % 32, rows = min(BATCH_ROWS, end - first);
      if (lane < rows) barrier_arrive(&shared_.full[(sequence_ + lane) & (RING_ROWS - 1)]);
      sequence_ += rows;
      // Only now: a load that is issued among the stores makes the next of them wait for it.
      if (first + BATCH_ROWS < end) load(values, pixel, plane_bytes, first - begin + BATCH_ROWS, end - begin - 1);
      const int ahead = first + PREFETCHED_ROWS;
      prefetch(run, ahead, min(BATCH_ROWS, run.rows + 2 - ahead));
    }
  }

 private:
  /// All rows of a run; WHOLE_ROWS where they are TILE_PIXELS wide and rows that follow the last may be loaded.
  template <bool WHOLE_ROWS, typename Prepare>
  __device__ __forceinline__ void feed_correlated_rows(const Run& run, bool first_run, Prepare prepare) {
    const uint32_t width = problem_.width, plane = uint32_t(problem_.height) * width;
    const float* sample = problem_.x + int64_t(run.sample) * problem_.in_channels * plane;
    const float* pixel = sample + uint32_t(run.y) * width + min(uint32_t(thread_), width - 1);
    const int rows = run.rows + 2, from_right = problem_.width - 1 - thread_;
    const bool edge = thread_ < 2 || from_right == 0 || from_right == 1;
    CorrelationShared& own = shared_.correlation;
    int edges = 0;  // rows whose edge columns are published
    const uint32_t ring = shared_address(shared_.ring) + thread_ * PIXEL_BYTES;
    const uint32_t column = shared_address(own.columns[0][thread_ < 2 ? thread_ : edge ? 3 - from_right : 0]);
    const uint32_t edge_row = shared_address(&own.rows[0][0][thread_]);
    // The thread's line of each three rows: PREFETCHED_LANES lines of a channel.
    constexpr int PREFETCHED_LANES = WARPGROUP_THREADS / MAX_INPUT_CHANNELS, ROW_LINES = TILE_PIXELS / LINE_FLOATS;
    static_assert(PREFETCHED_LANES >= BATCH_ROWS * ROW_LINES, "a stage's lines are a thread's each");
    const int line = thread_ % PREFETCHED_LANES, prefetched_channel = thread_ / PREFETCHED_LANES;
    const bool prefetches = line < BATCH_ROWS * ROW_LINES && prefetched_channel < problem_.in_channels;
    const int prefetched_row = prefetches ? line / ROW_LINES : rows;
    const float* prefetched = sample + plane * uint32_t(prefetched_channel) +
                              (uint32_t(run.y + PREFETCHED_ROWS) * width + uint32_t(line * LINE_FLOATS));
    float peak = 0.f, norm_before = 0.f, norm_before_that = 0.f;
    float values[BATCH_ROWS][MAX_INPUT_CHANNELS], ready[BATCH_ROWS][MAX_INPUT_CHANNELS];
    if constexpr (WHOLE_ROWS) {
      load_whole_rows(values, pixel, plane * uint32_t(sizeof(float)));
    } else {
      load<true>(values, pixel, plane * uint32_t(sizeof(float)), 0, rows - 1);
    }
    prepare();
    if (!first_run) sync_threads<2 * WARPGROUP_THREADS>(EDGES_TAKEN_BARRIER);
#pragma unroll 1
    for (int first = 0; first < rows; first += BATCH_ROWS, ++stage_) {
      // All that has come is used before the next loads start, because a wait for one load is a wait for all. Those are
      // on their way while this stage is made.
#pragma unroll
      for (int i = 0; i < BATCH_ROWS; ++i) {
#pragma unroll
        for (int c = 0; c < MAX_INPUT_CHANNELS; ++c) {
          ready[i][c] = scaled(values[i], c);
          asm volatile("" : "+f"(ready[i][c])::"memory");
        }
      }
      if constexpr (WHOLE_ROWS) {
        pixel += BATCH_ROWS * TILE_PIXELS;
        load_whole_rows(values, pixel, plane * uint32_t(sizeof(float)));
      } else {
        load<true>(values, pixel, plane * uint32_t(sizeof(float)), first + BATCH_ROWS, rows - 1);
      }
      const int slot = stage_ % STAGES;
      if (stage_ >= STAGES) sync_threads<3 * WARPGROUP_THREADS>(FIRST_STAGE_BARRIER + slot);
#pragma unroll
      for (int i = 0; i < BATCH_ROWS; ++i) {
        const int row = first + i;
        SplitPair pairs[4];
        float norm = 0.f;
#pragma unroll
        for (int j = 0; j < 4; ++j) pairs[j] = split_fp16(ready[i][2 * j], ready[i][2 * j + 1]);
#pragma unroll
        for (int c = 0; c < MAX_INPUT_CHANNELS; ++c) norm = fmaf(ready[i][c], ready[i][c], norm);
        if (row >= rows) norm = 0.f;
        peak = fmaxf(peak, norm + norm_before + norm_before_that);
        norm_before_that = norm_before;
        norm_before = norm;
        write(ring + (slot * BATCH_ROWS + i) * ROW_BYTES, pairs, true);
        write(column + row * PIXEL_BYTES, pairs, edge && row < rows, sizeof(own.columns[0]));
        write(edge_row + (row & 1) * ROW_BYTES, pairs, row < 2, sizeof(own.rows[0]));
        write(edge_row + (row + 4 - rows & 3) * ROW_BYTES, pairs, row >= rows - 2 && row < rows, sizeof(own.rows[0]));
      }
      barrier_arrive(&shared_.stage_full[slot]);
      for (; edges + EDGE_ROWS < rows && edges + EDGE_ROWS + 2 <= first + BATCH_ROWS; edges += EDGE_ROWS) {
        barrier_arrive(&shared_.edges_full[edges / EDGE_ROWS]);
      }
      const int ahead = first + PREFETCHED_ROWS;
      if constexpr (WHOLE_ROWS) {
        if (ahead + prefetched_row < rows) asm volatile("prefetch.global.L2 [%0];" ::"l"(prefetched));
        prefetched += BATCH_ROWS * TILE_PIXELS;
      } else {
        prefetch(run, ahead, min(BATCH_ROWS, rows - ahead));
      }
    }
#pragma unroll
    for (int step = 1; step < 32; step *= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, step));
    if (thread_ % 32 == 0) own.peaks[thread_ / 32] = peak;
    // All of them, used or not: their parity is that of the run.
    for (; edges < TILE_PIXELS; edges += EDGE_ROWS) barrier_arrive(&shared_.edges_full[edges / EDGE_ROWS]);
  }

  /// Asks the cache for rows that will be loaded later: a batch in registers is too little to hide the memory behind.
  __device__ void prefetch(const Run& run, int begin, int rows) const {
    constexpr int LANES = WARPGROUP_THREADS / MAX_INPUT_CHANNELS;
    const int channel = thread_ / LANES, floats = rows * problem_.width;
    if (rows <= 0 || channel >= problem_.in_channels) return;
    const int64_t plane = int64_t(run.sample) * problem_.in_channels + channel;
    const float* first = problem_.x + (plane * problem_.height + run.y + begin) * problem_.width;
#pragma unroll 1
    for (int at = thread_ % LANES * LINE_FLOATS; at < floats + LINE_FLOATS - 1; at += LANES * LINE_FLOATS) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(first + min(at, floats - 1)));
    }
  }

  /// BATCH_ROWS rows of the thread's column from the given pixel on, where rows are TILE_PIXELS wide. An address serves
  /// three loads: one for each would have to wait until an earlier load has read its own, for they share few registers.
  __device__ __forceinline__ void load_whole_rows(float (&values)[BATCH_ROWS][MAX_INPUT_CHANNELS], const float* pixel,
                                                  uint32_t plane_bytes) const {
    static_assert(BATCH_ROWS == 3, "three loads");
    constexpr int PITCH = TILE_PIXELS * int(sizeof(float));
#pragma unroll
    for (int c = 0; c < MAX_INPUT_CHANNELS; ++c) {
      const uint64_t bytes = uint64_t(plane_bytes) * uint32_t(min(c, problem_.in_channels - 1));
      asm volatile(
          "ld.global.f32 %0, [%3];\n"
          "ld.global.f32 %1, [%3 + %4];\n"
          "ld.global.f32 %2, [%3 + %5];\n"
          : "=&f"(values[0][c]), "=&f"(values[1][c]), "=&f"(values[2][c])
          : "l"(reinterpret_cast<const char*>(pixel) + bytes), "n"(PITCH), "n"(2 * PITCH)
          : "memory");
    }
  }

  /// BATCH_ROWS rows of the thread's column from the given one on; rows beyond the last repeat it, and channels beyond
  /// the input's its last one: their weights are zero. Nothing here depends on a condition, nor does any use of what is
  /// loaded: a register whose last load may still be unused makes the next load wait for it.
  /// IN_ORDER keeps the loads where they stand among stores and barriers.
  template <bool IN_ORDER = false>
  __device__ void load(float (&values)[BATCH_ROWS][MAX_INPUT_CHANNELS], const float* pixel, uint32_t plane_bytes,
                       int row, int last) const {
#pragma unroll
    for (int i = 0; i < BATCH_ROWS; ++i) {
      const float* at = pixel + uint32_t(min(row + i, last)) * uint32_t(problem_.width);
#pragma unroll
      for (int c = 0; c < MAX_INPUT_CHANNELS; ++c) {
        const uint64_t bytes = uint64_t(plane_bytes) * uint32_t(min(c, problem_.in_channels - 1));
        const char* source = reinterpret_cast<const char*>(at) + bytes;
        if constexpr (IN_ORDER) {
          asm volatile("ld.global.f32 %0, [%1];" : "=f"(values[i][c]) : "l"(source) : "memory");
        } else {
          asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(values[i][c]) : "l"(source));
        }
      }
    }
  }

  __device__ void store(const float (&values)[MAX_INPUT_CHANNELS], int slot, bool keep) {
    SplitPair pairs[4];
    split(values, pairs);
    const uint32_t pixel = shared_address(shared_.ring) + slot * ROW_BYTES + thread_ * PIXEL_BYTES;
    write(pixel, pairs, keep);
    write(pixel + RING_ROWS * ROW_BYTES, pairs, keep && slot < 2);
  }

  __device__ void split(const float (&values)[MAX_INPUT_CHANNELS], SplitPair (&pairs)[4]) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = split_fp16(scaled(values, 2 * j), scaled(values, 2 * j + 1));
  }

  /// (value - origin) * scale, rounded once: the scale is a power of two.
  __device__ float scaled(const float (&values)[MAX_INPUT_CHANNELS], int c) const {
    return fmaf(values[c], scale_, -origin_[c]);
  }

  static __device__ void write(uint32_t pixel, const SplitPair (&pairs)[4], bool keep,
                               uint32_t plane_bytes = RING_PLANE_BYTES) {
    store_shared_if(keep, pixel, pairs[0].high, pairs[1].high, pairs[2].high, pairs[3].high);
    store_shared_if(keep, pixel + plane_bytes, pairs[0].low, pairs[1].low, pairs[2].low, pairs[3].low);
  }

  /// 16 bytes to shared memory, without a branch around what makes them.
  static __device__ __forceinline__ void store_shared_if(bool keep, uint32_t address, uint32_t a, uint32_t b, uint32_t c,
                                                         uint32_t d) {
    asm volatile(
        "{\n"
        ".reg .pred keep;\n"
        "setp.ne.b32 keep, %0, 0;\n"
        "@keep st.shared.v4.b32 [%1], {%2, %3, %4, %5};\n"
        "}\n" ::"r"(int(keep)),
        "r"(address), "r"(a), "r"(b), "r"(c), "r"(d)
        : "memory");
  }

  const Problem& problem_;
  Shared<CONSUMERS>& shared_;
  int thread_;
  int sequence_ = 0;  // of the next ring row
  int stage_ = 0;     // of the next stage of the first pass on correlations
  float origin_[MAX_INPUT_CHANNELS];
  float scale_ = 1.f;
};

/// The consumers' side: warpgroup `group` computes every CONSUMERS-th output row of the block.
///
/// The tensor cores share their time fairly among warpgroups that all have products waiting, which would bring all of
/// them to their epilogues together and leave the tensor cores idle then. So the products run in turns: the next
/// warpgroup issues its own when only the last LATE steps of this one's are left. One warpgroup's products alone take 78
/// cycles a step, those of two 65.
template <int CONSUMERS>
class Consumer {
 public:
  __device__ Consumer(const Problem& problem, Shared<CONSUMERS>& shared, int group)
      : problem_(problem), shared_(shared), group_(group), turn_(group), lane_(threadIdx.x % 32) {
    if (group == CONSUMERS - 1) pass_turn();  // the first turn is nobody's to give
  }

  /// One pass over a walk's rows: work.begin(sample), work.row(run, y, accumulators), work.end(sample), and
  /// work.beside_products() before each row.
  template <int LATE, typename Work>
  __device__ void pass(Work& work, Walk walk) {
    float accumulators[WGMMA_SUMS];
    Run run;
    int sample = -1;
    while (walk.next(problem_, run)) {
      if (run.sample != sample) {
        if (sample >= 0) work.end(sample);
        sample = run.sample;
        work.begin(sample);
      }
      for (; turn_ < run.rows; turn_ += CONSUMERS) {
        multiply<LATE>(accumulators, turn_ == run.rows - 1, work);
        work.row(run, run.y + turn_, accumulators);
      }
      turn_ -= run.rows;
      sequence_ += run.rows + 2;
    }
    work.end(sample);
  }

 private:
  __device__ void pass_turn() {
    arrive_threads<2 * WARPGROUP_THREADS>(FIRST_TURN_BARRIER + (group_ + 1) % CONSUMERS);
  }

  /// Row `turn_` of the current run; the last row of a run also frees the two input rows below it.
  template <int LATE, typename Work>
  __device__ __forceinline__ void multiply(float (&accumulators)[WGMMA_SUMS], bool last_of_run, Work& work) {
    constexpr int MASK = RING_ROWS - 1;
    const int first = sequence_ + turn_, last = first + 2;
    barrier_wait(&shared_.full[last & MASK], last / RING_ROWS & 1);
    fence_shared_to_async();  // on behalf of the producer, whose stores the barrier has made visible here
    sync_threads<2 * WARPGROUP_THREADS>(FIRST_TURN_BARRIER + group_);
    // The shuffle tells the compiler that the address is the warp's: descriptors then stay in uniform registers.
    const uint32_t address = shared_address(shared_.ring) + (first & MASK) * ROW_BYTES;
    start_row<LATE>(accumulators, shared_address(shared_.weights), __shfl_sync(~0u, address, 0));
    work.beside_products();
    wgmma_wait<1>();
    pass_turn();
    wgmma_wait<0>();
    wgmma_pin(accumulators);
    if (lane_ == 0) {
      barrier_arrive(&shared_.empty[first & MASK]);
      if (last_of_run) {
        barrier_arrive(&shared_.empty[(first + 1) & MASK]);
        barrier_arrive(&shared_.empty[last & MASK]);
      }
    }
    __syncwarp();
  }

  const Problem& problem_;
  Shared<CONSUMERS>& shared_;
  int group_;
  int turn_;          // rows of the current run until this warpgroup's next one
  int sequence_ = 0;  // of the current run's first input row
  int lane_;
};

}  // namespace kbench::conv_logsumexp
