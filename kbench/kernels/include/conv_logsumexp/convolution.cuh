// One output row x 64 channels on the tensor cores, to fp32 accuracy: fp16 pairs, three products, fp32 accumulators.
//
// GEMM orientation: D[64 channels x 128 pixels] = A[weights] * B[pixels]. A stays in registers for the whole kernel. B needs
// no im2col: input rows lie in shared memory pixel by pixel with 8 fp16 channels (16 bytes) each, which is a k8 x n8 core
// matrix per 8 pixels, so a tap is a start address, and the distance between two taps is the descriptor's leading offset.
// 9 taps x 3 products = 27 k8 slices = 13.5 k16 steps.
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
constexpr int INPUT_EXPONENT = 8;   // of a sample's typical deviation: 2^7 below overflow

/// A thread's share of the weights: rows lane/4 and lane/4 + 8 of its warp's 16 channels, input channels 2(lane%4) + {0, 1}.
/// Kept in shared memory, one column per thread of a warpgroup, and in registers only while products are issued: the
/// epilogue has better use for 36 registers.
struct alignas(16) WeightFragments {
  uint32_t high[TAPS][2];
  uint32_t low[TAPS][2];

  /// From [MAX_CHANNELS][8 * TAPS] fp32 weights with the given row pitch, each row times its channel's scale.
  __device__ void split(const float* weights, int pitch, const float* scales, int warp, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int channel = warp * 16 + (lane >> 2) + 8 * half;
      const float* row = weights + channel * pitch + 2 * (lane & 3) * TAPS;
      const float scale = scales[channel];
#pragma unroll
      for (int tap = 0; tap < TAPS; ++tap) {
        const SplitPair pair = split_fp16(row[tap] * scale, row[TAPS + tap] * scale);
        high[tap][half] = pair.high;
        low[tap][half] = pair.low;
      }
    }
  }
};

constexpr int FRAGMENT_VECTORS = sizeof(WeightFragments) / sizeof(uint4);
using FragmentColumns = uint4[FRAGMENT_VECTORS][WARPGROUP_THREADS];

__device__ __forceinline__ void store_fragments(FragmentColumns& columns, int thread, const WeightFragments& fragments) {
#pragma unroll
  for (int i = 0; i < FRAGMENT_VECTORS; ++i) columns[i][thread] = reinterpret_cast<const uint4*>(&fragments)[i];
}

__device__ __forceinline__ void load_fragments(const FragmentColumns& columns, int thread, WeightFragments& fragments) {
#pragma unroll
  for (int i = 0; i < FRAGMENT_VECTORS; ++i) reinterpret_cast<uint4*>(&fragments)[i] = columns[i][thread];
}

/// sums = A * B + (accumulate ? sums : 0); the two k8 halves are one tap's (or split part's) fragment each. `offset` in bytes
/// leads from `row`'s address to the first half's pixels, `second_half` in pixels from there to the second's. Both are
/// constants: a descriptor is then one addition to the row's, shared memory being too small for a carry between its fields.
__device__ __forceinline__ void two_taps(float (&sums)[WGMMA_SUMS], const uint32_t (&first)[2], const uint32_t (&second)[2],
                                         uint64_t row, int offset, int second_half, bool accumulate = true) {
  const uint64_t pixels = row + (operand_layout(second_half * PIXEL_BYTES) + uint64_t(offset / 16));
  wgmma_m64n128k16(sums, first[0], first[1], second[0], second[1], pixels, accumulate);
}

/// Starts the 14 steps of one output row; `address` is its first input row in the ring's high plane. Small products first.
/// The last LATE steps are a batch of their own, so that a wait for all but one batch ends while they still run.
template <int LATE>
__device__ __forceinline__ void start_row(float (&sums)[WGMMA_SUMS], const WeightFragments& w, uint32_t address) {
  const uint32_t zero[2] = {0u, 0u};
  const uint64_t row = operand_address(address);
  constexpr int LOW = RING_PLANE_BYTES, ROW = ROW_BYTES, PIXEL = PIXEL_BYTES, TO_NEXT_ROW = TILE_PIXELS - 2;
  static_assert(LATE >= 1 && LATE <= 4, "the late steps are among the last four");
  wgmma_fence();
  two_taps(sums, w.high[0], w.high[1], row, LOW, 1, false);
  two_taps(sums, w.high[2], w.high[3], row, LOW + 2 * PIXEL, TO_NEXT_ROW);
  two_taps(sums, w.high[4], w.high[5], row, LOW + ROW + PIXEL, 1);
  two_taps(sums, w.high[6], w.high[7], row, LOW + 2 * ROW, 1);
  two_taps(sums, w.high[8], zero, row, LOW + 2 * ROW + 2 * PIXEL, 0);
  two_taps(sums, w.low[0], w.low[1], row, 0, 1);
  two_taps(sums, w.low[2], w.low[3], row, 2 * PIXEL, TO_NEXT_ROW);
  two_taps(sums, w.low[4], w.low[5], row, ROW + PIXEL, 1);
  two_taps(sums, w.low[6], w.low[7], row, 2 * ROW, 1);
  two_taps(sums, w.low[8], w.high[8], row, 2 * ROW + 2 * PIXEL, 0);  // both halves read the same pixels
  if constexpr (LATE == 4) wgmma_commit();
  two_taps(sums, w.high[0], w.high[1], row, 0, 1);
  if constexpr (LATE == 3) wgmma_commit();
  two_taps(sums, w.high[2], w.high[3], row, 2 * PIXEL, TO_NEXT_ROW);
  if constexpr (LATE == 2) wgmma_commit();
  two_taps(sums, w.high[4], w.high[5], row, ROW + PIXEL, 1);
  if constexpr (LATE == 1) wgmma_commit();
  two_taps(sums, w.high[6], w.high[7], row, 2 * ROW, 1);
  wgmma_commit();
}

}  // namespace kbench::conv_logsumexp
