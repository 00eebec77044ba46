// Max-pool with stride = kernel and no padding, over planes; a NaN in a window makes its result NaN, as torch has it.
//
// Neighbouring threads take neighbouring windows: a warp's strided reads of one row share the same sectors in L1, so
// that global memory is read once.
#include "launch.cuh"

#include <cmath>

namespace {

constexpr int THREADS = 256;

struct Pool {
  int height, width;
  int kernel_height, kernel_width;
  int out_height, out_width;
};

// KERNEL_WIDTH 0: known at run time only.
template <int KERNEL_WIDTH>
__device__ __forceinline__ float window_max(const float* __restrict__ corner, const Pool& pool) {
  const int columns = KERNEL_WIDTH > 0 ? KERNEL_WIDTH : pool.kernel_width;
  float best = -INFINITY;
  for (int row = 0; row < pool.kernel_height; ++row) {
    const float* line = corner + int64_t(row) * pool.width;
#pragma unroll
    for (int column = 0; column < columns; ++column) {
      const float value = __ldg(line + column);
      best = value > best || isnan(value) ? value : best;
    }
  }
  return best;
}

template <int KERNEL_WIDTH>
__global__ void __launch_bounds__(THREADS)
    max_pool_kernel(const float* __restrict__ x, float* __restrict__ y, int64_t planes, Pool pool) {
  const int64_t outputs = int64_t(pool.out_height) * pool.out_width;
  const int64_t stretches = kbench::ceil_div(outputs, int64_t(THREADS));
  for (int64_t item = blockIdx.x; item < planes * stretches; item += gridDim.x) {
    const int64_t plane = item / stretches;
    const int64_t at = (item - plane * stretches) * THREADS + threadIdx.x;
    if (at >= outputs) continue;
    const int row = int(at / pool.out_width), column = int(at % pool.out_width);
    const float* corner = x + plane * pool.height * pool.width + int64_t(row) * pool.kernel_height * pool.width +
                          int64_t(column) * pool.kernel_width;
    y[plane * outputs + at] = window_max<KERNEL_WIDTH>(corner, pool);
  }
}

}  // namespace

extern "C" int kbench_max_pool(const float* x, float* y, int64_t planes, int64_t height, int64_t width,
                               int64_t kernel_height, int64_t kernel_width, void* stream) {
  constexpr int64_t LIMIT = (int64_t(1) << 31) - 1;
  const bool fits = kernel_height >= 1 && kernel_width >= 1 && kernel_height <= height && kernel_width <= width;
  if (!fits || height > LIMIT || width > LIMIT) return int(cudaErrorInvalidValue);
  if (planes == 0) return int(cudaSuccess);
  const Pool pool{int(height),        int(width),
                  int(kernel_height), int(kernel_width),
                  int(height / kernel_height), int(width / kernel_width)};
  const int64_t items = planes * kbench::ceil_div(int64_t(pool.out_height) * pool.out_width, int64_t(THREADS));
  const unsigned blocks = unsigned(items < kbench::MAX_GRID_X ? items : kbench::MAX_GRID_X);
  const auto kernel = kernel_width == 2   ? max_pool_kernel<2>
                      : kernel_width == 3 ? max_pool_kernel<3>
                      : kernel_width == 4 ? max_pool_kernel<4>
                                          : max_pool_kernel<0>;
  kernel<<<blocks, THREADS, 0, static_cast<cudaStream_t>(stream)>>>(x, y, planes, pool);
  return kbench::launch_status();
}
