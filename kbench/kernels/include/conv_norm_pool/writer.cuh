// The writer warps: statistics of a sample across the cluster, then the pooled values, normalised.
//
// With input x = shift + x' and weights scaled by powers of two, a product p stands for y = sign * p * 2^-e + centre,
// where the centre (bias + shift * weights) is formed in fp64. So are the statistics, from sums of p and p^2 that the
// shift keeps small. What makes them unreliable rejects the sample, the same way in every block of the cluster: see
// ExactSample. A thread keeps one output channel; the upper half of them none.
#pragma once

#include <cmath>

#include "../split_fp16.cuh"
#include "plan.cuh"

namespace kbench::conv_norm_pool {

constexpr double MAX_CANCELLATION = 16.0;  // sums of squares over the variance; their error is about 2^-21
constexpr float MIN_SCALED = 8.0f;         // below that, the grid of the low parts is felt
constexpr float MAX_GAIN = 524288.0f;      // largest |gamma * scale|: with MAX_OUTPUT_EXPONENT, factors stay in fp32

static_assert(WRITER_THREADS >= MAX_OUT_CHANNELS, "a thread a channel");

__device__ __forceinline__ bool is_rejected(const Shared& shared, int round) {
  return (shared.rejected[round / 32] >> (round % 32) & 1u) != 0;
}

/// Writes to another block of the cluster; the bytes count towards that block's `barrier`, which says when they are
/// there. A store and a releasing arrival instead would cost a fence of the whole device each.
__device__ __forceinline__ void store_cluster(double* place, double value, uint64_t* barrier, int rank) {
  KBENCH_ASM_SM90("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(
                      cluster_address(shared_address(place), uint32_t(rank))),
                  "l"(__double_as_longlong(value)),
                  "r"(cluster_address(shared_address(barrier), uint32_t(rank))) : "memory");
}

__device__ __forceinline__ float finished(const Arguments& arguments, float pooled, float factor, float offset) {
  return fminf(fmaxf(fmaf(pooled, factor, offset), arguments.clamp_min), arguments.clamp_max);
}

/// Pooled values of this band on their way out: the windows [begin, end) of every `step`-th channel from `first` on.
struct Outgoing {
  const float* from;  // the first channel's
  float* to;          // likewise, the band's first window
  int first, step, begin, end;
};

constexpr int CHANNELS_AT_ONCE = 2;  // whose loads do not wait for one another

/// Four neighbours at a time, where values lie in shared memory as they do in the output. A few at either end go alone.
__device__ __forceinline__ void write_quads(const Arguments& arguments, const Shared& shared, Outgoing out) {
  const int lane = threadIdx.x % WARP_THREADS, plane = arguments.pooled_height() * arguments.pooled_width();
  const int head = int(-(reinterpret_cast<uintptr_t>(out.from + out.begin) / sizeof(float)) % 4);
  const int first = out.begin + head, quads = max(0, out.end - first) / 4;
  const int alone = lane < 4 ? out.begin + lane : first + 4 * (quads - 1) + lane;  // lanes 0 .. 2, and 4 .. 6
  const bool has_one = alone < out.end && (lane < 4 ? lane < head : lane < 8);
#pragma unroll 1
  for (int channel = out.first; channel < arguments.out_channels; channel += CHANNELS_AT_ONCE * out.step) {
    float factor[CHANNELS_AT_ONCE], offset[CHANNELS_AT_ONCE], one[CHANNELS_AT_ONCE];
    bool exists[CHANNELS_AT_ONCE];
#pragma unroll
    for (int k = 0; k < CHANNELS_AT_ONCE; ++k) {
      exists[k] = channel + k * out.step < arguments.out_channels;
      if (exists[k]) {
        factor[k] = shared.factor[channel + k * out.step];
        offset[k] = shared.offset[channel + k * out.step];
        if (has_one) one[k] = out.from[k * out.step * POOLED_PITCH + alone];
      }
    }
#pragma unroll
    for (int k = 0; k < CHANNELS_AT_ONCE; ++k) {
      if (exists[k] && has_one) out.to[k * out.step * plane + alone] = finished(arguments, one[k], factor[k], offset[k]);
    }
#pragma unroll 1
    for (int quad = lane; quad < quads; quad += WARP_THREADS) {
      const float* from = out.from + first + 4 * quad;
      float* to = out.to + first + 4 * quad;
      float4 four[CHANNELS_AT_ONCE];
#pragma unroll
      for (int k = 0; k < CHANNELS_AT_ONCE; ++k) {
        if (exists[k]) four[k] = *reinterpret_cast<const float4*>(from + k * out.step * POOLED_PITCH);
      }
#pragma unroll
      for (int k = 0; k < CHANNELS_AT_ONCE; ++k) {
        if (exists[k]) {
          four[k].x = finished(arguments, four[k].x, factor[k], offset[k]);
          four[k].y = finished(arguments, four[k].y, factor[k], offset[k]);
          four[k].z = finished(arguments, four[k].z, factor[k], offset[k]);
          four[k].w = finished(arguments, four[k].w, factor[k], offset[k]);
          __stcs(reinterpret_cast<float4*>(to + k * out.step * plane), four[k]);
        }
      }
    }
    out.to += CHANNELS_AT_ONCE * out.step * plane;
    out.from += CHANNELS_AT_ONCE * out.step * POOLED_PITCH;
  }
}

