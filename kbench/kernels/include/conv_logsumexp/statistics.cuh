// First pass: per sample the frame of the fp16 pairs, and the moments of every channel's convolution.
#pragma once

#include "pipeline.cuh"

namespace kbench::conv_logsumexp {

/// Frame from 64 scattered pixels per input channel: their mean as origin, their largest deviation as scale.
///
/// It only has to be typical. Values far outside overflow fp16, which shows as inf or NaN in the moments and sends
/// the sample to the exact path; values far too small are found by the error bound in constants.cuh. All of the
/// producer warpgroup calls it; every block that meets the sample computes the same frame. `meanwhile` is called while
/// the pixels are on their way.
template <int CONSUMERS, typename Meanwhile>
__device__ void measure_frame(const Problem& problem, Shared<CONSUMERS>& shared, int sample, Meanwhile meanwhile) {
  constexpr int LANES = 16, PIXELS = 4;
  const int thread = threadIdx.x % WARPGROUP_THREADS, channel = thread / LANES, lane = thread % LANES;
  const int source_channel = min(channel, problem.in_channels - 1);  // as the feeder's load does
  const uint32_t plane = uint32_t(problem.height) * uint32_t(problem.width);
  const float* source = problem.x + (int64_t(sample) * problem.in_channels + source_channel) * int64_t(plane);
  float values[PIXELS], sum = 0.f;
#pragma unroll
  for (int i = 0; i < PIXELS; ++i) {
    const uint32_t fraction = (uint32_t(lane * PIXELS + i) * 2 + 1) * 2654435769u;  // Weyl sequence: no column stands out
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(values[i]) : "l"(source + __umulhi(fraction, plane)));
  }
  meanwhile();
#pragma unroll
  for (int i = 0; i < PIXELS; ++i) sum += values[i];
#pragma unroll
  for (int step = 1; step < LANES; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
  float origin = sum / (LANES * PIXELS);
  if (!(fabsf(origin) < INFINITY)) origin = 0.f;
  float deviation = 0.f;
#pragma unroll
  for (int i = 0; i < PIXELS; ++i) deviation = fmaxf(deviation, fabsf(values[i] - origin));
  deviation = fmaxf(deviation, fabsf(origin) * 0x1p-10f);  // constant samples still get a scale
#pragma unroll
  for (int step = 1; step < 32; step *= 2) deviation = fmaxf(deviation, __shfl_xor_sync(~0u, deviation, step));
  sync_threads<WARPGROUP_THREADS>(PRODUCER_BARRIER);  // everybody has taken the previous frame
  if (lane == 0) shared.frame.origin[channel] = origin;
  if (thread % 32 == 0) shared.warp_scratch[0][thread / 32] = deviation;
  sync_threads<WARPGROUP_THREADS>(PRODUCER_BARRIER);
  if (thread == 0) {
    const float* parts = shared.warp_scratch[0];
    shared.frame.scale = power_of_two_scale(fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3])), INPUT_EXPONENT);
    problem.frames[sample] = shared.frame;
  }
  sync_threads<WARPGROUP_THREADS>(PRODUCER_BARRIER);
}

/// Moments of a thread's two channels over its warpgroup's rows, shifted by the channel's mean over the first of
/// them: E[v^2] - E[v]^2 cancels when the mean is many deviations from zero, as it is for smooth images or large
/// offsets.
class MomentsOfRows {
 public:
  __device__ MomentsOfRows(const Problem& problem, int group, int groups)
      : problem_(problem), group_(group), groups_(groups), lane_(threadIdx.x % 32), warp_(threadIdx.x / 32 % 4) {}

  __device__ void begin(int) {
    count_ = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) shift_[half] = sum_[half] = squares_[half] = peak_[half] = 0.f;
  }

  __device__ void beside_products() {}

  __device__ void row(const Run& run, int, const float (&values)[64]) {
    const int valid = run.valid(problem_);
    if (count_ == 0) set_shift(values, valid);
    if (valid == STRIP_PIXELS) {
      add<true>(values, valid);
    } else {
      add<false>(values, valid);
    }
    count_ += valid;
  }

  __device__ void end(int sample) {
    // A repeated sample's behind those of correlations, which the sample's other blocks may not have read yet.
    const int repeated = problem_.correlated ? groups_ : 0;
    const int slot = (int(blockIdx.x) - problem_.first_block(sample)) * groups_ + group_ + repeated;
    Partial* partials = problem_.partials + (int64_t(sample) * problem_.slots + slot) * MAX_CHANNELS;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = over_quad(sum_[half], [](float a, float b) { return a + b; });
      const float squares = over_quad(squares_[half], [](float a, float b) { return a + b; });
      const float peak = over_quad(peak_[half], [](float a, float b) { return fmaxf(a, b); });
      if ((lane_ & 3) != 0) continue;
      const double count = max(count_, 1), offset = double(sum) / count;
      Partial& partial = partials[warp_ * 16 + (lane_ >> 2) + 8 * half];
      partial.mean = double(shift_[half]) + offset;
      partial.squares = double(squares) - double(sum) * offset;
      partial.low = count_ > 0 ? shift_[half] - peak : INFINITY;
      partial.high = count_ > 0 ? shift_[half] + peak : -INFINITY;
      partial.count = float(count_);
      partial.weight = 0.f;
    }
  }

 private:
  template <typename Operator>
  static __device__ float over_quad(float value, Operator combine) {
    value = combine(value, __shfl_xor_sync(~0u, value, 1));
    return combine(value, __shfl_xor_sync(~0u, value, 2));
  }

  /// Accumulator 4j + 2*half + e holds channel lane/4 + 8*half of the warp's 16, pixel 8j + 2(lane%4) + e.
  __device__ void set_shift(const float (&values)[64], int valid) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = 0.f;
#pragma unroll
      for (int j = 0; j < 16; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) sum += 8 * j + 2 * (lane_ & 3) + e < valid ? values[4 * j + 2 * half + e] : 0.f;
      }
      shift_[half] = over_quad(sum, [](float a, float b) { return a + b; }) / float(valid);
    }
  }

  template <bool FULL>
  __device__ void add(const float (&values)[64], int valid) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum[2] = {0.f, 0.f}, squares[2] = {0.f, 0.f}, peak[2] = {0.f, 0.f};
#pragma unroll
      for (int j = 0; j < 16; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float d = values[4 * j + 2 * half + e] - shift_[half];
          // Of the last 8 pixels only the last two, in the last lane of each quad, are beyond a full strip.
          if (FULL ? j == 15 && (lane_ & 3) == 3 : 8 * j + 2 * (lane_ & 3) + e >= valid) d = 0.f;
          sum[e] += d;
          squares[e] = fmaf(d, d, squares[e]);
          peak[e] = fmaxf(peak[e], fabsf(d));
        }
      }
      sum_[half] += sum[0] + sum[1];
      squares_[half] += squares[0] + squares[1];
      peak_[half] = fmaxf(peak_[half], fmaxf(peak[0], peak[1]));
    }
  }

  const Problem& problem_;
  int group_, groups_, lane_, warp_;
  int count_ = 0;
  float shift_[2], sum_[2], squares_[2], peak_[2];
};

}  // namespace kbench::conv_logsumexp
