// The consumer warpgroups: convolution on the tensor cores, squares for the statistics, pooling.
//
// Units of four rows alternate between the two warpgroups, each of which multiplies a row, waits for it and sums it up:
// the tensor cores work for one while the other sums up. Behind them comes a row that stands for the whole band: see
// Producer::store_sums. The sign of gamma * scale is folded into the weights, so that pooling keeps maxima alone.
#pragma once

#include <cmath>

#include "../split_fp16.cuh"
#include "plan.cuh"
#include "products.cuh"

namespace kbench::conv_norm_pool {

constexpr int WEIGHT_EXPONENT = 7;        // a channel's largest weight is scaled to 2^7 .. 2^8
constexpr int FRAGMENTS = 9;              // of Weights: four of high parts, four of low ones, the last
constexpr int MAX_OUTPUT_EXPONENT = 100;  // beyond it, 2^-exponent times other factors might leave fp32

/// A power of two as two factors, since one of them might leave fp32; or zero. ldexpf would cost a branch a weight.
struct WeightScale {
  float first, second;

  __device__ __forceinline__ WeightScale(int exponent, bool live, float sign) {
    const int held = max(-2 * 126, min(2 * 126, exponent));  // beyond: weights that are unfit
    first = live ? sign * power_of_two(held / 2) : 0.0f;
    second = power_of_two(held - held / 2);
  }

  __device__ __forceinline__ float of(float weight) const { return weight * first * second; }
};

/// Fragments of all 64 output channels, where one thread leaves them for another.
using Fragments = uint32_t[FRAGMENTS][WARPGROUP_THREADS][4];

/// Reads, scales and splits the weights, each once in a block: a thread has two input channels of an output channel,
/// and hands their parts to the threads of both warpgroups through shared memory. Little code, since all of it comes
/// from cold memory. Waits for `initialise`, before which a consumer may read nothing from shared memory, and for the
/// input's exponents.
__device__ __forceinline__ void load_weights(const Arguments& arguments, Shared& shared, Weights& weights) {
  const int thread = threadIdx.x, lane = thread % WARP_THREADS, output = thread / 4, first_in = 2 * (thread % 4);
  float value[2][TAPS];  // [input channel]
  const bool exists = output < arguments.out_channels;
  const float sign = exists && is_negative(arguments, output) ? -1.0f : 1.0f;
  const float* from = arguments.weight + (output * arguments.in_channels + first_in) * TAPS;
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    const bool valid = exists && first_in + q < arguments.in_channels;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) value[q][tap] = valid ? __ldg(from + q * TAPS + tap) : 0.0f;
  }
  wait_for_scales();
  constexpr int NONE = -1000;
  int largest = NONE, input_exponent[2];
  bool live[2];
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    input_exponent[q] = shared.input_exponent[first_in + q];
    live[q] = shared.live[first_in + q] != 0;
    uint32_t bits = 0;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) bits = max(bits, magnitude_bits(value[q][tap]));
    if (bits >= 0x7F800000u) shared.unfit_weights = 1;
    if (bits != 0 && live[q]) largest = max(largest, binary_exponent(__uint_as_float(bits)) - input_exponent[q]);
  }
  largest = max(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
  largest = max(largest, __shfl_xor_sync(ALL_LANES, largest, 2));
  const int exponent = largest == NONE ? 0 : WEIGHT_EXPONENT - largest;
  if (abs(exponent) > MAX_OUTPUT_EXPONENT) shared.unfit_weights = 1;
  if (lane % 4 == 0) shared.output_exponent[output] = exponent;
  const WeightScale first_scale(exponent - input_exponent[0], live[0], sign);
  const WeightScale second_scale(exponent - input_exponent[1], live[1], sign);
  // Output 16 w + 8 i + k is half i of lanes 4 k .. 4 k + 3 in warp w.
  Fragments& fragments = *reinterpret_cast<Fragments*>(shared.pooled);
  const int half = output / 8 % 2, place = output / 16 * WARP_THREADS + output % 8 * 4 + thread % 4;
#pragma unroll
  for (int tap = 0; tap < TAPS; ++tap) {
    const SplitPair split = split_fp16(first_scale.of(value[0][tap]), second_scale.of(value[1][tap]));
    if (tap < TAPS - 1) {
      fragments[tap / 2][place][tap % 2 * 2 + half] = split.high;
      fragments[4 + tap / 2][place][tap % 2 * 2 + half] = split.low;
    } else {
      fragments[8][place][half] = split.low;
      fragments[8][place][2 + half] = split.high;
    }
  }
  sync_threads<CONSUMER_THREADS>(CONSUMERS);
#pragma unroll
  for (int i = 0; i < FRAGMENTS; ++i) {
    const uint4 four = *reinterpret_cast<const uint4*>(fragments[i][thread % WARPGROUP_THREADS]);
    uint32_t(&to)[4] = i < 4 ? weights.high[i % 4] : i < 8 ? weights.low[i % 4] : weights.last;
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  }
  sync_threads<CONSUMER_THREADS>(CONSUMERS);  // pooled values come where the fragments are
}

