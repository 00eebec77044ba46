// The consumer warpgroups: convolution on the tensor cores, sums for the statistics, pooling.
//
// Winograd F(2,3) along the rows: with products m0..m3 of the transformed rows and weights, two convolution rows are
// m0 + (m1 + m2) and m3 + (m1 - m2): 4 products instead of 6. Each product runs in split fp16, 5 instructions of depth
// 16 for 3 taps * 8 channels * (high*low + low*high + high*high); small terms are summed first. The sign of gamma *
// scale is folded into the weights, so that pooling keeps maxima alone.
#pragma once

#include <cmath>

#include "../bulk_copy.cuh"
#include "../split_fp16.cuh"
#include "plan.cuh"

namespace kbench::conv_norm_pool {

constexpr int WEIGHT_EXPONENT = 7;        // a channel's largest transformed weight is scaled to 2^7 .. 2^8
constexpr int MAX_OUTPUT_EXPONENT = 100;  // beyond it, 2^-exponent times other factors might leave fp32

/// The transformed weights of this thread's two output channels, as A fragments of two taps each. The fourth
/// combination, the low parts of taps 0 and 1, lies in shared memory.
struct Weights {
  uint32_t high[TRANSFORMED][2][2];   // high parts of taps 0 and 1
  uint32_t third[TRANSFORMED][2][2];  // low and high part of tap 2
};

/// Reads, transforms, scales and splits the weights. Returns once the input's exponents are known.
__device__ __forceinline__ void load_weights(const Arguments& arguments, Shared& shared, Weights& weights) {
  const int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS % 4;
  const int first_in = 2 * (lane % 4);
  float value[2][2][TRANSFORMED][KERNEL];  // [output][input channel]
  float sign[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int output = 16 * warp + lane / 4 + 8 * i;
    const bool exists = output < arguments.out_channels;
    sign[i] = exists && is_negative(arguments, output) ? -1.0f : 1.0f;
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const bool valid = exists && first_in + q < arguments.in_channels;
      const float* from = arguments.weight + (output * arguments.in_channels + first_in + q) * KERNEL * KERNEL;
#pragma unroll
      for (int column = 0; column < KERNEL; ++column) {
        const float top = valid ? from[column] : 0.0f;
        const float middle = valid ? from[KERNEL + column] : 0.0f;
        const float bottom = valid ? from[2 * KERNEL + column] : 0.0f;
        value[i][q][0][column] = top;
        value[i][q][1][column] = 0.5f * ((top + bottom) + middle);
        value[i][q][2][column] = 0.5f * ((top + bottom) - middle);
        value[i][q][3][column] = bottom;
      }
    }
  }
  sync_threads(SCALES_READY, WARP_THREADS + CONSUMER_THREADS);
  const int input_exponent[2] = {shared.input_exponent[first_in], shared.input_exponent[first_in + 1]};
  const bool live[2] = {shared.live[first_in] != 0, shared.live[first_in + 1] != 0};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    constexpr int NONE = -1000;
    int largest = NONE;
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      uint32_t bits = 0;
#pragma unroll
      for (int t = 0; t < TRANSFORMED * KERNEL; ++t)
        bits = max(bits, magnitude_bits(value[i][q][t / KERNEL][t % KERNEL]));
      if (bits >= 0x7F800000u) shared.unfit_weights = 1;
      if (bits != 0 && live[q]) largest = max(largest, binary_exponent(__uint_as_float(bits)) - input_exponent[q]);
    }
    largest = max(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
    largest = max(largest, __shfl_xor_sync(ALL_LANES, largest, 2));
    const int exponent = largest == NONE ? 0 : WEIGHT_EXPONENT - largest;
    if (abs(exponent) > MAX_OUTPUT_EXPONENT) shared.unfit_weights = 1;
    const int output = 16 * warp + lane / 4 + 8 * i;
    const bool writes = threadIdx.x < WARPGROUP_THREADS;  // both warpgroups hold the same weights
    if (lane % 4 == 0) shared.output_exponent[output] = exponent;
    const float a = live[0] ? sign[i] : 0.0f, b = live[1] ? sign[i] : 0.0f;
#pragma unroll
    for (int t = 0; t < TRANSFORMED; ++t) {
#pragma unroll
      for (int column = 0; column < KERNEL; ++column) {
        const SplitPair split = split_fp16(a * ldexpf(value[i][0][t][column], exponent - input_exponent[0]),
                                           b * ldexpf(value[i][1][t][column], exponent - input_exponent[1]));
        if (column == 2) {
          weights.third[t][0][i] = split.low;
          weights.third[t][1][i] = split.high;
        } else {
          weights.high[t][column][i] = split.high;
          const int place = t * LOW_WEIGHTS_BYTES + column * LOW_WEIGHTS_BYTES / 2 + output * 16 + lane % 4 * 4;
          if (writes) *reinterpret_cast<uint32_t*>(shared.low_weights + place) = split.low;
        }
      }
    }
  }
  fence_shared_to_async();
  sync_threads(CONSUMERS, CONSUMER_THREADS);
}

