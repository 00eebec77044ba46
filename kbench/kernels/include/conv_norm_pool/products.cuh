// One convolution row x 64 channels on the tensor cores, to fp32's accuracy.
//
// D[64 channels x 128 pixels] = A[weights, in registers] * B[pixels, in the ring]. A pixel's 8 fp16 channels are the 16
// bytes of a core matrix row, a phase's 8 pixels a core matrix: so a filter tap is a start address, and the second tap of
// a k16 step is the descriptor's depth stride. 9 taps x 3 products (high*low, low*high, high*high) = 27 k8 slices = 14
// steps; small terms first.
#pragma once

#include "plan.cuh"

namespace kbench::conv_norm_pool {

__device__ __forceinline__ void product(float (&d)[WGMMA_SUMS], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  wgmma_m64n128k16(d, a[0], a[1], a[2], a[3], b, accumulate);
}

/// A fragments of this thread's two output channels: each run of four registers is used in one combination only, since
/// the instruction takes an aligned run of four.
struct Weights {
  uint32_t high[4][4];  // taps 2i and 2i + 1: high parts
  uint32_t low[4][4];
  uint32_t last[4];  // tap 8: low part, then high part
};

/// Byte offset of a tap from a row's start, and the depth stride from an even tap to the next one.
constexpr __host__ __device__ int tap_offset(int tap) { return tap / KERNEL * ROW_BYTES + tap % KERNEL * PHASE_BYTES; }
constexpr __host__ __device__ uint64_t two_taps(int tap, int part) {
  return operand_layout(uint32_t(tap_offset(tap + 1) - tap_offset(tap))) + uint64_t((part + tap_offset(tap)) / 16);
}
/// The same tap for both halves of a step: both parts of its weights meet one part of the input.
constexpr __host__ __device__ uint64_t one_tap(int tap, int part) {
  return operand_layout(0) + uint64_t((part + tap_offset(tap)) / 16);
}

/// Starts the 14 steps. `row` is the descriptor address of the first column in the first of three rows, in the plane of
/// high parts.
__device__ __forceinline__ void start_products(float (&sums)[WGMMA_SUMS], const Weights& weights, uint64_t row) {
  constexpr int LOW = PLANE_BYTES;
  wgmma_fence();
  product(sums, weights.high[0], row + two_taps(0, LOW), false);
  product(sums, weights.high[1], row + two_taps(2, LOW), true);
  product(sums, weights.high[2], row + two_taps(4, LOW), true);
  product(sums, weights.high[3], row + two_taps(6, LOW), true);
  product(sums, weights.last, row + one_tap(8, LOW), true);
  product(sums, weights.low[0], row + two_taps(0, 0), true);
  product(sums, weights.low[1], row + two_taps(2, 0), true);
  product(sums, weights.low[2], row + two_taps(4, 0), true);
  product(sums, weights.low[3], row + two_taps(6, 0), true);
  product(sums, weights.last, row + one_tap(8, 0), true);
  product(sums, weights.high[0], row + two_taps(0, 0), true);
  product(sums, weights.high[1], row + two_taps(2, 0), true);
  product(sums, weights.high[2], row + two_taps(4, 0), true);
  product(sums, weights.high[3], row + two_taps(6, 0), true);
  wgmma_commit();
}

}  // namespace kbench::conv_norm_pool
