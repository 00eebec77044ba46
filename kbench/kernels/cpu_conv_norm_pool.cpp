// Convolution -> GroupNorm -> per-channel scale -> max-pool -> clamp on the CPU, one task per (sample, group).
//
// A task keeps its group's convolution output in a workspace of its own (254 KB for 4 channels of 126 x 126, so
// it stays in the L2 cache), takes the statistics there and writes only the pooled result.
#include <omp.h>

#include <limits>

#include "cpu_convolution.h"

namespace {

struct Pooling {
  int64_t height, width;
  float clamp_min, clamp_max;
};

// torch's maximum: a NaN, once seen, stays.
inline float nan_max(float best, float value) { return value > best || value != value ? value : best; }

// One output row: the vertical maxima of the normalised values first (contiguous, vectorised), then across.
void pool_row(const float* rows, int64_t width, const Pooling& pool, kbench::GroupMoments moments, float factor,
              float beta, float scale, float* column_max, float* out, int64_t out_width) {
  for (int64_t x = 0; x < width; ++x) column_max[x] = -std::numeric_limits<float>::infinity();
  for (int64_t y = 0; y < pool.height; ++y) {
    const float* row = rows + y * width;
#pragma omp simd
    for (int64_t x = 0; x < width; ++x) {
      const float centred = (row[x] - moments.mean_high) - moments.mean_low;
      column_max[x] = nan_max(column_max[x], (centred * factor + beta) * scale);
    }
  }
  for (int64_t x = 0; x < out_width; ++x) {
    float best = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < pool.width; ++i) best = nan_max(best, column_max[x * pool.width + i]);
    best = best < pool.clamp_min ? pool.clamp_min : best;
    out[x] = best > pool.clamp_max ? pool.clamp_max : best;
  }
}

}  // namespace

// workspace: threads x (group_channels * out_pixels + out_width) floats. Returns 0, or 1 for a shape it cannot do.
extern "C" int kbench_cpu_conv_norm_pool(const float* x, const float* weight, const float* bias, const float* gamma,
                                         const float* beta, const float* scale, float* out, float* workspace,
                                         int64_t batch, int64_t in_channels, int64_t height, int64_t width,
                                         int64_t out_channels, int64_t kernel_height, int64_t kernel_width,
                                         int64_t groups, double eps, int64_t pool_height, int64_t pool_width,
                                         float clamp_min, float clamp_max, int64_t threads) {
  const kbench::Convolution conv{in_channels, height, width, kernel_height, kernel_width, out_channels, groups};
  if (conv.out_height() < 1 || conv.out_width() < 1 || threads < 1) return 1;
  if (groups < 1 || out_channels % groups != 0) return 1;
  const Pooling pool{pool_height, pool_width, clamp_min, clamp_max};
  const int64_t pixels = conv.out_pixels(), channels = conv.group_channels();
  const int64_t pooled_height = conv.out_height() / pool_height, pooled_width = conv.out_width() / pool_width;
  const float* images_end = x + batch * conv.image_size();

#pragma omp parallel num_threads(static_cast<int>(threads))
  {
    float* values = workspace + omp_get_thread_num() * (channels * pixels + conv.out_width());
    float* column_max = values + channels * pixels;
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < batch * groups; ++task) {
      const int64_t sample = task / groups, group = task % groups;
      kbench::convolve_group(conv, x + sample * conv.image_size(), images_end, weight, bias, group, values);
      const kbench::GroupMoments moments = kbench::group_moments(values, channels * pixels, eps);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t channel = group * channels + c;
        const float factor = static_cast<float>(moments.inverse_std * gamma[channel]);
        float* plane = out + (sample * out_channels + channel) * pooled_height * pooled_width;
        for (int64_t y = 0; y < pooled_height; ++y) {
          pool_row(values + c * pixels + y * pool_height * conv.out_width(), conv.out_width(), pool, moments, factor,
                   beta[channel], scale[channel], column_max, plane + y * pooled_width, pooled_width);
        }
      }
    }
  }
  return 0;
}
