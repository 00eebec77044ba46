// Convolution -> GroupNorm -> tanh -> hardswish -> + convolution -> logsumexp over channels, on the CPU.
//
// Sample by sample: the threads first share the groups (convolution, statistics and activation of a group stay in
// one core's L2 cache), then, after a barrier, the output pixels. Only one sample's activations exist at a time.
#include <omp.h>

#include <cstring>
#include <limits>

#include "cpu_convolution.h"

namespace {

template <typename To, typename From>
inline To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To result;
  std::memcpy(&result, &value, sizeof(To));
  return result;
}

// e^x to 1.5 ulp, branch-free so that the loops around it become vector code (libm's expf is a call, and the
// compiler's own vector version needs -ffast-math, which drops NaN). Degree-6 polynomial on |r| <= ln(2)/2.
inline float exponential(float x) {
  float bounded = x > 88.8f ? 88.8f : x;  // e^88.8 is already infinite in fp32; a NaN passes both comparisons
  bounded = bounded < -104.0f ? -104.0f : bounded;
  const float shifted = bounded * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the sum rounds to an integer
  const float whole = shifted - 12582912.0f;
  float rest = bounded - whole * 0.693145752f;  // ln(2) in two parts, the first exact times any such integer
  rest -= whole * 1.42860677e-6f;
  float series = 1.0f / 720.0f;
  series = series * rest + 1.0f / 120.0f;
  series = series * rest + 1.0f / 24.0f;
  series = series * rest + 1.0f / 6.0f;
  series = series * rest + 0.5f;
  series = series * rest + 1.0f;
  series = series * rest + 1.0f;
  // 2^whole in two factors, so that results below 2^-126 and above 2^127 round to denormals and to infinity.
  const int32_t exponent = bits_as<int32_t>(shifted) - 0x4B400000;
  const int32_t half = exponent >> 1;
  const float low = bits_as<float>((half + 127) << 23);
  const float high = bits_as<float>((exponent - half + 127) << 23);
  return series * low * high;
}

// hardswish(tanh(y)): |tanh| <= 1 keeps hardswish on its middle branch t(t + 3)/6, and with r = 1/(1 + e^2y),
// t = 1 - 2r it is 2/3 + r(2r - 5)/3.
inline float activation(float y) {
  const float r = 1.0f / (1.0f + exponential(2.0f * y));
  return 0.666666667f + r * (2.0f * r - 5.0f) * 0.333333333f;
}

void activate_channel(float* values, int64_t count, kbench::GroupMoments moments, float factor, float beta) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float centred = (values[i] - moments.mean_high) - moments.mean_low;
    values[i] += activation(centred * factor + beta);
  }
}

// Stable: the largest value is subtracted before e^x, unless it is infinite (then the sum is 0 or infinite anyway).
// A block of pixels goes over the channels twice while its maxima and sums stay in the L1 cache.
constexpr int64_t PIXEL_BLOCK = 256;

void logsumexp_block(const float* values, int64_t channels, int64_t stride, int64_t count, float* out) {
  float largest[PIXEL_BLOCK], sum[PIXEL_BLOCK];
  for (int64_t i = 0; i < count; ++i) {
    largest[i] = -std::numeric_limits<float>::infinity();
    sum[i] = 0.0f;
  }
  for (int64_t c = 0; c < channels; ++c) {
    const float* row = values + c * stride;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      largest[i] = row[i] > largest[i] || row[i] != row[i] ? row[i] : largest[i];
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    if (__builtin_isinf(largest[i])) largest[i] = 0.0f;
  }
  for (int64_t c = 0; c < channels; ++c) {
    const float* row = values + c * stride;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] += exponential(row[i] - largest[i]);
  }
  for (int64_t i = 0; i < count; ++i) out[i] = __builtin_logf(sum[i]) + largest[i];
}

}  // namespace

// workspace: out_channels * out_pixels floats. Returns 0, or 1 for a shape it cannot do.
extern "C" int kbench_cpu_conv_norm_logsumexp(const float* x, const float* weight, const float* bias,
                                              const float* gamma, const float* beta, float* out, float* workspace,
                                              int64_t batch, int64_t in_channels, int64_t height, int64_t width,
                                              int64_t out_channels, int64_t kernel_height, int64_t kernel_width,
                                              int64_t groups, double eps, int64_t threads) {
  const kbench::Convolution conv{in_channels, height, width, kernel_height, kernel_width, out_channels, groups};
  if (conv.out_height() < 1 || conv.out_width() < 1 || threads < 1) return 1;
  if (groups < 1 || out_channels % groups != 0) return 1;
  const int64_t pixels = conv.out_pixels(), channels = conv.group_channels();
  const float* images_end = x + batch * conv.image_size();

#pragma omp parallel num_threads(static_cast<int>(threads))
  for (int64_t sample = 0; sample < batch; ++sample) {
#pragma omp for schedule(dynamic)
    for (int64_t group = 0; group < groups; ++group) {
      float* values = workspace + group * channels * pixels;
      kbench::convolve_group(conv, x + sample * conv.image_size(), images_end, weight, bias, group, values);
      const kbench::GroupMoments moments = kbench::group_moments(values, channels * pixels, eps);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t channel = group * channels + c;
        const float factor = static_cast<float>(moments.inverse_std * gamma[channel]);
        activate_channel(values + c * pixels, pixels, moments, factor, beta[channel]);
      }
    }
#pragma omp for schedule(static)
    for (int64_t start = 0; start < pixels; start += PIXEL_BLOCK) {
      const int64_t count = pixels - start < PIXEL_BLOCK ? pixels - start : PIXEL_BLOCK;
      logsumexp_block(workspace + start, out_channels, pixels, count, out + sample * pixels + start);
    }
  }
  return 0;
}
