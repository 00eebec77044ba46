// Second pass: from accumulators to the output, without leaving the chip.
//
// Per element: one exponential for tanh, one for logsumexp, half a reciprocal. The special-function unit does 4 lanes
// a cycle per scheduler, so these alone take 20 cycles per 32 elements, where the tensor cores need 14.
#pragma once

#include "constants.cuh"

namespace kbench::conv_logsumexp {

// Volatile: the front end then keeps the order of the stages below, and many elements in flight. The assembler still
// interleaves them as it likes.
__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float reciprocal_approximate(float x) {
  float y;
  asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float log2_approximate(float x) {
  float y;
  asm volatile("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Exponents of the gates to GATE_ROOT * (r - 5/4), in place. Two neighbours share a reciprocal.
template <int COUNT>
__device__ __forceinline__ void gates(float (&values)[COUNT]) {
  constexpr float INVERSE_ROOT = 1.f / GATE_ROOT, SHIFT = -1.25f * GATE_ROOT;
  float inverse[COUNT / 2];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) values[i] = exp2_approximate(values[i]);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) values[i] += INVERSE_ROOT;
#pragma unroll
  for (int i = 0; i < COUNT; i += 2) inverse[i / 2] = reciprocal_approximate(values[i] * values[i + 1]);
#pragma unroll
  for (int i = 0; i < COUNT; i += 2) {
    const float first = values[i];
    values[i] = fmaf(inverse[i / 2], values[i + 1], SHIFT);
    values[i + 1] = fmaf(inverse[i / 2], first, SHIFT);
  }
}

/// BATCH of a thread's elements go through each stage together.
template <int CONSUMERS, int BATCH>
class Epilogue {
 public:
  __device__ Epilogue(const Problem& problem, Shared<CONSUMERS>& shared, int group)
      : problem_(problem), shared_(shared), group_(group), lane_(threadIdx.x % 32), warp_(threadIdx.x / 32 % 4) {}

  __device__ void begin(int) { loaded_ = false; }

  /// The previous row's sums over this warp's channels: what waits for shared memory waits beside this row's products.
  __device__ void beside_products() {
    if (pending_valid_ == 0) return;
    __syncwarp();
    sum_channels_of_warp();
  }

  __device__ void row(const Run& run, int y, const float (&values)[WGMMA_SUMS]) {
    if (!loaded_) load_constants();
    if (sample_.tier >= TIER_REPEAT) return;
    if (sample_.tier == TIER_GENERAL) {
      finish_row(true);
      exponentials_general(values);
    } else {
      finish_row(false);
      exponentials_bounded(values);
    }
    const int64_t out_row = int64_t(run.sample) * problem_.out_height + y;
    pending_out_ = problem_.out + out_row * problem_.out_width + run.left() + threadIdx.x % WARPGROUP_THREADS;
    pending_valid_ = run.valid(problem_);
  }

  /// Finishes the last row and frees the constants' buffer, which had to be full first: every warpgroup counts once per
  /// sample.
  __device__ void end(int) {
    beside_products();
    if (pending_valid_ > 0) finish_row(sample_.tier == TIER_GENERAL);
    pending_valid_ = 0;
    if (!loaded_) load_constants();
    ++samples_seen_;
  }

 private:
  static_assert(WGMMA_SUMS % BATCH == 0 && BATCH % 4 == 0, "batches are whole pairs of pixels, two channels each");

  /// Results of the previous row, if there is one. Without a branch: all this waits among the next row's exponentials.
  __device__ __forceinline__ void finish_row(bool general) {
    sync_threads<WARPGROUP_THREADS>(FIRST_CONSUMER_BARRIER + group_);
    const int pixel = threadIdx.x % WARPGROUP_THREADS;
    const float result = general ? combine_warps_general(pixel) : combine_warps(pixel);
    if (pixel < pending_valid_) *pending_out_ = result;
    buffer_ ^= 1;  // the next row's sums go beside these: somebody may still read them
  }

  __device__ void load_constants() {
    const int buffer = samples_seen_ & 1;
    barrier_wait(&shared_.constants_full[buffer], samples_seen_ >> 1 & 1);
#pragma unroll
    for (int half = 0; half < 2; ++half) own_[half] = shared_.channels[buffer][warp_ * 16 + (lane_ >> 2) + 8 * half];
    sample_ = shared_.samples[buffer];
    barrier_arrive(&shared_.constants_empty[buffer]);
    loaded_ = true;
  }

  __device__ __forceinline__ static float gate_exponent(const ChannelConstants& c, float value) {
    return fmaf(value, c.gate_slope, c.gate_offset);
  }

  __device__ __forceinline__ static float value_exponent(const ChannelConstants& c, float value) {
    return fmaf(value, c.value_slope, c.value_offset);
  }

  __device__ float* transposed(int row) { return shared_.epilogue.transpose[group_][warp_][row]; }

  /// Sums of a thread's two channels per pixel, to this warp's transposition buffer.
  __device__ void exponentials_bounded(const float (&values)[WGMMA_SUMS]) {
    float* target = transposed(lane_ >> 2) + 2 * (lane_ & 3);
#pragma unroll
    for (int batch = 0; batch < WGMMA_SUMS; batch += BATCH) {
      float x[BATCH];
      // One channel's elements, then the other's: neighbours share two of three operands.
#pragma unroll
      for (int j = 0; j < BATCH; ++j) {
        const int i = j % (BATCH / 2) / 2 * 4 + j % 2 + (j < BATCH / 2 ? 0 : 2);
        x[i] = gate_exponent(own_[i / 2 % 2], values[batch + i]);
        asm volatile("" : "+f"(x[i]));
      }
      gates(x);
#pragma unroll
      for (int j = 0; j < BATCH; ++j) {
        const int i = j % (BATCH / 2) / 2 * 4 + j % 2 + (j < BATCH / 2 ? 0 : 2);
        x[i] = fmaf(x[i], x[i], value_exponent(own_[i / 2 % 2], values[batch + i]));
      }
#pragma unroll
      for (int i = 0; i < BATCH; ++i) x[i] = exp2_approximate(x[i]);
#pragma unroll
      for (int i = 0; i < BATCH; i += 4) {
        const float2 sums = make_float2(x[i] + x[i + 2], x[i + 1] + x[i + 3]);
        *reinterpret_cast<float2*>(target + 2 * (batch + i)) = sums;
      }
    }
  }

  /// As above for any exponents: relative to the pixel's maximum over the warp's channels.
  __device__ void exponentials_general(const float (&values)[WGMMA_SUMS]) {
    float* target = transposed(lane_ >> 2) + 2 * (lane_ & 3);
    float* maxima = shared_.epilogue.warp_maxima[group_][buffer_][warp_] + 2 * (lane_ & 3);
#pragma unroll
    for (int batch = 0; batch < WGMMA_SUMS; batch += BATCH) {
      float x[BATCH], top[BATCH / 2];
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        x[i] = fminf(gate_exponent(own_[i / 2 % 2], values[batch + i]), MAX_GATE_EXPONENT);
      }
      gates(x);
#pragma unroll
      for (int i = 0; i < BATCH / 2; ++i) {
        const int first = batch + i / 2 * 4 + i % 2;  // pixel i of the batch, lower channel
        top[i] = fmaxf(value_exponent(own_[0], values[first]), value_exponent(own_[1], values[first + 2]));
      }
#pragma unroll
      for (int step = 4; step < 32; step *= 2) {
#pragma unroll
        for (int i = 0; i < BATCH / 2; ++i) top[i] = fmaxf(top[i], __shfl_xor_sync(~0u, top[i], step));
      }
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        x[i] = fmaf(x[i], x[i], value_exponent(own_[i / 2 % 2], values[batch + i]) - top[i / 4 * 2 + i % 2]);
      }
#pragma unroll
      for (int i = 0; i < BATCH; ++i) x[i] = exp2_approximate(x[i]);
#pragma unroll
      for (int i = 0; i < BATCH; i += 4) {
        const float2 sums = make_float2(x[i] + x[i + 2], x[i + 1] + x[i + 3]);
        *reinterpret_cast<float2*>(target + 2 * (batch + i)) = sums;
        const float2 tops = make_float2(top[i / 2], top[i / 2 + 1]);
        if (lane_ < 4) *reinterpret_cast<float2*>(maxima + 2 * (batch + i)) = tops;
      }
    }
  }

