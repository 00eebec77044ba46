// One output row x 64 channels on the tensor cores, to fp32 accuracy: fp16 pairs, three products, fp32 accumulators.
//
// GEMM orientation: D[64 channels x 128 pixels] = A[weights] * B[pixels], both operands in shared memory: A in
// registers would take 36 of them from the epilogue. B needs no im2col: input rows lie pixel by pixel with 8 fp16
// channels (16 bytes) each, which is a k8 x n8 core matrix per 8 pixels, so a tap is a start address, and the
// distance between two taps is the descriptor's leading offset. 9 taps x 3 products = 27 k8 slices = 13.5 k16 steps.
#pragma once

#include "../split_fp16.cuh"
#include "../wgmma.cuh"
#include "problem.cuh"

namespace kbench::conv_logsumexp {

constexpr int PIXEL_BYTES = MAX_INPUT_CHANNELS * 2;
constexpr int ROW_BYTES = TILE_PIXELS * PIXEL_BYTES;
constexpr int RING_ROWS = 16;
// Rows 0 and 1 are kept twice, so that the three rows of every output row follow each other without a wrap.
constexpr int RING_PLANE_BYTES = (RING_ROWS + 2) * ROW_BYTES;
// The last columns of the last row read two pixels past the plane: those outputs are dropped, the bytes must exist.
constexpr int RING_BYTES = 2 * RING_PLANE_BYTES + 2 * PIXEL_BYTES;
static_assert((RING_ROWS & (RING_ROWS - 1)) == 0, "slot and parity come from a sequence number by masks");

constexpr int WEIGHT_EXPONENT = 9;
constexpr int INPUT_EXPONENT = 8;  // of a sample's typical deviation: 2^7 below overflow

/// The A operands in shared memory: k8 slices of 64 channels x 8 input channels, one per tap and part. The order
/// makes the second slice of every step the next one: high 0-8, nothing, low 0-8, high 8 again.
constexpr int SLICE_BYTES = MAX_CHANNELS * PIXEL_BYTES;
constexpr int HIGH_SLICE = 0, EMPTY_SLICE = TAPS, LOW_SLICE = TAPS + 1, HIGH_8_SLICE = LOW_SLICE + TAPS;
constexpr int SLICES = HIGH_8_SLICE + 1;
using WeightSlices = uint4[SLICES][MAX_CHANNELS];

/// One step: weight slices `slice` and the next; the pixels of the first at `offset` bytes from `row`'s address,
/// those of the second `second_half` pixels further. All constants: a descriptor is then one addition to the row's,
/// shared memory being too small for a carry between its fields.
__device__ __forceinline__ void two_taps(float (&sums)[WGMMA_SUMS], uint64_t weights, int slice, uint64_t row, int offset,
                                         int second_half, bool accumulate = true) {
  const uint64_t pixels = row + (operand_layout(second_half * PIXEL_BYTES) + uint64_t(offset / 16));
  const uint64_t slices = weights + (operand_layout(SLICE_BYTES) + uint64_t(slice * SLICE_BYTES / 16));
  wgmma_m64n128k16(sums, slices, pixels, accumulate);
}

/// Closes a batch where LATE of a row's steps are left.
template <int LATE, int LEFT>
__device__ __forceinline__ void commit_before_late() {
  static_assert(LATE >= 1 && LATE < 14, "both batches have steps");
  if constexpr (LATE == LEFT) wgmma_commit();
}

/// Starts the 14 steps of one output row; `address` is its first input row in the ring's high plane. Small products
/// first. The last LATE steps are a batch of their own, so that a wait for all but one batch ends while they still
/// run.
template <int LATE>
__device__ __forceinline__ void start_row(float (&sums)[WGMMA_SUMS], uint32_t slices, uint32_t address) {
  const uint64_t weights = operand_address(slices);
  const uint64_t row = operand_address(address);
  constexpr int LOW = RING_PLANE_BYTES, ROW = ROW_BYTES, PIXEL = PIXEL_BYTES, TO_NEXT_ROW = TILE_PIXELS - 2;
  wgmma_fence();
  two_taps(sums, weights, HIGH_SLICE + 0, row, LOW, 1, false);
  commit_before_late<LATE, 13>();
  two_taps(sums, weights, HIGH_SLICE + 2, row, LOW + 2 * PIXEL, TO_NEXT_ROW);
  commit_before_late<LATE, 12>();
  two_taps(sums, weights, HIGH_SLICE + 4, row, LOW + ROW + PIXEL, 1);
  commit_before_late<LATE, 11>();
  two_taps(sums, weights, HIGH_SLICE + 6, row, LOW + 2 * ROW, 1);
  commit_before_late<LATE, 10>();
  two_taps(sums, weights, HIGH_SLICE + 8, row, LOW + 2 * ROW + 2 * PIXEL, 0);
  commit_before_late<LATE, 9>();
  two_taps(sums, weights, LOW_SLICE + 0, row, 0, 1);
  commit_before_late<LATE, 8>();
  two_taps(sums, weights, LOW_SLICE + 2, row, 2 * PIXEL, TO_NEXT_ROW);
  commit_before_late<LATE, 7>();
  two_taps(sums, weights, LOW_SLICE + 4, row, ROW + PIXEL, 1);
  commit_before_late<LATE, 6>();
  two_taps(sums, weights, LOW_SLICE + 6, row, 2 * ROW, 1);
  commit_before_late<LATE, 5>();
  two_taps(sums, weights, LOW_SLICE + 8, row, 2 * ROW + 2 * PIXEL, 0);  // both halves read the same pixels
  commit_before_late<LATE, 4>();
  two_taps(sums, weights, HIGH_SLICE + 0, row, 0, 1);
  commit_before_late<LATE, 3>();
  two_taps(sums, weights, HIGH_SLICE + 2, row, 2 * PIXEL, TO_NEXT_ROW);
  commit_before_late<LATE, 2>();
  two_taps(sums, weights, HIGH_SLICE + 4, row, ROW + PIXEL, 1);
  commit_before_late<LATE, 1>();
  two_taps(sums, weights, HIGH_SLICE + 6, row, 2 * ROW, 1);
  wgmma_commit();
}

}  // namespace kbench::conv_logsumexp