/// Issues one transformed row's products into `sums`. `row`, `low_weights` and `zeros` are descriptor addresses: of the
/// pair's strips and of those two operands.
template <int T>
__device__ __forceinline__ void multiply(float (&sums)[WGMMA_SUMS], const Weights& weights, uint64_t row,
                                         uint64_t low_weights, uint64_t zeros, bool accumulate) {
  constexpr uint64_t NEXT_TAP = operand_layout(16), LOW_PART = operand_layout(PART_BYTES);
  constexpr uint64_t LOW_WEIGHTS = operand_layout(LOW_WEIGHTS_BYTES / 2) + T * (LOW_WEIGHTS_BYTES / 16);
  const uint64_t strip = row + T * (STRIP_BYTES / 16), low = strip + PART_BYTES / 16, third = strip + 2;
  const auto& h = weights.high[T];
  const auto& t = weights.third[T];
  wgmma_m64n128k16(sums, h[0][0], h[0][1], h[1][0], h[1][1], low + NEXT_TAP, accumulate);
  wgmma_m64n128k16(sums, t[0][0], t[0][1], t[1][0], t[1][1], third + LOW_PART, true);
  wgmma_m64n128k16(sums, low_weights + LOW_WEIGHTS, strip + NEXT_TAP, true);
  wgmma_m64n128k16(sums, h[0][0], h[0][1], h[1][0], h[1][1], strip + NEXT_TAP, true);
  // The low part of tap 2 meets zeros here: the depth stride leads from them to the strip.
  wgmma_m64n128k16(sums, t[0][0], t[0][1], t[1][0], t[1][1], zeros + ((third - zeros) << 16) + operand_layout(0), true);
}

/// (a, b) -> (a + b, a - b) without a third register, in a form that keeps ptxas from taking one anyway: it would run
/// out of them. The difference carries the sum's rounding error too, one part in 2^24.
__device__ __forceinline__ void sum_and_difference(float& a, float& b) {
  asm volatile("add.f32 %0, %0, %1;\nfma.rn.f32 %1, %1, 0fC0000000, %0;" : "+f"(a), "+f"(b));
}

/// Sums of the products and of their squares for this thread's two channels, over the columns it holds.
struct RowSums {
  float value[2] = {0.0f, 0.0f}, square[2] = {0.0f, 0.0f};
};

