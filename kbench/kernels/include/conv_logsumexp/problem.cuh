// convolution 3x3 -> GroupNorm -> tanh -> hardswish -> + convolution -> logsumexp: sizes, work split, workspace.
#pragma once

#include <cstdint>

#include "../launch.cuh"
#include "../split_fp16.cuh"

namespace kbench::conv_logsumexp {

constexpr int MAX_INPUT_CHANNELS = 8;    // one k8 slice of a tensor-core step holds the input channels of one tap
constexpr int MAX_CHANNELS = 64;         // rows of one warpgroup's tile
constexpr int TAPS = 9;
constexpr int TILE_PIXELS = 128;         // columns of one tile, and input pixels of one ring row
constexpr int STRIP_PIXELS = TILE_PIXELS - 2;  // outputs of a tile: the last two columns lack their right-hand taps
constexpr int STRIP_STEP = 124;  // between tiles of a wider row: a multiple of 4 keeps their loads aligned to 16 bytes
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LN_2 = 0.6931471805599453f;

/// How a sample's fp32 values become scaled fp16 pairs: (x - origin[c]) * scale.
struct Frame {
  float origin[MAX_INPUT_CHANNELS];
  float scale;
};

/// Moments of one channel over some of a sample's pixels, in units of the scaled accumulator, bias left out.
struct alignas(16) Partial {
  double mean;
  double squares;  // sum of squared deviations from the mean
  float low;       // no value is below
  float high;      // no value is above
  float count;
  float weight;    // of the moments' rounding error: see correlation.cuh
};

/// Which epilogue a sample gets.
enum Tier : int {
  TIER_BOUNDED = 0,  // no clamp, and one maximum for the whole sample
  TIER_GENERAL = 1,  // clamped exponents, a maximum per pixel
  TIER_REPEAT = 2,   // correlations of the input do not give the moments: one block takes them from the convolution
  TIER_EXACT = 3,    // out of range for fp16 pairs: recomputed in fp32 by exact.cuh
};

struct Problem {
  const float* x;
  const float* weight;
  const float* bias;
  const float* gamma;
  const float* beta;
  float* out;
  double eps;
  int batch, in_channels, height, width;
  int channels, channels_per_group;
  int out_height, out_width;
  int strips;            // column strips, STRIP_STEP apart
  int rows_per_block;    // output rows, strip by strip, that a block owns
  double inverse_pixels, inverse_group;  // 1 / pixels of a channel, 1 / channels of a group
  int slots;             // partials per sample and channel
  bool correlated;       // the first pass works on correlations of the input
  Frame* frames;         // [batch]
  Partial* partials;     // [batch][slots][MAX_CHANNELS]
  int* tiers;            // [batch]
  int* published;        // [block]: whether its first pass on correlations is over

  __host__ __device__ int rows_per_sample() const { return strips * out_height; }
  __host__ __device__ int64_t total_rows() const { return int64_t(batch) * rows_per_sample(); }
  /// Blocks take contiguous runs of all the batch's rows, of which there are less than 2^30.
  __device__ int first_row(int block) const { return min(block * rows_per_block, batch * rows_per_sample()); }
  __host__ __device__ int first_block(int sample) const { return sample * rows_per_sample() / rows_per_block; }
  __host__ __device__ int last_block(int sample) const { return ((sample + 1) * rows_per_sample() - 1) / rows_per_block; }
};

/// Strips that cover a row: all STRIP_STEP apart, the last up to STRIP_PIXELS wide.
inline int strips_of(int out_width) {
  return out_width <= STRIP_PIXELS ? 1 : 1 + ceil_div(out_width - STRIP_PIXELS, STRIP_STEP);
}

/// Consecutive output rows of one strip of one sample.
struct Run {
  int sample, strip, y, rows;

  __device__ int left() const { return strip * STRIP_STEP; }
  /// Outputs of this strip: the last one is wider than a step where that saves another strip.
  __device__ int valid(const Problem& problem) const {
    return strip == problem.strips - 1 ? problem.out_width - left() : STRIP_STEP;
  }
};

/// A block's rows as runs, in order or in the opposite one.
class Walk {
 public:
  __device__ explicit Walk(const Problem& problem, bool backwards = false)
      : row_(problem.first_row(blockIdx.x)), end_(problem.first_row(blockIdx.x + 1)), backwards_(backwards) {}
  /// All rows of one sample.
  __device__ Walk(const Problem& problem, int sample)
      : row_(sample * problem.rows_per_sample()), end_(row_ + problem.rows_per_sample()) {}

  __device__ bool next(const Problem& problem, Run& run) {
    if (row_ >= end_) return false;
    const int per_sample = problem.rows_per_sample();
    const int row = backwards_ ? end_ - 1 : row_;
    const int within = row % per_sample;
    run.sample = row / per_sample;
    run.strip = within / problem.out_height;
    run.y = within % problem.out_height;
    if (backwards_) {
      run.rows = min(run.y + 1, end_ - row_);
      run.y -= run.rows - 1;
      end_ -= run.rows;
    } else {
      run.rows = min(problem.out_height - run.y, end_ - row_);
      row_ += run.rows;
    }
    return true;
  }
  __device__ bool more() const { return row_ < end_; }

 private:
  int row_, end_;
  bool backwards_ = false;
};

/// Whether a block's first pass on correlations begins with its last sample: where it has fewer rows of that than of
/// its first one. The edges' warpgroup alone puts the moments of the first sample walked together, beside the rows that
/// follow: few rows at the end would wait for it. The second pass goes the other way round.
__device__ inline bool last_sample_first(const Problem& problem, int block) {
  const int per_sample = problem.rows_per_sample();
  const int begin = problem.first_row(block), end = problem.first_row(block + 1);
  return min(per_sample - begin % per_sample, end - begin) > min((end - 1) % per_sample + 1, end - begin);
}

/// The power of two that brings `magnitude` into [2^exponent, 2^(exponent + 1)); 1 for zero, inf and NaN.
__device__ __forceinline__ float power_of_two_scale(float magnitude, int exponent) {
  if (!(magnitude > 0.f) || !(magnitude < INFINITY)) return 1.f;
  // Subnormals count as 2^-127; the clamp keeps the scale and its inverse normal.
  return power_of_two(max(-100, min(100, exponent - binary_exponent(magnitude))));
}

}  // namespace kbench::conv_logsumexp
