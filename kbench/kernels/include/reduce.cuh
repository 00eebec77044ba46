// Sums over a warp, with the result in every lane.
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

}  // namespace kbench
