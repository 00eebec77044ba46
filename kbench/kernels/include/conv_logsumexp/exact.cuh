// Samples that fp16 pairs cannot hold: plain fp32 products, statistics in fp64, library functions. One block per
// sample.
//
// Infinities and NaNs take their natural course here, as in torch. Slow: about three milliseconds per sample and
// block. The consumers of the block that owns a sample's first row do it when all their rows are done, in the ring's
// memory.
#pragma once

#include "constants.cuh"

namespace kbench::conv_logsumexp {

constexpr int EXACT_CHANNELS = 8;  // computed together, from one read of the input

template <int THREADS>
struct ExactShared {
  float weights[MAX_INPUT_CHANNELS * TAPS][MAX_CHANNELS];  // tap-major: 8 channels of a tap are two 16-byte reads
  float bias[MAX_CHANNELS], slope[MAX_CHANNELS], mean[MAX_CHANNELS], beta[MAX_CHANNELS];
  double channel_mean[MAX_CHANNELS], channel_squares[MAX_CHANNELS];
  double warp_sums[THREADS / 32][2];

  static __device__ void synchronise() { sync_threads<THREADS>(CONSUMERS_BARRIER); }
};

/// Eight channels' convolution, bias included, at one output pixel.
template <int THREADS>
__device__ __forceinline__ void convolve(const Problem& problem, const ExactShared<THREADS>& shared, int sample,
                                         int first_channel, int y, int x, float (&out)[EXACT_CHANNELS]) {
#pragma unroll
  for (int c = 0; c < EXACT_CHANNELS; ++c) out[c] = 0.f;
  for (int input = 0; input < problem.in_channels; ++input) {
    const float* source =
        problem.x + ((int64_t(sample) * problem.in_channels + input) * problem.height + y) * problem.width + x;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
      const float value = __ldg(source + int64_t(tap / 3) * problem.width + tap % 3);
      const float* weights = &shared.weights[input * TAPS + tap][first_channel];
#pragma unroll
      for (int c = 0; c < EXACT_CHANNELS; ++c) out[c] = fmaf(value, weights[c], out[c]);
    }
  }
#pragma unroll
  for (int c = 0; c < EXACT_CHANNELS; ++c) out[c] += shared.bias[first_channel + c];
}

/// Sum over the threads, in every one of them.
template <int THREADS>
__device__ __forceinline__ void block_sum(ExactShared<THREADS>& shared, double& first, double& second) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    first += __shfl_xor_sync(~0u, first, step);
    second += __shfl_xor_sync(~0u, second, step);
  }
  shared.synchronise();
  if (threadIdx.x % 32 == 0) {
    shared.warp_sums[threadIdx.x / 32][0] = first;
    shared.warp_sums[threadIdx.x / 32][1] = second;
  }
  shared.synchronise();
  first = second = 0;
  for (int warp = 0; warp < THREADS / 32; ++warp) {
    first += shared.warp_sums[warp][0];
    second += shared.warp_sums[warp][1];
  }
}

template <int THREADS>
__device__ void exact_statistics(const Problem& problem, ExactShared<THREADS>& shared, int sample) {
  const int pixels = problem.out_height * problem.out_width;
  for (int first = 0; first < problem.channels; first += EXACT_CHANNELS) {
    double sum[EXACT_CHANNELS] = {}, squares[EXACT_CHANNELS] = {};
    for (int pixel = threadIdx.x; pixel < pixels; pixel += THREADS) {
      float values[EXACT_CHANNELS];
      convolve(problem, shared, sample, first, pixel / problem.out_width, pixel % problem.out_width, values);
#pragma unroll
      for (int c = 0; c < EXACT_CHANNELS; ++c) {
        const double v = values[c];
        sum[c] += v;
        squares[c] += v * v;  // in fp64 the difference below stays good to a mean of 1e5 deviations
      }
    }
#pragma unroll
    for (int c = 0; c < EXACT_CHANNELS; ++c) {
      block_sum(shared, sum[c], squares[c]);
      if (threadIdx.x == 0) {
        shared.channel_mean[first + c] = sum[c] / pixels;
        shared.channel_squares[first + c] = squares[c] - sum[c] / pixels * sum[c];
      }
    }
  }
  shared.synchronise();
  if (threadIdx.x < problem.channels) {
    double mean, inverse_deviation;
    normalise(problem, shared, threadIdx.x, mean, inverse_deviation);
    shared.mean[threadIdx.x] = float(mean);
    shared.slope[threadIdx.x] = float(double(problem.gamma[threadIdx.x]) * inverse_deviation);
    shared.beta[threadIdx.x] = problem.beta[threadIdx.x];
  }
  shared.synchronise();
}

template <int THREADS>
__device__ void exact_output(const Problem& problem, const ExactShared<THREADS>& shared, int sample) {
  const int pixels = problem.out_height * problem.out_width;
  for (int pixel = threadIdx.x; pixel < pixels; pixel += THREADS) {
    float top = -INFINITY, sum = 0.f;
    for (int first = 0; first < problem.channels; first += EXACT_CHANNELS) {
      float values[EXACT_CHANNELS];
      convolve(problem, shared, sample, first, pixel / problem.out_width, pixel % problem.out_width, values);
      for (int c = 0; c < min(EXACT_CHANNELS, problem.channels - first); ++c) {
        const int channel = first + c;
        const float t = tanhf(fmaf(values[c] - shared.mean[channel], shared.slope[channel], shared.beta[channel]));
        const float v = values[c] + t * (t + 3.f) * (1.f / 6.f);  // |t| <= 1 is inside hardswish's middle piece
        const float higher = fmaxf(top, v);
        // A pair of equal infinities must not become NaN; a NaN in v comes through the second term.
        sum = sum * (top == higher ? 1.f : expf(top - higher)) + (v == higher ? 1.f : expf(v - higher));
        top = higher;
      }
    }
    problem.out[int64_t(sample) * pixels + pixel] = top + logf(sum);
  }
}

/// All consumers, after their last row.
template <int THREADS>
__device__ void recompute_exact_samples(const Problem& problem, ExactShared<THREADS>& shared) {
  const int per_sample = problem.rows_per_sample();
  const int begin = problem.first_row(blockIdx.x) / per_sample;
  const int end = (problem.first_row(blockIdx.x + 1) - 1) / per_sample + 1;
  bool prepared = false;
  for (int sample = begin; sample < end; ++sample) {
    if (problem.tiers[sample] != TIER_EXACT || problem.first_block(sample) != int(blockIdx.x)) continue;
    shared.synchronise();
    if (!prepared) {
      const int own = problem.in_channels * TAPS;
      for (int i = threadIdx.x; i < own * MAX_CHANNELS; i += THREADS) {
        const int channel = i % MAX_CHANNELS, k = i / MAX_CHANNELS;
        shared.weights[k][channel] = channel < problem.channels ? problem.weight[channel * own + k] : 0.f;
      }
      for (int c = threadIdx.x; c < MAX_CHANNELS; c += THREADS) {
        shared.bias[c] = c < problem.channels ? problem.bias[c] : 0.f;
      }
      prepared = true;
      shared.synchronise();
    }
    exact_statistics(problem, shared, sample);
    exact_output(problem, shared, sample);
  }
}

}  // namespace kbench::conv_logsumexp
