// Moments of a tile in shared memory, taken by one warp in the single-pass group norm.
#pragma once

#include "../reduce.cuh"
#include "../vector.cuh"
#include "../welford.cuh"

namespace kbench::single_pass {

// Deviations about a centre, summed by one lane: four independent chains, since one would wait 4 cycles per addition.
struct DeviationSums {
  float4 linear = {0, 0, 0, 0}, square = {0, 0, 0, 0};

  __device__ __forceinline__ void add(float4 value, float centre) {
    add_one(value.x, centre, linear.x, square.x);
    add_one(value.y, centre, linear.y, square.y);
    add_one(value.z, centre, linear.z, square.z);
    add_one(value.w, centre, linear.w, square.w);
  }

  __device__ __forceinline__ static void add_one(float value, float centre, float& linear, float& square) {
    const float deviation = value - centre;
    linear += deviation;
    square = fmaf(deviation, deviation, square);
  }

  __device__ __forceinline__ Moments over_warp(float centre, double count) const {
    return moments_about(centre, count, warp_sum((linear.x + linear.y) + (linear.z + linear.w)),
                         warp_sum((square.x + square.y) + (square.z + square.w)));
  }
};

/// Moments of a full tile in one pass over shared memory. The centre is the mean of the tile's first quarter: if that
/// quarter's mean lies far from the tile's, the tile's own variance is at least a quarter of that distance squared,
/// so the sums about it cancel by a small factor at worst. Calls `release` as soon as the slot has been read.
template <typename P, typename Release>
__device__ __forceinline__ Moments full_tile_moments(const float4* slot, int lane, Release release) {
  constexpr int PART = P::VECTORS_PER_LANE / 4;
  float centre = 0.0f;
  DeviationSums sums;
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    float4 values[PART];
#pragma unroll
    for (int i = 0; i < PART; ++i) values[i] = slot[(part * PART + i) * WARP_THREADS + lane];
    if (part == 3) release();
    if (part == 0) {
      float4 total = {0, 0, 0, 0};
#pragma unroll
      for (int i = 0; i < PART; ++i) {
        total.x += values[i].x, total.y += values[i].y, total.z += values[i].z, total.w += values[i].w;
      }
      centre = warp_sum((total.x + total.y) + (total.z + total.w)) * (4.0f / P::TILE_FLOATS);
    }
#pragma unroll
    for (int i = 0; i < PART; ++i) sums.add(values[i], centre);
  }
  return sums.over_warp(centre, P::TILE_FLOATS);
}

/// As full_tile_moments, for the shorter tile at the end of a group.
template <typename Release>
__device__ __forceinline__ Moments short_tile_moments(const float4* slot, unsigned vectors, int lane, Release release) {
  const float count = float(vectors * VECTOR_FLOATS);
  float total = 0.0f;
  for (unsigned i = lane; i < vectors; i += WARP_THREADS) {
    const float4 value = slot[i];
    total += (value.x + value.y) + (value.z + value.w);
  }
  const float centre = warp_sum(total) / count;
  DeviationSums sums;
  for (unsigned i = lane; i < vectors; i += WARP_THREADS) sums.add(slot[i], centre);
  release();
  return sums.over_warp(centre, count);
}

}  // namespace kbench::single_pass
