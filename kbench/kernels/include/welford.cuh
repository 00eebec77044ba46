// Mean and variance that survive any offset: no power of a raw value is ever summed.
//
// A few dozen values in registers get their mean first and then the squares of their deviations from it, in fp32; such
// moments merge pairwise (Chan, Golub and LeVeque, 1979) in fp64, once per few dozen values, which is rare enough to be
// free where a kernel waits for memory.
#pragma once

#include <cuda_runtime.h>

#include "reduce.cuh"

namespace kbench {

/// Count, mean and sum of squared deviations from the mean of a set of values; all zero for the empty set.
struct Moments {
  double count, mean, m2;

  __device__ __forceinline__ static Moments none() { return {0.0, 0.0, 0.0}; }

  __device__ __forceinline__ void merge(const Moments& other) {
    const double total = count + other.count;
    if (total == 0.0) return;
    const double delta = other.mean - mean;
    const double share = other.count / total;
    mean += delta * share;
    m2 += other.m2 + delta * delta * count * share;
    count = total;
  }

  /// 1 / sqrt(variance + eps) with the biased variance, as normalisation layers use it. NaN stays NaN.
  __device__ __forceinline__ double inverse_std(double eps) const { return rsqrt(m2 / count + eps); }
};

/// Moments of values held by one thread, from sums of deviations from `centre`, which should be near their mean. The
/// sum of the deviations, zero in exact arithmetic, carries the rounding error of `centre` and puts both moments
/// right.
__device__ __forceinline__ Moments moments_about(float centre, double count, float deviations, float squares) {
  const double shift = double(deviations) / count;
  return {count, double(centre) + shift, double(squares) - shift * double(deviations)};
}

/// Moments of COUNT values in registers, by two passes over them.
template <int COUNT>
__device__ __forceinline__ Moments moments_of(const float (&values)[COUNT]) {
  static_assert(COUNT >= 1, "an empty set has no mean");
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) sum += values[i];
  const float centre = sum * (1.0f / COUNT);
  float deviations = 0.0f, squares = 0.0f;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    const float deviation = values[i] - centre;
    deviations += deviation;
    squares = fmaf(deviation, deviation, squares);
  }
  return moments_about(centre, double(COUNT), deviations, squares);
}

/// Merge over the warp; every lane gets the total. The order of merges is fixed.
__device__ __forceinline__ Moments warp_merge(Moments mine) {
#pragma unroll
  for (int distance = 1; distance < WARP_THREADS; distance *= 2) {
    const Moments theirs = {__shfl_xor_sync(ALL_LANES, mine.count, distance),
                            __shfl_xor_sync(ALL_LANES, mine.mean, distance),
                            __shfl_xor_sync(ALL_LANES, mine.m2, distance)};
    mine.merge(theirs);
  }
  return mine;
}

/// Merge over a block of THREADS threads; every thread gets the total. `scratch`: one Moments per warp in shared
/// memory.
template <int THREADS>
__device__ __forceinline__ Moments block_merge(Moments mine, Moments* scratch) {
  static_assert(THREADS % WARP_THREADS == 0 && THREADS <= 1024, "whole warps, and no more than a block holds");
  constexpr int WARPS = THREADS / WARP_THREADS;
  mine = warp_merge(mine);
  const int lane = threadIdx.x % WARP_THREADS;
  if (lane == 0) scratch[threadIdx.x / WARP_THREADS] = mine;
  __syncthreads();
  return warp_merge(lane < WARPS ? scratch[lane] : Moments::none());
}

}  // namespace kbench