constexpr int PIXELS = 2;                             // of each phase, that a thread holds, of two channels
constexpr int MAXIMA = 2 * PIXELS * (PHASES / POOL);  // of a thread: [channel][pixel][window]

/// Sums of the band's products and of their squares for this thread's two channels, over the columns it holds.
struct RowSums {
  float value[2] = {0.0f, 0.0f}, square[2] = {0.0f, 0.0f};
};

/// Adds a convolution row: squares of the `left` columns from the thread's first on to the sums, all to the running
/// maxima. WIDE: only columns of the last window lie beyond. One chain of additions a channel: between two of them the
/// compiler puts maxima, which another pipe works out.
template <bool WIDE>
__device__ __forceinline__ void add_columns(const float (&row)[WGMMA_SUMS], int left, RowSums& sums,
                                            float (&maxima)[MAXIMA]) {
  float square[2] = {0.0f, 0.0f};
#pragma unroll
  for (int phase = 0; phase < PHASES; ++phase) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int channel = k / 2, pixel = k % 2;
      const float d = row[4 * phase + k];
      float& maximum = maxima[(channel * PIXELS + pixel) * (PHASES / POOL) + phase / POOL];
      maximum = fmaxf(maximum, d);
      const bool sure = WIDE && (pixel == 0 || phase < PHASES - POOL);
      if (sure || PHASES * pixel + phase < left) square[channel] = fmaf(d, d, square[channel]);
    }
  }
  sums.square[0] += square[0];
  sums.square[1] += square[1];
}

/// Adds the products of column sums, which stand for all rows of the band, divided by `scale`.
__device__ __forceinline__ void add_values(const float (&row)[WGMMA_SUMS], int left, float scale, RowSums& sums) {
  float value[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int phase = 0; phase < PHASES; ++phase) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (PHASES * (k % 2) + phase < left) value[k] += row[4 * phase + k];
    }
  }
  sums.value[0] = fmaf(value[0] + value[1], scale, sums.value[0]);
  sums.value[1] = fmaf(value[2] + value[3], scale, sums.value[1]);
}

struct UnitPlace {
  int round, tile, unit;
};

/// A number that is the warp's, in a form that the compiler does not work out somewhere else: between a wait and the
/// products, a chain of uniform instructions would delay everybody.
__device__ __forceinline__ int opaque(int value) { return __shfl_sync(ALL_LANES, value, 0); }

class Consumer {
 public:
  __device__ __forceinline__ Consumer(const Arguments& arguments, const Share& share, Shared& shared)
      : arguments_(arguments),
        share_(share),
        shared_(shared),
        group_(warpgroup_index()),
        warp_(threadIdx.x / WARP_THREADS % 4),
        lane_(threadIdx.x % WARP_THREADS) {}

  __device__ __forceinline__ void run(const Weights& weights) {
    RowSums sums;
    int first_chunk = 0;
    for (int round = 0; round < share_.rounds; ++round) {
      for (int tile = 0; tile < share_.tiles; ++tile, first_chunk += share_.chunks()) {
        convolve_tile(weights, round, tile, first_chunk, sums);
      }
      publish(round, sums);
    }
  }

 private:
  /// This warpgroup's units of a tile. A unit's rows are given back and its maxima stored behind the first products of
  /// the next one. Behind a tile's last unit come the column sums, like a unit of one row.
  __device__ __forceinline__ void convolve_tile(const Weights& weights, int round, int tile, int first_chunk,
                                                RowSums& sums) {
    float products[WGMMA_SUMS], maxima[MAXIMA];
    const int columns = arguments_.columns(tile), left = columns - PHASES * PIXELS * (lane_ % 4);
    const bool wide = opaque(columns >= WGMMA_COLUMNS - POOL);
    if (share_.units == 0) return;
    int unit = group_;
    UnitRows next = rows_of(first_chunk, unit);
    for (; unit <= share_.units; unit += 2) {
      UnitRows at = next;
      const bool are_sums = unit == share_.units;
      int second_chunk = 0;
      wait_chunk(at.chunk);
#pragma unroll 1
      for (int row = 1;; ++row) {
        start_products(products, weights, at.descriptor);
        at.descriptor += ROW_BYTES / 16;
        if (row == 1) {
          // Behind the first products, and what the next unit's need too: nothing of it is to delay them.
          const int here = opaque(unit);
          if (here > group_) {
            release(here - 2, opaque(at.chunk - 2 - (here == share_.units)));
            store_pooled(maxima, {round, tile, here - 2});
          }
#pragma unroll
          for (int i = 0; i < MAXIMA; ++i) maxima[i] = -INFINITY;
          second_chunk = opaque(at.chunk + 1);
          next = rows_of(first_chunk, here + 2);
        }
        wgmma_wait<0>();
        wgmma_pin(products);
        if (row == at.count && at.count <= POOL - HALO && !are_sums) {
          wait_chunk(second_chunk);  // it is given back: it must have come
        }
        if (are_sums) {
          add_values(products, left, power_of_two(share_.sum_exponent()), sums);
        } else if (wide) {
          add_columns<true>(products, left, sums, maxima);
        } else {
          add_columns<false>(products, left, sums, maxima);
        }
        if (row == at.count) break;
        if (row == POOL - HALO) wait_chunk(second_chunk);  // the first row that reads it
      }
    }
    if (unit == group_) return;
    release(unit - 2, chunk_of(first_chunk, unit - 2));
    if (unit - 2 < share_.units) store_pooled(maxima, {round, tile, unit - 2});
  }

