// Group normalisation and a further factor per channel in one pass: y = ((x - mean) / std * gamma + beta) * scale.
#include "group_affine.cuh"
#include "plane_map.cuh"

namespace {

struct ScaledAffine {
  kbench::ChannelAffine affine;
  float scale;

  __device__ __forceinline__ float operator()(float value) const { return affine(value) * scale; }
};

struct ScaledGroupAffine {
  kbench::GroupAffine affine;
  const float* scale;

  __device__ __forceinline__ ScaledAffine operator()(int64_t plane) const {
    return {affine(plane), scale[plane % affine.channels]};
  }
};

}  // namespace

extern "C" int kbench_scale_norm(const float* x, const kbench::GroupStatistics* statistics, const float* gamma,
                                 const float* beta, const float* scale, float* y, int64_t batch, int64_t channels,
                                 int64_t groups, int64_t pixels, void* stream) {
  if (groups < 1 || channels % groups != 0) return int(cudaErrorInvalidValue);
  const ScaledGroupAffine map{{statistics, gamma, beta, channels, groups}, scale};
  return kbench::map_planes(x, y, batch * channels, pixels, map, static_cast<cudaStream_t>(stream));
}
