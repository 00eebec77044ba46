// The affine map that group normalisation is for one channel once the statistics are known.
#pragma once

#include <cstdint>

namespace kbench {

/// As group_statistics.cu leaves them, one per (sample, group).
struct GroupStatistics {
  double mean, inverse_std;
};

/// (value - mean) * inverse_std * gamma + beta. The mean comes off in two parts: a single float would shift every
/// result by up to half its own spacing, which shows once the mean is dozens of standard deviations.
struct ChannelAffine {
  float mean_high, mean_low, factor, beta;

  __device__ __forceinline__ float operator()(float value) const {
    return fmaf((value - mean_high) - mean_low, factor, beta);
  }
};

/// What turns a (sample, channel) plane index into that channel's affine map.
struct GroupAffine {
  const GroupStatistics* statistics;
  const float* gamma;
  const float* beta;
  int64_t channels, groups;

  __device__ __forceinline__ ChannelAffine operator()(int64_t plane) const {
    const int64_t sample = plane / channels, channel = plane - sample * channels;
    const GroupStatistics group = statistics[sample * groups + channel / (channels / groups)];
    const float mean_high = float(group.mean);
    return {mean_high, float(group.mean - double(mean_high)), float(group.inverse_std * double(gamma[channel])),
            beta[channel]};
  }
};

}  // namespace kbench