  /// Each lane adds up four pixels over the eight channel pairs of its warp.
  __device__ void sum_channels_of_warp() {
    float4 total = *reinterpret_cast<const float4*>(transposed(0) + 4 * lane_);
#pragma unroll
    for (int row = 1; row < 8; ++row) {
      const float4 part = *reinterpret_cast<const float4*>(transposed(row) + 4 * lane_);
      total = make_float4(total.x + part.x, total.y + part.y, total.z + part.z, total.w + part.w);
    }
    *reinterpret_cast<float4*>(shared_.epilogue.warp_sums[group_][buffer_][warp_] + 4 * lane_) = total;
  }

  __device__ float combine_warps(int pixel) const {
    const float (&sums)[4][TILE_PIXELS] = shared_.epilogue.warp_sums[group_][buffer_];
    const float sum = (sums[0][pixel] + sums[1][pixel]) + (sums[2][pixel] + sums[3][pixel]);
    return (log2_approximate(sum) + sample_.offset) * LN_2;
  }

  __device__ float combine_warps_general(int pixel) const {
    const float (&sums)[4][TILE_PIXELS] = shared_.epilogue.warp_sums[group_][buffer_];
    const float (&maxima)[4][TILE_PIXELS] = shared_.epilogue.warp_maxima[group_][buffer_];
    const float top = fmaxf(fmaxf(maxima[0][pixel], maxima[1][pixel]), fmaxf(maxima[2][pixel], maxima[3][pixel]));
    float sum = 0.f;
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) sum += sums[warp][pixel] * exp2_approximate(maxima[warp][pixel] - top);
    return (log2_approximate(sum) + sample_.offset + top) * LN_2;
  }

  const Problem& problem_;
  Shared<CONSUMERS>& shared_;
  int group_, lane_, warp_;
  int buffer_ = 0, samples_seen_ = 0;
  bool loaded_ = false;
  int pending_valid_ = 0;  // outputs of the row whose sums wait in shared memory, if any
  float* pending_out_ = nullptr;
  ChannelConstants own_[2];
  SampleConstants sample_;
};

}  // namespace kbench::conv_logsumexp
