#include <cstdint>

constexpr int THREADS = 1024, STEPS = 512, SHARED_BYTES = 120 << 10;

__global__ void __launch_bounds__(THREADS) iterated_rounds(const float* x, float* y, int64_t count) {
  const int64_t stride = int64_t(gridDim.x) * THREADS;
  for (int64_t place = int64_t(blockIdx.x) * THREADS + threadIdx.x; place < count; place += stride) {
    float held = x[place];
#pragma unroll 16
    for (int step = 0; step < STEPS; ++step) held = fmaf(-0.999f, held, 0.001f);
    y[place] = held;
  }
}

extern "C" int launch(const float* x, float* y, int64_t count, cudaStream_t stream) {
  int device = 0, sms = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  // So much shared memory that an SM holds one block.
  const cudaError_t code =
      cudaFuncSetAttribute(iterated_rounds, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
  if (code != cudaSuccess) return code;
  iterated_rounds<<<sms + sms / 10, THREADS, SHARED_BYTES, stream>>>(x, y, count);
  return cudaGetLastError();
}
