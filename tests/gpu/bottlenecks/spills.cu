#include <cstdint>

constexpr int VALUES = 128, THREADS = 512, STEPS = 512;

__global__ void __launch_bounds__(THREADS, 4) iterated_crowded(const float* x, float* y, int64_t count) {
  const int64_t first = int64_t(blockIdx.x) * THREADS * VALUES + threadIdx.x;
  float held[VALUES];
#pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    const int64_t place = first + int64_t(i) * THREADS;
    held[i] = place < count ? x[place] : 0.f;
  }
#pragma unroll 1
  for (int step = 0; step < STEPS; ++step) {
#pragma unroll
    for (int i = 0; i < VALUES; ++i) held[i] = fmaf(-0.999f, held[i], 0.001f);
  }
#pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    const int64_t place = first + int64_t(i) * THREADS;
    if (place < count) y[place] = held[i];
  }
}

extern "C" int launch(const float* x, float* y, int64_t count, cudaStream_t stream) {
  const int64_t each = int64_t(THREADS) * VALUES;
  iterated_crowded<<<(count + each - 1) / each, THREADS, 0, stream>>>(x, y, count);
  return cudaGetLastError();
}
