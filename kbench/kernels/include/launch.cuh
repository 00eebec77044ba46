// Host side of a launch: error returns, device limits, sizes.
//
// Every exported function returns a cudaError_t as int, 0 for success, so that a plain C binding can check it.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#define KBENCH_RETURN_IF_ERROR(expression)                          \
  do {                                                              \
    const cudaError_t status_of_call = (expression);                \
    if (status_of_call != cudaSuccess) return int(status_of_call);  \
  } while (false)

/// Name of an error code, for messages; one copy per library, found by the binding.
extern "C" __attribute__((weak)) const char* kbench_error_name(int code) {
  return cudaGetErrorName(static_cast<cudaError_t>(code));
}

namespace kbench {

/// Largest grid dimension y or z.
constexpr int64_t MAX_GRID_YZ = 65535;
/// Largest grid dimension x.
constexpr int64_t MAX_GRID_X = (int64_t(1) << 31) - 1;

template <typename Integer>
constexpr __host__ __device__ Integer ceil_div(Integer numerator, Integer denominator) {
  return (numerator + denominator - 1) / denominator;
}

/// An attribute of the current device.
inline cudaError_t device_attribute(int* value, cudaDeviceAttr attribute) {
  int device = 0;
  const cudaError_t status = cudaGetDevice(&device);
  return status != cudaSuccess ? status : cudaDeviceGetAttribute(value, attribute, device);
}

/// Whether a pointer may be accessed in units of `bytes` (a power of two).
inline bool is_aligned(const void* pointer, uintptr_t bytes) {
  return (reinterpret_cast<uintptr_t>(pointer) & (bytes - 1)) == 0;
}

/// What a launch left behind, cleared, so that one failure is reported once and by the call that caused it.
inline int launch_status() { return int(cudaGetLastError()); }

}  // namespace kbench
