// The exact path: one sample by one block, in fp32 multiply-adds and fp64 statistics, for whatever split fp16 cannot
// hold.
//
// Inputs whose range defeats a scale taken from a few pixels, infinities and NaN, and statistics that would cancel come
// here. Results are what the operators give one after the other: a NaN spreads through its group as it does there.
#pragma once

#include <cmath>

#include "plan.cuh"

namespace kbench::conv_norm_pool {

constexpr int EXACT_CHANNELS = 4;  // output channels of a lane at a time: a pixel is loaded once for all of them
constexpr int EXACT_PATCH = POOL + KERNEL - 1;

class ExactSample {
 public:
  /// `sums` holds two doubles per output channel, in shared memory.
  __device__ __forceinline__ ExactSample(const Arguments& arguments, int sample, double (*sums)[2])
      : arguments_(arguments),
        sample_(sample),
        sums_(sums),
        warp_(threadIdx.x / WARP_THREADS),
        lane_(threadIdx.x % WARP_THREADS) {}

  /// Called by the CONSUMER_WARPS warps of the block. Channels go to warps in fours.
  __device__ __forceinline__ void run() {
    constexpr int STEP = CONSUMER_WARPS * EXACT_CHANNELS;
    for (int first = warp_ * EXACT_CHANNELS; first < arguments_.out_channels; first += STEP) convolve(first);
    sync_threads<CONSUMER_THREADS>(CONSUMERS);
    for (int channel = 0; channel < arguments_.out_channels; ++channel) {
      if (channel / EXACT_CHANNELS % CONSUMER_WARPS == warp_) normalise(channel);
    }
    sync_threads<CONSUMER_THREADS>(CONSUMERS);
  }

 private:
  /// EXACT_CHANNELS output channels: their sums, and pooled extremes into the output. A lane takes a pooling window at
  /// a time. Channels past the last repeat it.
  __device__ __forceinline__ void convolve(int first) {
    const int height = arguments_.out_height(), width = arguments_.out_width();
    double sum[EXACT_CHANNELS] = {}, square[EXACT_CHANNELS] = {};
    for (int row = 0; row < height; row += POOL) {
      for (int column = POOL * lane_; column < width; column += POOL * WARP_THREADS) {
        float window[EXACT_CHANNELS][POOL * POOL];
        convolve_window(first, row, column, window);
#pragma unroll
        for (int k = 0; k < EXACT_CHANNELS; ++k) {
          const int channel = min(first + k, arguments_.out_channels - 1);
          const float sign = is_negative(arguments_, channel) ? -1.0f : 1.0f;
          float extreme = -INFINITY;
#pragma unroll
          for (int i = 0; i < POOL * POOL; ++i) {
            const bool valid = row + i / POOL < height && column + i % POOL < width;
            const double value = valid ? window[k][i] : 0.0f;
            sum[k] += value;
            square[k] = fma(value, value, square[k]);
            extreme = fmaxf(extreme, sign * window[k][i]);
          }
          if (row + POOL <= height && column + POOL <= width) *pooled(channel, row, column) = extreme;
        }
      }
    }
#pragma unroll
    for (int k = 0; k < EXACT_CHANNELS; ++k) {
      sum[k] = warp_sum(sum[k]);
      square[k] = warp_sum(square[k]);
      if (lane_ == 0 && first + k < arguments_.out_channels) {
        sums_[first + k][0] = sum[k];
        sums_[first + k][1] = square[k];
      }
    }
  }

  __device__ __forceinline__ void convolve_window(int first, int row, int column,
                                                  float (&window)[EXACT_CHANNELS][POOL * POOL]) const {
    const int filter = arguments_.in_channels * KERNEL * KERNEL;
    const float* weight[EXACT_CHANNELS];
#pragma unroll
    for (int k = 0; k < EXACT_CHANNELS; ++k) {
      const int channel = min(first + k, arguments_.out_channels - 1);
      weight[k] = arguments_.weight + channel * filter;
#pragma unroll
      for (int i = 0; i < POOL * POOL; ++i) window[k][i] = arguments_.bias[channel];
    }
    const int64_t plane = int64_t(arguments_.height) * arguments_.width;
    const float* from = arguments_.x + int64_t(sample_) * arguments_.in_channels * plane;
    for (int input = 0; input < arguments_.in_channels; ++input, from += plane) {
      float patch[EXACT_PATCH][EXACT_PATCH];
#pragma unroll
      for (int i = 0; i < EXACT_PATCH * EXACT_PATCH; ++i) {
        // Beyond the edge, the last pixels again: such sums are dropped.
        const int r = min(row + i / EXACT_PATCH, arguments_.height - 1);
        const int c = min(column + i % EXACT_PATCH, arguments_.width - 1);
        patch[i / EXACT_PATCH][i % EXACT_PATCH] = from[r * arguments_.width + c];
      }
#pragma unroll
      for (int tap = 0; tap < KERNEL * KERNEL; ++tap) {
#pragma unroll
        for (int k = 0; k < EXACT_CHANNELS; ++k) {
          const float factor = weight[k][input * KERNEL * KERNEL + tap];
#pragma unroll
          for (int i = 0; i < POOL * POOL; ++i) {
            window[k][i] = fmaf(factor, patch[i / POOL + tap / KERNEL][i % POOL + tap % KERNEL], window[k][i]);
          }
        }
      }
    }
  }

  /// Each lane comes back to the windows that it wrote.
  __device__ __forceinline__ void normalise(int channel) {
    const int height = arguments_.out_height(), width = arguments_.out_width();
    const int group_channels = arguments_.out_channels / arguments_.groups;
    const int first = channel / group_channels * group_channels;
    double sum = 0.0, square = 0.0;
    for (int other = first; other < first + group_channels; ++other) {
      sum += sums_[other][0];
      square += sums_[other][1];
    }
    const double count = double(group_channels) * height * width;
    const double mean = sum / count, variance = square / count - mean * mean;
    const double gain = 1.0 / sqrt((variance < 0.0 ? 0.0 : variance) + double(arguments_.eps));
    const double gamma = arguments_.gamma[channel], beta = arguments_.beta[channel], scale = arguments_.scale[channel];
    const double sign = is_negative(arguments_, channel) ? -1.0 : 1.0;
    for (int row = 0; row + POOL <= height; row += POOL) {
      for (int column = POOL * lane_; column + POOL <= width; column += POOL * WARP_THREADS) {
        float* place = pooled(channel, row, column);
        const float value = float((((sign * double(*place) - mean) * gain) * gamma + beta) * scale);
        *place = isnan(value) ? value : fminf(fmaxf(value, arguments_.clamp_min), arguments_.clamp_max);
      }
    }
  }

  __device__ __forceinline__ float* pooled(int channel, int row, int column) const {
    const int64_t plane = int64_t(sample_) * arguments_.out_channels + channel;
    return arguments_.out + (plane * arguments_.pooled_height() + row / POOL) * arguments_.pooled_width() +
           column / POOL;
  }

  const Arguments& arguments_;
  const int sample_;
  double (*const sums_)[2];
  const int warp_, lane_;
};

}  // namespace kbench::conv_norm_pool
