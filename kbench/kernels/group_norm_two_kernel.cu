// GroupNorm in two kernels: statistics with one block per (sample, group), then normalisation of the whole tensor.
//
// The tensor is read twice and written once, so at full size this moves 1.5 times the compulsory bytes. The
// statistics stay on the device. Any shape and any alignment: 16-byte accesses where they are possible, scalar ones
// elsewhere.

#include <cstdint>

#include "launch.cuh"
#include "reduce.cuh"
#include "vector.cuh"
#include "welford.cuh"

namespace kbench {
namespace {

/// Mean in two parts, so that subtracting it costs no accuracy, and 1 / sqrt(variance + eps); one value per group.
struct Statistics {
  float* __restrict__ mean_high;
  float* __restrict__ mean_low;
  float* __restrict__ rstd;
};

// 512 threads with 8 vectors each ask for 64 KB at a time, and two blocks fit a multiprocessor: far more than the 24
// KB or so that must be in flight there to saturate the memory.
constexpr int STATISTICS_THREADS = 512;
constexpr int VECTORS_IN_FLIGHT = 8;

/// Moments of this thread's share of `count` floats at an aligned address; count is a multiple of 4.
__device__ Moments vector_moments(const float* x, int64_t count) {
  const float4* vectors = reinterpret_cast<const float4*>(x);
  const int64_t total = count / VECTOR_FLOATS;
  constexpr int64_t STEP = int64_t(STATISTICS_THREADS) * VECTORS_IN_FLIGHT;
  Moments moments = Moments::none();
  int64_t first = threadIdx.x;
  for (; first + STEP - STATISTICS_THREADS < total; first += STEP) {
    float values[VECTORS_IN_FLIGHT * VECTOR_FLOATS];
#pragma unroll
    for (int i = 0; i < VECTORS_IN_FLIGHT; ++i) {
      const float4 vector = load_streaming(vectors + first + i * STATISTICS_THREADS);
      values[4 * i] = vector.x, values[4 * i + 1] = vector.y;
      values[4 * i + 2] = vector.z, values[4 * i + 3] = vector.w;
    }
    moments.merge(moments_of(values));
  }
  for (; first < total; first += STATISTICS_THREADS) {
    const float4 vector = load_streaming(vectors + first);
    const float values[VECTOR_FLOATS] = {vector.x, vector.y, vector.z, vector.w};
    moments.merge(moments_of(values));
  }
  return moments;
}

/// As vector_moments, for any address and count.
__device__ Moments scalar_moments(const float* x, int64_t count) {
  Moments moments = Moments::none();
  for (int64_t i = threadIdx.x; i < count; i += STATISTICS_THREADS) {
    const float value[1] = {load_streaming(x + i)};
    moments.merge(moments_of(value));
  }
  return moments;
}

template <bool VECTORS>
__global__ void __launch_bounds__(STATISTICS_THREADS, 2)
    group_statistics(const float* __restrict__ x, Statistics statistics, int64_t group_floats, double eps) {
  __shared__ Moments scratch[STATISTICS_THREADS / WARP_THREADS];
  const int64_t group = blockIdx.x;
  const float* values = x + group * group_floats;
  const Moments mine = VECTORS ? vector_moments(values, group_floats) : scalar_moments(values, group_floats);
  const Moments total = block_merge<STATISTICS_THREADS>(mine, scratch);
  if (threadIdx.x == 0) {
    const float mean_high = float(total.mean);
    statistics.mean_high[group] = mean_high;
    statistics.mean_low[group] = float(total.mean - double(mean_high));
    statistics.rstd[group] = float(total.inverse_std(eps));
  }
}

// Two vectors a thread: on an H200 short blocks with little in flight each copied faster than long ones.
constexpr int APPLY_THREADS = 256;
constexpr int APPLY_ITEMS = 2;
constexpr int APPLY_BLOCK_ITEMS = APPLY_THREADS * APPLY_ITEMS;

/// Item is float4 where every row is whole vectors at aligned addresses, else float; a row is one channel of one
/// sample.
template <typename Item>
__global__ void __launch_bounds__(APPLY_THREADS)
    apply_statistics(const Item* __restrict__ x, Item* __restrict__ y, const float* __restrict__ gamma,
                     const float* __restrict__ beta, Statistics statistics, int64_t items, int64_t row_items,
                     int channels, int channels_per_group) {
  const int64_t first = int64_t(blockIdx.x) * APPLY_BLOCK_ITEMS + threadIdx.x;
  Item values[APPLY_ITEMS];
#pragma unroll
  for (int i = 0; i < APPLY_ITEMS; ++i) {
    const int64_t item = first + i * APPLY_THREADS;
    if (item < items) values[i] = load_streaming(x + item);
  }
#pragma unroll
  for (int i = 0; i < APPLY_ITEMS; ++i) {
    const int64_t item = first + i * APPLY_THREADS;
    if (item >= items) continue;
    // 64-bit division takes some 80 instructions, 32-bit about 20; the memory leaves time for either, but not for free.
    const int64_t row = items <= UINT32_MAX ? int64_t(unsigned(item) / unsigned(row_items)) : item / row_items;
    const int channel = int(row % channels);
    const int64_t group = row / channels_per_group;
    const float scale = __ldg(gamma + channel) * __ldg(statistics.rstd + group);
    const float shift = fmaf(-__ldg(statistics.mean_low + group), scale, __ldg(beta + channel));
    store_streaming(y + item, centred_affine(values[i], __ldg(statistics.mean_high + group), scale, shift));
  }
}

struct Arguments {
  const float* x;
  float* y;
  const float* gamma;
  const float* beta;
  Statistics statistics;
  int64_t batch, groups, channels_per_group, spatial;
  double eps;
  cudaStream_t stream;
};

template <bool VECTORS>
int launch_statistics(const Arguments& a) {
  const int64_t blocks = a.batch * a.groups;
  if (blocks > MAX_GRID_X) return int(cudaErrorInvalidValue);
  group_statistics<VECTORS><<<unsigned(blocks), STATISTICS_THREADS, 0, a.stream>>>(
      a.x, a.statistics, a.channels_per_group * a.spatial, a.eps);
  return launch_status();
}

template <typename Item>
int launch_apply(const Arguments& a) {
  constexpr int64_t ITEM_FLOATS = sizeof(Item) / sizeof(float);
  const int64_t channels = a.groups * a.channels_per_group;
  const int64_t row_items = a.spatial / ITEM_FLOATS;
  const int64_t items = a.batch * channels * row_items;
  const int64_t blocks = ceil_div(items, int64_t(APPLY_BLOCK_ITEMS));
  if (blocks > MAX_GRID_X) return int(cudaErrorInvalidValue);
  apply_statistics<Item><<<unsigned(blocks), APPLY_THREADS, 0, a.stream>>>(
      reinterpret_cast<const Item*>(a.x), reinterpret_cast<Item*>(a.y), a.gamma, a.beta, a.statistics, items, row_items,
      int(channels), int(a.channels_per_group));
  return launch_status();
}

}  // namespace
}  // namespace kbench

