// Messages between blocks of the single-pass group norm: two words that say themselves whether they have arrived.
#pragma once

#include <cuda_runtime.h>

namespace kbench::single_pass {

/// What a writer needs of a group. The mean comes in two parts, so that subtracting it costs no accuracy.
struct GroupStats {
  float mean_high, mean_low, rstd;
};

// Every block watches one of several copies of a group's statistics, each in an L2 line of its own: hundreds of warps
// polling one line would queue up behind each other.
constexpr int COPIES = 8;
constexpr int MESSAGE_STRIDE = 8;  // messages of 16 bytes in an L2 line of 128

// Memory starts as all ones. No message holds such a word: results of arithmetic that are NaN have other bits.
constexpr long long EMPTY_WORD = -1;

__device__ __forceinline__ longlong2 read_message(const longlong2* from) {
  longlong2 words;
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(words.x), "=l"(words.y) : "l"(from) : "memory");
  return words;
}

__device__ __forceinline__ void send_message(longlong2* to, long long first, long long second) {
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(first), "l"(second) : "memory");
}

__device__ __forceinline__ bool has_arrived(longlong2 words) {
  return words.x != EMPTY_WORD && words.y != EMPTY_WORD;
}

__device__ __forceinline__ long long pack(float low, float high) {
  return (static_cast<long long>(__float_as_int(high)) << 32) | static_cast<unsigned>(__float_as_int(low));
}

__device__ __forceinline__ GroupStats unpack_stats(longlong2 words) {
  return {__int_as_float(static_cast<int>(words.x)), __int_as_float(static_cast<int>(words.x >> 32)),
          __int_as_float(static_cast<int>(words.y))};
}

}  // namespace kbench::single_pass