  /// A unit's own chunk. The column sums come behind the halo of the last unit.
  __device__ __forceinline__ int chunk_of(int first_chunk, int unit) const {
    return first_chunk + unit + (unit == share_.units);
  }

  struct UnitRows {
    uint64_t descriptor;  // of the first row: see row_address
    int chunk, count;
  };

  __device__ __forceinline__ UnitRows rows_of(int first_chunk, int unit) const {
    const int chunk = opaque(chunk_of(first_chunk, unit));
    const int count = unit == share_.units ? 1 : min(POOL, share_.rows - POOL * unit);
    return {row_address(chunk), chunk, opaque(count)};
  }

  /// Descriptor address of a unit's first row, in the plane of high parts. The shuffle tells the compiler that it is
  /// the warp's: descriptors then stay in uniform registers.
  __device__ __forceinline__ uint64_t row_address(int chunk) const {
    const uint32_t address = shared_address(shared_.ring) + uint32_t(chunk) % CHUNKS * CHUNK_BYTES;
    return operand_address(__shfl_sync(ALL_LANES, address, 0));
  }

  /// Waits for a chunk, which the producer has fenced.
  __device__ __forceinline__ void wait_chunk(int chunk) {
    barrier_wait(&shared_.full[uint32_t(chunk) % CHUNKS], uint32_t(chunk) / CHUNKS & 1u);
  }

  /// Gives a unit's rows back. Every chunk is given back twice: by its own unit and by the one before; the first and
  /// the last unit of a tile stand in for those that do not exist, and so do the column sums.
  __device__ __forceinline__ void release(int unit, int chunk) {
    if (lane_ != 0) return;
    barrier_arrive(&shared_.empty[uint32_t(chunk) % CHUNKS]);
    const bool are_sums = unit == share_.units;
    if (unit == 0 || are_sums) barrier_arrive(&shared_.empty[uint32_t(chunk) % CHUNKS]);
    if (are_sums) return;
    barrier_arrive(&shared_.empty[uint32_t(chunk + 1) % CHUNKS]);
    if (unit + 1 == share_.units) barrier_arrive(&shared_.empty[uint32_t(chunk + 1) % CHUNKS]);
  }

  /// Keeps a unit's maxima until the sample's statistics are known.
  __device__ __forceinline__ void store_pooled(const float (&maxima)[MAXIMA], const UnitPlace& at) {
    if (at.unit >= share_.pooled_rows) return;
    if (at.round > 0) {
      barrier_wait(&shared_.drained[at.unit >> arguments_.drain_shift], uint32_t(at.round - 1 & 1));
    }
    const int width = arguments_.pooled_width(), windows = min(TILE_WINDOWS, width - at.tile * TILE_WINDOWS);
    const int first = PIXELS * (PHASES / POOL) * (lane_ % 4);
    float* to = shared_.pooled[16 * warp_ + lane_ / 4] + at.unit * width + at.tile * TILE_WINDOWS + first;
#pragma unroll
    for (int i = 0; i < MAXIMA / 2; ++i) {
      if (first + i < windows) {
        to[i] = maxima[i];
        to[8 * POOLED_PITCH + i] = maxima[MAXIMA / 2 + i];
      }
    }
  }

  /// Hands this band's sums to the writer.
  __device__ __forceinline__ void publish(int round, RowSums& sums) {
    const int buffer = round % 2;
    barrier_wait(&shared_.reusable[buffer], uint32_t(round / 2 % 2) ^ 1u);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2) {
        sums.value[i] += __shfl_xor_sync(ALL_LANES, sums.value[i], distance);
        sums.square[i] += __shfl_xor_sync(ALL_LANES, sums.square[i], distance);
      }
      if (lane_ % 4 == 0) {
        float* to = shared_.sums[buffer][group_][16 * warp_ + lane_ / 4 + 8 * i];
        to[0] = sums.value[i];
        to[1] = sums.square[i];
      }
    }
    barrier_arrive(&shared_.summed[buffer]);
    sums = RowSums();
  }

  const Arguments& arguments_;
  const Share& share_;
  Shared& shared_;
  const int group_, warp_, lane_;
};

}  // namespace kbench::conv_norm_pool
