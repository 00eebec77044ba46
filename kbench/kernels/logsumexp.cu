// log(sum(exp(x))) over the channels of (batch, channels, pixels), one thread per pixel, one read of x.
//
// Channels come in runs of eight, whose loads are all in flight at once. The running maximum is taken off before e^x;
// when a run raises it, the sum so far is scaled down: one extra exponential per run instead of a second read.
#include "launch.cuh"
#include "vector.cuh"

#include <cmath>

namespace {

constexpr int THREADS = 256;
constexpr int RUN = 8;

// What is subtracted before e^x: an infinite maximum would make inf - inf, and needs no scaling.
__device__ __forceinline__ float shift_of(float maximum) { return isinf(maximum) ? 0.0f : maximum; }

struct RunningSum {
  float maximum = -INFINITY;
  float sum = 0.0f;

  // Values past `count` are absent.
  __device__ __forceinline__ void add(const float (&values)[RUN], int count) {
    float raised = maximum;
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
      // As torch's amax: a NaN, once seen, stays.
      if (i < count && (values[i] > raised || isnan(values[i]))) raised = values[i];
    }
    const float shift = shift_of(raised);
    // An empty or all -inf sum stays 0 whatever the shift; 0 * inf would not.
    float total = maximum == -INFINITY ? 0.0f : sum * expf(shift_of(maximum) - shift);
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
      if (i < count) total += expf(values[i] - shift);
    }
    maximum = raised;
    sum = total;
  }

  __device__ __forceinline__ float result() const { return logf(sum) + shift_of(maximum); }
};

__global__ void __launch_bounds__(THREADS)
    logsumexp_kernel(const float* __restrict__ x, float* __restrict__ y, int64_t outputs, int64_t channels,
                     int64_t pixels) {
  const int64_t stride = int64_t(gridDim.x) * THREADS;
  for (int64_t output = int64_t(blockIdx.x) * THREADS + threadIdx.x; output < outputs; output += stride) {
    const int64_t sample = output / pixels;
    const float* column = x + sample * channels * pixels + (output - sample * pixels);
    RunningSum running;
    for (int64_t channel = 0; channel < channels; channel += RUN) {
      const int count = channels - channel < RUN ? int(channels - channel) : RUN;
      float values[RUN] = {};
#pragma unroll
      for (int i = 0; i < RUN; ++i) {
        if (i < count) values[i] = kbench::load_streaming(column + (channel + i) * pixels);
      }
      running.add(values, count);
    }
    y[output] = running.result();
  }
}

}  // namespace

extern "C" int kbench_logsumexp(const float* x, float* y, int64_t batch, int64_t channels, int64_t pixels,
                                void* stream) {
  const int64_t outputs = batch * pixels;
  if (channels < 1 || outputs < 0) return int(cudaErrorInvalidValue);
  if (outputs == 0) return int(cudaSuccess);
  const int64_t blocks = kbench::ceil_div(outputs, int64_t(THREADS));
  logsumexp_kernel<<<unsigned(blocks < kbench::MAX_GRID_X ? blocks : kbench::MAX_GRID_X), THREADS, 0,
                     static_cast<cudaStream_t>(stream)>>>(x, y, outputs, channels, pixels);
  return kbench::launch_status();
}
