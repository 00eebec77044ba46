// An fp32 value as the sum of two fp16: products on the fp16 tensor cores with the accuracy of fp32.
//
// v = high + low + rest, with |rest| <= max(2^-22 |v|, 2^-25): fp16 has 11 significant bits and its grid ends at 2^-24. A
// product of two such values is high*high + high*low + low*high, short by low*low <= 2^-22 of it. Two conditions make that
// fp32's own accuracy, and both are the caller's to hold by scaling with powers of two, which rounds nothing:
//   - no overflow: |v| <= SPLIT_MAX;
//   - the largest value of a set that is summed lies well above 2^-3, so that the floor of 2^-25 is far below its own ulp.
#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace kbench {

constexpr float SPLIT_MAX = 65504.0f;

/// Two neighbouring values, split: each register holds two fp16, the first value in the lower half.
struct SplitPair {
  uint32_t high;
  uint32_t low;
};

__device__ __forceinline__ uint32_t half2_bits(__half2 pair) { return *reinterpret_cast<const uint32_t*>(&pair); }

__device__ __forceinline__ __half2 bits_half2(uint32_t bits) { return *reinterpret_cast<const __half2*>(&bits); }

__device__ __forceinline__ SplitPair split_fp16(float first, float second) {
  const __half2 high = __floats2half2_rn(first, second);
  const float2 kept = __half22float2(high);
  return {half2_bits(high), half2_bits(__floats2half2_rn(first - kept.x, second - kept.y))};
}

/// Unbiased binary exponent of |value|'s leading bit: 2^e <= |value| < 2^(e+1). -127 for zero and denormals, 128 for
/// infinity and NaN.
__device__ __forceinline__ int binary_exponent(float value) {
  return int((__float_as_uint(value) >> 23) & 0xFFu) - 127;
}

/// 2^exponent, exactly; -126 <= exponent <= 127.
__device__ __forceinline__ float power_of_two(int exponent) { return __uint_as_float(uint32_t(exponent + 127) << 23); }

/// |value| as bits, which order as the values do, with infinity above all numbers and NaN above infinity: a maximum over
/// them, unlike fmaxf, does not lose a NaN.
__device__ __forceinline__ uint32_t magnitude_bits(float value) { return __float_as_uint(value) & 0x7FFFFFFFu; }

}  // namespace kbench