/// One by one, whatever their alignment.
__device__ __forceinline__ void write_ones(const Arguments& arguments, const Shared& shared, const Outgoing& out) {
  const int lane = threadIdx.x % WARP_THREADS, plane = arguments.pooled_height() * arguments.pooled_width();
  constexpr int AHEAD = 4;
#pragma unroll 1
  for (int base = out.begin + lane; base - lane < out.end; base += AHEAD * WARP_THREADS) {
    float* to = out.to + base;
    const float* from = out.from + base;
#pragma unroll 1
    for (int channel = out.first; channel < arguments.out_channels; channel += out.step) {
      const float factor = shared.factor[channel], offset = shared.offset[channel];
      float value[AHEAD];
#pragma unroll
      for (int k = 0; k < AHEAD; ++k) value[k] = base + k * WARP_THREADS < out.end ? from[k * WARP_THREADS] : 0.0f;
#pragma unroll
      for (int k = 0; k < AHEAD; ++k) {
        if (base + k * WARP_THREADS < out.end) {
          __stcs(to + k * WARP_THREADS, finished(arguments, value[k], factor, offset));
        }
      }
      to += out.step * plane;
      from += out.step * POOLED_PITCH;
    }
  }
}

/// Writes pooled values, normalised. Few instructions a channel: next to the consumers, each takes a warp several
/// cycles.
__device__ __forceinline__ void write_windows(const Arguments& arguments, const Share& share, const Shared& shared,
                                              int sample, int first, int step, int begin, int end) {
  const int height = arguments.pooled_height(), width = arguments.pooled_width();
  const int64_t plane = int64_t(sample) * arguments.out_channels + first;
  const Outgoing out{shared.pooled[first],
                     arguments.out + (plane * height + share.first_unit) * width,
                     first,
                     step,
                     begin,
                     end};
  const bool first_alike = (reinterpret_cast<uintptr_t>(out.from) ^ reinterpret_cast<uintptr_t>(out.to)) % 16 == 0;
  if (first_alike && step * (height * width - POOLED_PITCH) % 4 == 0) {
    write_quads(arguments, shared, out);
  } else {
    write_ones(arguments, shared, out);
  }
}

class Writer {
 public:
  __device__ __forceinline__ Writer(const Arguments& arguments, const Share& share, Shared& shared, int thread)
      : arguments_(arguments),
        share_(share),
        shared_(shared),
        channel_(thread),
        exists_(thread < arguments.out_channels),
        group_channels_(arguments.out_channels / arguments.groups) {}

  __device__ __forceinline__ void run() {
    read_parameters();
    for (int round = 0; round < share_.rounds; ++round) {
      const int buffer = round % 2;
      if (channel_ == 0) {
        const int sums = share_.cluster_blocks * arguments_.groups;
        barrier_arrive_expect(&shared_.exchanged[buffer], uint32_t(sums * sizeof(GroupSums)));
      }
      // What the input alone decides is known some rows before the last products.
      if (share_.rows > 0) barrier_wait(&shared_.measured[buffer], uint32_t(round / 2 % 2));
      const double centre = find_centre(buffer);
      const bool fits = share_.rows <= 0 || band_fits(buffer);
      barrier_wait(&shared_.summed[buffer], uint32_t(round / 2 % 2));
      send_sums(buffer, centre, fits);
      barrier_wait_cluster(&shared_.exchanged[buffer], uint32_t(round / 2 % 2));
      find_factors(round, centre);
      if (channel_ < MAX_IN_CHANNELS) shared_.magnitude[buffer][channel_] = 0;
      sync_threads<WRITER_THREADS>(WRITERS);
      barrier_arrive(&shared_.reusable[buffer]);
      if (round == share_.rounds - 1) break;
      drain(round);
    }
    // The last sample is written by the whole block: see finish.cuh.
  }

 private:
  /// Writes a sample while the next one is convolved, and hands the rows back part by part.
  __device__ __forceinline__ void drain(int round) {
    const int warp = channel_ / WARP_THREADS, width = arguments_.pooled_width();
    const bool rejected = is_rejected(shared_, round);
    for (int part = 0; part < DRAINS; ++part) {
      const int begin = min(part << arguments_.drain_shift, share_.pooled_rows) * width;
      const int end = min((part + 1) << arguments_.drain_shift, share_.pooled_rows) * width;
      if (!rejected) {
        write_windows(arguments_, share_, shared_, share_.sample(round), warp, WRITER_WARPS, begin, end);
      }
      barrier_arrive(&shared_.drained[part]);
    }
  }