/// Adds one convolution row: its first `columns` columns to the sums, all to the running maxima. WIDE: every 8-column
/// block but the last lies within `columns`.
template <bool WIDE>
__device__ __forceinline__ void add_row(const float (&row)[WGMMA_SUMS], int columns, RowSums& sums,
                                        float (&maxima)[32]) {
  float value[4] = {0.0f, 0.0f, 0.0f, 0.0f}, square[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  const int left = columns - 2 * int(threadIdx.x % 4);
#pragma unroll
  for (int block = 0; block < 16; ++block) {
    float d[4] = {row[4 * block], row[4 * block + 1], row[4 * block + 2], row[4 * block + 3]};
    maxima[2 * block] = fmaxf(maxima[2 * block], fmaxf(d[0], d[1]));
    maxima[2 * block + 1] = fmaxf(maxima[2 * block + 1], fmaxf(d[2], d[3]));
    if (!WIDE || block == 15) {
      if (8 * block >= left) d[0] = d[2] = 0.0f;
      if (8 * block + 1 >= left) d[1] = d[3] = 0.0f;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      value[k] += d[k];
      square[k] = fmaf(d[k], d[k], square[k]);
    }
  }
  sums.value[0] += value[0] + value[1];
  sums.value[1] += value[2] + value[3];
  sums.square[0] += square[0] + square[1];
  sums.square[1] += square[2] + square[3];
}

__device__ __forceinline__ void add_row(const float (&row)[WGMMA_SUMS], int columns, RowSums& sums,
                                        float (&maxima)[32]) {
  if (columns >= 120) {
    add_row<true>(row, columns, sums, maxima);
  } else {
    add_row<false>(row, columns, sums, maxima);
  }
}

/// Pools the maxima of a unit along the columns into the warp's buffer: [16 channels][32 windows].
__device__ __forceinline__ void pool_columns(const float (&maxima)[32], float* pooled) {
  const int lane = threadIdx.x % WARP_THREADS;
  const bool odd = lane % 2 != 0;  // odd lanes finish the second channel, even lanes the first: one exchange for both
  float* to = pooled + (lane / 4 + (odd ? 8 : 0)) * POOLED_STRIDE + lane % 4 / 2;
#pragma unroll
  for (int block = 0; block < 16; ++block) {
    const float given = odd ? maxima[2 * block] : maxima[2 * block + 1];
    const float kept = odd ? maxima[2 * block + 1] : maxima[2 * block];
    to[2 * block] = fmaxf(kept, __shfl_xor_sync(ALL_LANES, given, 1));
  }
}

/// A unit in the sequence of a block's units, and the number of the block's pairs before it.
struct UnitCursor {
  int unit, tile, round, index;

  __device__ __forceinline__ void advance(const Share& share, int tiles) {
    index += share.unit_pairs(unit);
    if (++unit < share.end_unit) return;
    unit = share.first_unit;
    if (++tile < tiles) return;
    tile = 0;
    ++round;
  }
};

class Consumer {
 public:
  __device__ __forceinline__ Consumer(const Arguments& arguments, const Share& share, Shared& shared)
      : arguments_(arguments),
        share_(share),
        shared_(shared),
        group_(warpgroup_index()),
        warp_(threadIdx.x / WARP_THREADS % 4),
        lane_(threadIdx.x % WARP_THREADS) {}

  /// Units alternate between the two warpgroups. A pair's first product is issued while the pair before it is still
  /// summed up, so that the tensor cores have work while this warpgroup has other.
  __device__ __forceinline__ void run() {
    Weights weights;
    load_weights(arguments_, shared_, weights);
    const int tiles = arguments_.tiles();
    UnitCursor current{share_.first_unit, 0, 0, 0};
    RowSums sums;
    if (share_.rows > 0) {
      if (group_ == 1) current.advance(share_, tiles);
      float upper[WGMMA_SUMS], lower[WGMMA_SUMS];
      // A band of a single unit leaves the second warpgroup rounds without work: they are published as they pass.
      for (int round = 0; round < min(current.round, share_.rounds); ++round) publish(round, sums);
      if (current.round < share_.rounds) begin_pair(upper, weights, current.index);
      while (current.round < share_.rounds) {
        UnitCursor next = current;
        next.advance(share_, tiles);
        next.advance(share_, tiles);
        convolve_unit(upper, lower, weights, current, next.round < share_.rounds ? next.index : -1, sums);
        const int left = min(next.round, share_.rounds);
        for (int round = current.round; round != left; ++round) publish(round, sums);
        current = next;
      }
      wgmma_wait<0>();
    } else {
      for (int round = 0; round < share_.rounds; ++round) publish(round, sums);
    }
  }

 private:
  __device__ __forceinline__ uint64_t strips(int index) const {
    return operand_address(shared_address(shared_.ring) + index % STAGES * STAGE_BYTES);
  }

  __device__ __forceinline__ uint64_t low_weights() const {
    return operand_address(shared_address(shared_.low_weights));
  }
  __device__ __forceinline__ uint64_t zeros() const { return operand_address(shared_address(shared_.zeros)); }

  /// Waits for a pair's strips and issues its first product.
  __device__ __forceinline__ void begin_pair(float (&upper)[WGMMA_SUMS], const Weights& weights, int index) {
    barrier_wait(&shared_.full[index % STAGES], uint32_t(index / STAGES & 1));
    wgmma_fence();
    multiply<1>(upper, weights, strips(index), low_weights(), zeros(), false);
    wgmma_commit();
  }

  /// One unit, whose first pair has begun; begins the pair `following` it, or itself again if there is none (-1): a
  /// product in a branch would be serialised.
  __device__ __forceinline__ void convolve_unit(float (&upper)[WGMMA_SUMS], float (&lower)[WGMMA_SUMS],
                                                const Weights& weights, const UnitCursor& at, int following,
                                                RowSums& sums) {
    const int columns_left = arguments_.out_width() - at.tile * TILE_OWNED;
    const int columns = columns_left <= TILE_MAX ? columns_left : TILE_OWNED;
    const int pairs = share_.unit_pairs(at.unit);
    float maxima[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) maxima[i] = -INFINITY;
#pragma unroll 1
    for (int pair = 0; pair < pairs; ++pair) {
      const int index = at.index + pair;
      wgmma_fence();
      multiply<2>(lower, weights, strips(index), low_weights(), zeros(), false);
      wgmma_commit();
      wgmma_wait<0>();
#pragma unroll
      for (int i = 0; i < WGMMA_SUMS; ++i) sum_and_difference(upper[i], lower[i]);
      wgmma_fence();
      multiply<0>(upper, weights, strips(index), low_weights(), zeros(), true);
      wgmma_commit();
      multiply<3>(lower, weights, strips(index), low_weights(), zeros(), true);
      wgmma_commit();
      wgmma_wait<1>();
      wgmma_pin(upper);
      add_row(upper, columns, sums, maxima);
      wgmma_wait<0>();
      wgmma_pin(lower);
      const int ahead = pair + 1 < pairs ? index + 1 : following;
      begin_pair(upper, weights, ahead >= 0 ? ahead : index);
      // Not before: without a pair ahead, the product just issued is of this stage again.
      if (lane_ == 0) barrier_arrive(&shared_.empty[index % STAGES]);
      if (at.unit * POOL + pair * PAIR_ROWS + 1 < arguments_.out_height()) add_row(lower, columns, sums, maxima);
    }
    if (at.unit < arguments_.pooled_height()) store_pooled(maxima, at.round, at.tile, at.unit);
  }

  /// Writes the pooled, still unnormalised row: the warp's 16 channels, each a run of up to 31 floats.
  __device__ __forceinline__ void store_pooled(const float (&maxima)[32], int round, int tile, int unit) {
    float* pooled = shared_.pooled[threadIdx.x / WARP_THREADS];
    pool_columns(maxima, pooled);
    __syncwarp();
    const int pooled_width = arguments_.pooled_width();
    const int64_t plane = int64_t(arguments_.pooled_height()) * pooled_width;
    const int first_channel = 16 * warp_;
    const int channels = min(16, arguments_.out_channels - first_channel);
    const bool mine = lane_ < min(TILE_WINDOWS, pooled_width - tile * TILE_WINDOWS);
    float* to = arguments_.out + (int64_t(share_.sample(round)) * arguments_.out_channels + first_channel) * plane +
                int64_t(unit) * pooled_width + tile * TILE_WINDOWS + lane_;
#pragma unroll
    for (int channel = 0; channel < 16; ++channel, to += plane) {
      if (mine && channel < channels) *to = pooled[channel * POOLED_STRIDE + lane_];
    }
    __syncwarp();
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
    // The pooled values are read back past L1: by the copy engine, or by other warps through L2.
    __threadfence();
    __syncwarp();
    if (lane_ == 0) barrier_arrive(&shared_.summed[buffer]);
    sums = RowSums();
  }

  const Arguments& arguments_;
  const Share& share_;
  Shared& shared_;
  const int group_, warp_, lane_;
};

}  // namespace kbench::conv_norm_pool
