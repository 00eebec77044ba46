// Between the passes: from a sample's partial moments to its group statistics and the epilogue's constants.
#pragma once

#include "pipeline.cuh"

namespace kbench::conv_logsumexp {

// 2^y beyond this cannot share a reciprocal. Where the product of two overflows, both get 0, as they should: each is
// above 2^26 then.
constexpr float MAX_GATE_EXPONENT = 100.f;
// Widest range of log2(e) * convolution in a sample that one maximum for the whole sample serves: 2^-90 is a normal
// fp32, and what absent channels add, 2^ABSENT_EXPONENT each, is still nothing beside it.
constexpr float MAX_VALUE_RANGE = 90.f;
constexpr float ABSENT_EXPONENT = -120.f;
// Of the first pass on correlations: the largest bound of the sums behind a variance, as a multiple of it. Rounding is up
// to 2^-26 of the bound, so deviations are good to 4e-6 of themselves, and the result to 1.3e-6.
constexpr float MAX_MOMENTS_WEIGHT = 512.f;
// Largest error that the grid's floor of fp16 pairs may bring to the convolution or to the gate's argument.
constexpr float MAX_FLOOR_ERROR = 2e-6f;

/// hardswish(tanh(y)) = 2/3 - r (5 - 2r) / 3 with r = 1 / (1 + e^(2y)), and as a complete square
/// 2/3 (r - 5/4)^2 + 2/3 - 25/24. In exponents of two: (GATE_ROOT (r - 5/4))^2 + GATE_OFFSET.
constexpr float GATE_ROOT = 0.98071223f;  // sqrt(2/3 log2(e))
constexpr float GATE_SCALE_EXPONENT = 0.02809806f;  // log2(1 / GATE_ROOT), a factor of the gate's exponential
constexpr float GATE_OFFSET = (2.f / 3.f - 25.f / 24.f) * LOG2_E;

/// Moments of one channel over a whole sample.
struct ChannelMoments {
  double mean, squares;
  float low = INFINITY, high = -INFINITY, weight = 0.f;

  /// Merges a sample's partials without a difference of large sums: the mean first, then deviations from it.
  __device__ ChannelMoments(const Partial* partials, int slots, double inverse_pixels) {
    constexpr int TOGETHER = 4;  // loads on their way
    double total = 0;
    for (int first = 0; first < slots; first += TOGETHER) {
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i) {
        const bool there = first + i < slots;
        const Partial part = partials[min(first + i, slots - 1) * MAX_CHANNELS];
        total += there ? part.mean * double(part.count) : 0.0;
        weight += there ? part.weight : 0.f;
        low = fminf(low, part.low);
        high = fmaxf(high, part.high);
      }
    }
    mean = total * inverse_pixels;
    squares = 0;
    for (int first = 0; first < slots; first += TOGETHER) {  // from the nearest cache now
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i) {
        const Partial part = partials[min(first + i, slots - 1) * MAX_CHANNELS];
        const double delta = part.mean - mean;
        squares += first + i < slots ? part.squares + delta * delta * double(part.count) : 0.0;
      }
    }
  }
};

/// What decides the tier, per channel; then over all channels.
struct Extent {
  float gate_top = -INFINITY, value_top = -INFINITY, value_bottom = INFINITY;
  bool exact = false, repeat = false;

  __device__ void over_warp() {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      gate_top = fmaxf(gate_top, __shfl_xor_sync(~0u, gate_top, step));
      value_top = fmaxf(value_top, __shfl_xor_sync(~0u, value_top, step));
      value_bottom = fminf(value_bottom, __shfl_xor_sync(~0u, value_bottom, step));
    }
    exact = __any_sync(~0u, exact);
    repeat = __any_sync(~0u, repeat);
  }
};

/// Group statistics from shared.channel_mean and channel_squares: mean, and gamma's factor 1 / sqrt(variance + eps).
template <typename AnyShared>
__device__ void normalise(const Problem& problem, const AnyShared& shared, int channel, double& mean,
                          double& inverse_deviation) {
  const int size = problem.channels_per_group, first = channel / size * size;
  const double pixels = double(problem.out_height) * problem.out_width;
  mean = 0;
  for (int i = 0; i < size; ++i) mean += shared.channel_mean[first + i];
  mean *= problem.inverse_group;
  double squares = 0;
  for (int i = 0; i < size; ++i) {
    const double delta = shared.channel_mean[first + i] - mean;
    squares += shared.channel_squares[first + i] + pixels * delta * delta;
  }
  inverse_deviation = rsqrt(squares * (problem.inverse_pixels * problem.inverse_group) + problem.eps);
}

