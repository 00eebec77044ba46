// Sums over a warp and over a block, with the result in every thread.
#pragma once

#include <cuda_runtime.h>

namespace kbench {

constexpr int WARP_THREADS = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

/// Sum over the warp, in every lane; all 32 lanes take part. The order of additions is fixed.
template <typename Number>
__device__ __forceinline__ Number warp_sum(Number value) {
#pragma unroll
  for (int distance = WARP_THREADS / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(ALL_LANES, value, distance);
  }
  return value;
}

/// Sum over a block of THREADS threads, in every thread. `scratch` holds one value per warp, in shared memory; it may be
/// used again after the caller's next block barrier.
template <int THREADS, typename Number>
__device__ __forceinline__ Number block_sum(Number value, Number* scratch) {
  static_assert(THREADS % WARP_THREADS == 0 && THREADS <= 1024, "whole warps, and no more than a block holds");
  constexpr int WARPS = THREADS / WARP_THREADS;
  value = warp_sum(value);
  const int lane = threadIdx.x % WARP_THREADS;
  if (lane == 0) scratch[threadIdx.x / WARP_THREADS] = value;
  __syncthreads();
  // Every warp adds up the warps' sums for itself: cheaper than a second barrier and a broadcast.
  return warp_sum(lane < WARPS ? scratch[lane] : Number(0));
}

}  // namespace kbench
