// Mean and 1/sqrt(variance + eps) of every (sample, group): one block each, one read of the data.
//
// A thread takes 32 values at a time into registers, two passes over them there, and merges the moments in fp64: no sum
// of squares of raw values exists, so any offset of the data is harmless.
#include "group_affine.cuh"
#include "launch.cuh"
#include "vector.cuh"
#include "welford.cuh"

namespace {

using kbench::GroupStatistics;
using kbench::Moments;

constexpr int THREADS = 512;
constexpr int VALUES = 32;

struct Chunk {
  float values[VALUES];
  int count;
};

// Thread's share of one chunk: VALUES values (fewer at the end), neighbouring threads on neighbouring addresses.
__device__ __forceinline__ Chunk load_chunk(const float* group, int64_t start, int64_t length) {
  Chunk chunk{};
#pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    const int64_t at = start + threadIdx.x + i * THREADS;
    if (at < length) {
      chunk.values[i] = __ldg(group + at);
      chunk.count = i + 1;
    }
  }
  return chunk;
}

__device__ __forceinline__ Chunk load_chunk(const float4* group, int64_t start, int64_t length) {
  Chunk chunk{};
#pragma unroll
  for (int i = 0; i < VALUES / 4; ++i) {
    const int64_t at = start / 4 + threadIdx.x + i * THREADS;
    if (at < length / 4) {
      const float4 value = __ldg(group + at);
      chunk.values[4 * i] = value.x;
      chunk.values[4 * i + 1] = value.y;
      chunk.values[4 * i + 2] = value.z;
      chunk.values[4 * i + 3] = value.w;
      chunk.count = 4 * i + 4;
    }
  }
  return chunk;
}

// Absent values are zero in the array: they add nothing to the sum, and are kept out of the deviations.
__device__ __forceinline__ Moments chunk_moments(const Chunk& chunk) {
  if (chunk.count == 0) return Moments::none();
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < VALUES; ++i) sum += chunk.values[i];
  const float centre = sum / float(chunk.count);
  float deviations = 0.0f, squares = 0.0f;
#pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    const float deviation = i < chunk.count ? chunk.values[i] - centre : 0.0f;
    deviations += deviation;
    squares = fmaf(deviation, deviation, squares);
  }
  return kbench::moments_about(centre, double(chunk.count), deviations, squares);
}

// Two blocks per SM: 32 values a thread are then 128 KB in flight, what HBM's latency asks for.
template <typename Access>
__global__ void __launch_bounds__(THREADS, sizeof(Access) == sizeof(float4) ? 2 : 1)
    statistics_kernel(const float* __restrict__ x, GroupStatistics* __restrict__ statistics, int64_t length,
                      double eps) {
  __shared__ Moments scratch[THREADS / kbench::WARP_THREADS];
  const Access* group = reinterpret_cast<const Access*>(x + int64_t(blockIdx.x) * length);
  Moments moments = Moments::none();
  for (int64_t start = 0; start < length; start += int64_t(THREADS) * VALUES) {
    moments.merge(chunk_moments(load_chunk(group, start, length)));
  }
  moments = kbench::block_merge<THREADS>(moments, scratch);
  if (threadIdx.x == 0) statistics[blockIdx.x] = {moments.mean, moments.inverse_std(eps)};
}

}  // namespace

// x: `groups` runs of `length` contiguous values; statistics: groups x {mean, 1/std} as doubles.
extern "C" int kbench_group_statistics(const float* x, GroupStatistics* statistics, int64_t groups, int64_t length,
                                       double eps, void* stream) {
  if (groups < 0 || groups > kbench::MAX_GRID_X || length < 1) return int(cudaErrorInvalidValue);
  if (groups == 0) return int(cudaSuccess);
  const bool vectors = length % kbench::VECTOR_FLOATS == 0 && kbench::is_aligned(x, kbench::VECTOR_BYTES);
  const auto kernel = vectors ? statistics_kernel<float4> : statistics_kernel<float>;
  kernel<<<unsigned(groups), THREADS, 0, static_cast<cudaStream_t>(stream)>>>(x, statistics, length, eps);
  return kbench::launch_status();
}