/// Computes a sample's constants into the given buffer, from `slots` partials. All of the producer warpgroup; shared.frame
/// is the sample's, and `correlated` says whether the partials are of correlations.
template <int CONSUMERS>
__device__ void compute_constants(const Problem& problem, Shared<CONSUMERS>& shared, int sample, int slots,
                                  bool correlated, int buffer) {
  const int channel = threadIdx.x % WARPGROUP_THREADS;
  const bool real = channel < problem.channels;
  double step = 0, bias = 0;  // convolution = step * accumulator + bias
  float low = 0.f, high = 0.f;
  if (real) {
    step = double(1.f / shared.frame.scale) * double(1.f / shared.weight_scale[channel]);  // powers of two: exact
    bias = double(shared.bias[channel]);
#pragma unroll
    for (int c = 0; c < MAX_INPUT_CHANNELS; ++c) {
      bias += shared.weight_sum[channel][c] * double(shared.frame.origin[c]);
    }
    asm volatile("" : "+d"(step), "+d"(bias));  // before the partials, which come from far
    const int skipped = problem.correlated && !correlated ? CONSUMERS : 0;  // a repeated sample's: see MomentsOfRows
    const Partial* partials = problem.partials + (int64_t(sample) * problem.slots + skipped) * MAX_CHANNELS + channel;
    const ChannelMoments moments(partials, slots, problem.inverse_pixels);
    low = moments.low;
    high = moments.high;
    shared.channel_mean[channel] = moments.mean * step + bias;
    shared.channel_squares[channel] = moments.squares * step * step;
    shared.channel_weight[channel] = float(moments.weight * step * step);
  }
  sync_threads<WARPGROUP_THREADS>(PRODUCER_BARRIER);
  ChannelConstants constants = {0.f, 0.f, 0.f, 0.f};
  Extent extent;
  if (real) {
    double mean, inverse_deviation;
    normalise(problem, shared, channel, mean, inverse_deviation);
    const double slope = double(shared.gamma[channel]) * inverse_deviation;
    constants.gate_slope = float(2 * double(LOG2_E) * slope * step);
    const double gate_offset = (bias - mean) * slope + double(shared.beta[channel]);
    constants.gate_offset = float(2 * double(LOG2_E) * gate_offset + double(GATE_SCALE_EXPONENT));
    constants.value_slope = float(double(LOG2_E) * step);
    constants.value_offset = float(double(LOG2_E) * bias);
    extent.gate_top = fmaxf(constants.gate_slope * low, constants.gate_slope * high) + constants.gate_offset;
    extent.value_top = constants.value_slope * high + constants.value_offset;
    extent.value_bottom = constants.value_slope * low + constants.value_offset;
    // Rounding of the pairs' low halves: 2^-25 in scaled units, for inputs against all weights, and for weights
    // against inputs of four times the typical deviation.
    const float weight_floor = float(1 << (INPUT_EXPONENT + 3)) * problem.in_channels * TAPS / shared.weight_scale[channel];
    const float floor_error = 0x1p-25f / shared.frame.scale * (shared.weight_l1[channel] + weight_floor);
    const double sum = double(extent.gate_top) + extent.value_top + extent.value_bottom + constants.gate_slope;
    extent.exact = !(fabs(sum) < INFINITY) || !(floor_error * (1 + fabsf(float(slope))) < MAX_FLOOR_ERROR) ||
                   !(shared.channel_squares[channel] < INFINITY);
    float weight = 0.f;
    const int size = problem.channels_per_group, first = channel / size * size;
    for (int i = 0; i < size; ++i) weight += shared.channel_weight[first + i];
    const double share = problem.inverse_pixels * problem.inverse_group * inverse_deviation * inverse_deviation;
    extent.repeat = correlated && !(weight * share <= double(MAX_MOMENTS_WEIGHT));
  }
  extent.over_warp();
  if (channel % 32 == 0) {
    float* scratch = shared.warp_scratch[channel / 32];
    scratch[0] = extent.gate_top;
    scratch[1] = extent.value_top;
    scratch[2] = extent.value_bottom;
    scratch[3] = float(extent.repeat ? TIER_REPEAT : extent.exact ? TIER_EXACT : 0);
  }
  sync_threads<WARPGROUP_THREADS>(PRODUCER_BARRIER);
  const float (&a)[4] = shared.warp_scratch[0], (&b)[4] = shared.warp_scratch[1];
  const float top = fmaxf(a[1], b[1]);
  const bool bounded = fmaxf(a[0], b[0]) <= MAX_GATE_EXPONENT && top - fminf(a[2], b[2]) <= MAX_VALUE_RANGE;
  const bool repeat = a[3] == float(TIER_REPEAT) || b[3] == float(TIER_REPEAT);
  const int tier = repeat ? TIER_REPEAT : a[3] + b[3] > 0.f ? TIER_EXACT : bounded ? TIER_BOUNDED : TIER_GENERAL;
  if (channel < MAX_CHANNELS) {
    if (!real) constants.value_offset = tier == TIER_BOUNDED ? ABSENT_EXPONENT : -3e38f;
    if (real && tier == TIER_BOUNDED) constants.value_offset -= top;
    shared.channels[buffer][channel] = constants;
  }
  if (channel == 0) {
    shared.samples[buffer] = {GATE_OFFSET + (tier == TIER_BOUNDED ? top : 0.f), tier};
    if (problem.first_block(sample) == int(blockIdx.x)) problem.tiers[sample] = tier;  // who recomputes it
  }
}

}  // namespace kbench::conv_logsumexp
