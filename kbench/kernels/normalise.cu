// Group normalisation, given the statistics: y = (x - mean) / std * gamma + beta, per channel.
#include "group_affine.cuh"
#include "plane_map.cuh"

extern "C" int kbench_normalise(const float* x, const kbench::GroupStatistics* statistics, const float* gamma,
                                const float* beta, float* y, int64_t batch, int64_t channels, int64_t groups,
                                int64_t pixels, void* stream) {
  if (groups < 1 || channels % groups != 0) return int(cudaErrorInvalidValue);
  const kbench::GroupAffine affine{statistics, gamma, beta, channels, groups};
  return kbench::map_planes(x, y, batch * channels, pixels, affine, static_cast<cudaStream_t>(stream));
}
