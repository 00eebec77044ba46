// Valid, stride-1 convolution of one image into one group of output channels, in fp32 with FMA, for one thread.
//
// Register blocking: CHANNELS output channels x 2 vectors of output columns stay in registers over the whole
// reduction, so that each tap costs 2 loads for 2*CHANNELS FMAs. 4 x 2 = 8 independent chains cover the FMA
// latency (4 cycles on 2 ports).
#pragma once

#include <cstdint>
#include <cstring>

namespace kbench {

#ifdef __AVX512F__
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif
typedef float Lanes __attribute__((vector_size(LANES * sizeof(float))));
constexpr int STRIP = 2 * LANES;

struct Convolution {
  int64_t in_channels, height, width;
  int64_t kernel_height, kernel_width;
  int64_t out_channels, groups;

  int64_t out_height() const { return height - kernel_height + 1; }
  int64_t out_width() const { return width - kernel_width + 1; }
  int64_t out_pixels() const { return out_height() * out_width(); }
  int64_t image_size() const { return in_channels * height * width; }
  int64_t taps() const { return in_channels * kernel_height * kernel_width; }
  int64_t group_channels() const { return out_channels / groups; }
};

// Reads whole vectors, or with PARTIAL only what lies before `end`; lanes past it hold zero and are never stored.
template <bool PARTIAL>
inline Lanes load_lanes(const float* source, const float* end) {
  Lanes lanes = {};
  if (!PARTIAL || source + LANES <= end) {
    std::memcpy(&lanes, source, sizeof(Lanes));
  } else if (source < end) {
    std::memcpy(&lanes, source, static_cast<size_t>(end - source) * sizeof(float));
  }
  return lanes;
}

inline void store_lanes(float* target, Lanes lanes, int64_t count) {
  if (count <= 0) return;
  std::memcpy(target, &lanes, static_cast<size_t>(count < LANES ? count : LANES) * sizeof(float));
}

// One row segment of STRIP columns for CHANNELS output channels. `image` points at the segment's first tap.
template <int CHANNELS, bool PARTIAL>
void convolve_strip(const Convolution& conv, const float* image, const float* image_end, const float* weight,
                    const float* bias, float* out, int64_t columns) {
  Lanes sum[CHANNELS][2] = {};
  const int64_t taps = conv.taps();
  for (int64_t channel = 0; channel < conv.in_channels; ++channel) {
    for (int64_t row = 0; row < conv.kernel_height; ++row) {
      const float* pixel = image + (channel * conv.height + row) * conv.width;
      for (int64_t column = 0; column < conv.kernel_width; ++column, ++pixel, ++weight) {
        const Lanes left = load_lanes<PARTIAL>(pixel, image_end);
        const Lanes right = load_lanes<PARTIAL>(pixel + LANES, image_end);
        for (int c = 0; c < CHANNELS; ++c) {
          sum[c][0] += left * weight[c * taps];
          sum[c][1] += right * weight[c * taps];
        }
      }
    }
  }
  for (int c = 0; c < CHANNELS; ++c) {
    float* target = out + c * conv.out_pixels();
    store_lanes(target, sum[c][0] + bias[c], columns);
    store_lanes(target + LANES, sum[c][1] + bias[c], columns - LANES);
  }
}

// `images_end` bounds the whole batch: only a segment whose vectors would reach past it needs partial loads.
template <int CHANNELS>
void convolve_channels(const Convolution& conv, const float* image, const float* images_end, const float* weight,
                       const float* bias, float* out) {
  const int64_t last_tap =
      ((conv.in_channels - 1) * conv.height + conv.kernel_height - 1) * conv.width + conv.kernel_width - 1;
  for (int64_t row = 0; row < conv.out_height(); ++row) {
    for (int64_t column = 0; column < conv.out_width(); column += STRIP) {
      const float* first = image + row * conv.width + column;
      float* target = out + row * conv.out_width() + column;
      const int64_t columns = conv.out_width() - column;
      if (first + last_tap + STRIP <= images_end) {
        convolve_strip<CHANNELS, false>(conv, first, images_end, weight, bias, target, columns);
      } else {
        convolve_strip<CHANNELS, true>(conv, first, images_end, weight, bias, target, columns);
      }
    }
  }
}

// Output channels [group * group_channels, ...) of `image` into `out` (group_channels x out_pixels).
inline void convolve_group(const Convolution& conv, const float* image, const float* images_end, const float* weight,
                           const float* bias, int64_t group, float* out) {
  const int64_t first = group * conv.group_channels();
  const int64_t last = first + conv.group_channels();
  for (int64_t channel = first; channel < last; channel += 4) {
    const float* filter = weight + channel * conv.taps();
    float* target = out + (channel - first) * conv.out_pixels();
    switch (last - channel) {
      case 1: convolve_channels<1>(conv, image, images_end, filter, bias + channel, target); break;
      case 2: convolve_channels<2>(conv, image, images_end, filter, bias + channel, target); break;
      case 3: convolve_channels<3>(conv, image, images_end, filter, bias + channel, target); break;
      default: convolve_channels<4>(conv, image, images_end, filter, bias + channel, target);
    }
  }
}

// The mean as a pair of floats (high + low) keeps x - mean exact to the last bit when the mean is many standard
// deviations: one float would shift every result by up to half its own spacing.
struct GroupMoments {
  float mean_high, mean_low;
  double inverse_std;
};

// Two passes in double over values that are still in the cache.
inline GroupMoments group_moments(const float* values, int64_t count, double eps) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  const double mean = sum / static_cast<double>(count);
  double squares = 0.0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < count; ++i) {
    const double distance = static_cast<double>(values[i]) - mean;
    squares += distance * distance;
  }
  GroupMoments moments;
  moments.mean_high = static_cast<float>(mean);
  moments.mean_low = static_cast<float>(mean - static_cast<double>(moments.mean_high));
  moments.inverse_std = 1.0 / __builtin_sqrt(squares / static_cast<double>(count) + eps);
  return moments;
}

}  // namespace kbench
