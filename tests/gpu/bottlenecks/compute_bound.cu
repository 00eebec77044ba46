#include <cstdint>

constexpr int CHAINS = 8, THREADS = 256, STEPS = 512;

__global__ void iterated_chains(const float* x, float* y, int64_t count) {
  const int64_t first = int64_t(blockIdx.x) * THREADS * CHAINS + threadIdx.x;
  float held[CHAINS];
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) {
    const int64_t place = first + int64_t(i) * THREADS;
    held[i] = place < count ? x[place] : 0.f;
  }
#pragma unroll 16
  for (int step = 0; step < STEPS; ++step) {
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) held[i] = fmaf(-0.999f, held[i], 0.001f);
  }
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) {
    const int64_t place = first + int64_t(i) * THREADS;
    if (place < count) y[place] = held[i];
  }
}

extern "C" int launch(const float* x, float* y, int64_t count, cudaStream_t stream) {
  const int64_t each = int64_t(THREADS) * CHAINS;
  iterated_chains<<<(count + each - 1) / each, THREADS, 0, stream>>>(x, y, count);
  return cudaGetLastError();
}