  __device__ __forceinline__ void read_parameters() {
    if (!exists_) return;
    bias_ = arguments_.bias[channel_];
    gain_ = double(arguments_.gamma[channel_]) * arguments_.scale[channel_];
    beta_ = double(arguments_.beta[channel_]) * arguments_.scale[channel_];
    negative_ = is_negative(arguments_, channel_);
    group_ = channel_ / group_channels_;
    inverse_count_ = 1.0 / (double(group_channels_) * arguments_.out_height() * arguments_.out_width());
    const float* weight = arguments_.weight + channel_ * arguments_.in_channels * KERNEL * KERNEL;
#pragma unroll 1
    for (int input = 0; input < arguments_.in_channels; ++input) {
      float value[KERNEL * KERNEL];
#pragma unroll
      for (int tap = 0; tap < KERNEL * KERNEL; ++tap) value[tap] = weight[input * KERNEL * KERNEL + tap];
      double sum = value[0];
#pragma unroll
      for (int tap = 1; tap < KERNEL * KERNEL; ++tap) sum += value[tap];
      shared_.weight_sums[input][channel_] = sum;
    }
  }

  /// The value that a product of zero stands for.
  __device__ __forceinline__ double find_centre(int buffer) const {
    double sum = bias_;
#pragma unroll 1
    for (int input = 0; exists_ && input < arguments_.in_channels; ++input) {
      sum = fma(double(shared_.shift[buffer][input]), shared_.weight_sums[input][channel_], sum);
    }
    return sum;
  }

  /// Whether the scales chosen from a few pixels held for all of this band, and the parameters can be folded.
  __device__ __forceinline__ bool band_fits(int buffer) const {
    bool fits = fabs(gain_) <= MAX_GAIN && isfinite(beta_);
#pragma unroll 1
    for (int input = 0; input < arguments_.in_channels; ++input) {
      const float largest = __uint_as_float(shared_.magnitude[buffer][input]);  // a NaN fails both comparisons
      fits = fits && (shared_.live[input] ? largest >= MIN_SCALED && largest <= SPLIT_MAX : largest == 0.0f);
    }
    return fits;
  }

  /// 2^-e of this channel's products.
  __device__ __forceinline__ double unit() const {
    return __hiloint2double((1023 - shared_.output_exponent[channel_]) << 20, 0);
  }

  __device__ __forceinline__ void send_sums(int buffer, double centre, bool band_fits) {
    if (exists_) {
      const float* first = shared_.sums[buffer][0][channel_];
      const float* second = shared_.sums[buffer][1][channel_];
      const double value = (double(first[0]) + second[0]) * (negative_ ? -unit() : unit());
      const double square = (double(first[1]) + second[1]) * unit() * unit();
      const double count = double(share_.rows) * arguments_.out_width();
      const bool fits = share_.rows <= 0 || (band_fits && shared_.unfit_weights == 0);
      shared_.channel_sums[channel_] = {value + count * centre, square + centre * (2.0 * value + count * centre),
                                        fits ? square : INFINITY};
    }
    sync_threads<WRITER_THREADS>(WRITERS);
#pragma unroll 1
    for (int i = channel_; i < GROUP_SUMS * arguments_.groups; i += WRITER_THREADS) {
      const int group = i / GROUP_SUMS, kind = i % GROUP_SUMS;
      const double* next = &shared_.channel_sums[group * group_channels_].value + kind;
      double total = 0.0;
#pragma unroll 1
      for (int left = group_channels_; left > 0; --left, next += GROUP_SUMS) total += *next;
      double* to = &shared_.group_sums[buffer][share_.rank][group].value + kind;
#pragma unroll 1
      for (int rank = 0; rank < share_.cluster_blocks; ++rank) {
        store_cluster(to, total, &shared_.exchanged[buffer], rank);
      }
    }
  }

  /// Each channel's factor and offset for a sample, or its bit in `rejected`.
  __device__ __forceinline__ void find_factors(int round, double centre) {
    if (!exists_) return;
    const int buffer = round % 2;
    GroupSums total = {0.0, 0.0, 0.0};
#pragma unroll 1
    for (int rank = 0; rank < share_.cluster_blocks; ++rank) {
      total.value += shared_.group_sums[buffer][rank][group_].value;
      total.square += shared_.group_sums[buffer][rank][group_].square;
      total.shifted_square += shared_.group_sums[buffer][rank][group_].shifted_square;
    }
    const double mean = total.value * inverse_count_;
    const double spread = total.square * inverse_count_ - mean * mean;
    const double variance = (spread < 0.0 ? 0.0 : spread) + double(arguments_.eps);  // not fmax, which drops a NaN
    // Written so that a NaN rejects; only sums that the whole cluster shares decide.
    if (!(total.shifted_square * inverse_count_ <= MAX_CANCELLATION * variance && variance > 0.0)) {
      atomicOr(&shared_.rejected[round / 32], 1u << (round % 32));
    }
    const double gain = rsqrt(variance) * gain_;
    shared_.factor[channel_] = float(fabs(gain) * unit());
    shared_.offset[channel_] = float((centre - mean) * gain + beta_);
  }

  const Arguments& arguments_;
  const Share& share_;
  Shared& shared_;
  const int channel_;
  const bool exists_;
  const int group_channels_;
  int group_ = 0;
  bool negative_ = false;
  double bias_ = 0.0, gain_ = 0.0, beta_ = 0.0, inverse_count_ = 0.0;
};

}  // namespace kbench::conv_norm_pool