/// x, y: (batch, groups * channels_per_group, spatial), not empty; gamma, beta: per channel; mean_high, mean_low, rstd:
/// (batch, groups). cudaErrorInvalidValue for more groups or elements than a grid can hold.
extern "C" int kbench_group_norm_two_kernel(const float* x, float* y, const float* gamma, const float* beta,
                                            float* mean_high, float* mean_low, float* rstd, int64_t batch,
                                            int64_t groups, int64_t channels_per_group, int64_t spatial, double eps,
                                            void* stream) {
  using namespace kbench;
  const Arguments a{x, y, gamma, beta, {mean_high, mean_low, rstd}, batch, groups, channels_per_group, spatial, eps,
                    static_cast<cudaStream_t>(stream)};
  const bool x_aligned = is_aligned(x, VECTOR_BYTES);
  const bool whole_groups = (channels_per_group * spatial) % VECTOR_FLOATS == 0;
  const int status = x_aligned && whole_groups ? launch_statistics<true>(a) : launch_statistics<false>(a);
  if (status != 0) return status;
  const bool whole_rows = spatial % VECTOR_FLOATS == 0;
  return x_aligned && is_aligned(y, VECTOR_BYTES) && whole_rows ? launch_apply<float4>(a) : launch_apply<float>(a);
}
