// The producer warpgroup: input rows from global memory to split, channel-minor rows in the ring.
//
// The writer samples the first round's pixels, while the first rows are on their way here; later ones are sampled here.
// A warp takes a row of each chunk, a lane four neighbouring columns, 16 bytes a load where the image allows it: few
// instructions, since every warp's delay the others'. The next chunk's values are on their way in registers, behind
// prefetches to L2. Rows are published by ordinary stores and a fence, before the next loads start.
//
// Columns and channels that the image lacks repeat its last ones: their products are dropped, or meet weights of zero.
#pragma once

#include "../bulk_copy.cuh"
#include "../split_fp16.cuh"
#include "plan.cuh"

namespace kbench::conv_norm_pool {

constexpr int SAMPLED_PIXELS = WARP_THREADS;  // per channel: a power of two, so that a constant's mean is itself
constexpr int SAMPLED_EXPONENT = 5;           // the largest sampled magnitude is scaled to 2^5 .. 2^6
constexpr int MAX_INPUT_EXPONENT = 96;
constexpr int WARP_CHANNELS = MAX_IN_CHANNELS / PRODUCER_WARPS;  // whose pixels a warp samples
constexpr int PREFETCHED_CHUNKS = 3;  // beyond the one in registers

/// A number that the compiler does not work out somewhere else: in front of a loop it would take registers, and delay
/// the first rows.
template <typename Number>
__device__ __forceinline__ Number here(Number number) {
  if constexpr (sizeof(Number) == 8) {
    asm volatile("" : "+l"(number));
  } else {
    asm volatile("" : "+r"(number));
  }
  return number;
}

/// Where a sample and the first column of a tile lie. Offsets in a sample are 32 bits: a plane whose pooled values fit
/// has less than 80 k pixels.
struct TileSource {
  const char* sample;
  int column;

  __device__ __forceinline__ TileSource(const Arguments& arguments, const Share& share, int round, int tile)
      : sample(reinterpret_cast<const char*>(arguments.x) + int64_t(share.sample(round)) * sample_bytes(arguments)),
        column(tile * TILE_OWNED) {}

  static __device__ __forceinline__ int sample_bytes(const Arguments& arguments) {
    return arguments.in_channels * arguments.height * arguments.width * int(sizeof(float));
  }
};

/// Asks L2 for a chunk that will be loaded later: 8 channels x 4 rows x 4 lines of 128 bytes, a thread each.
class Prefetcher {
 public:
  __device__ __forceinline__ Prefetcher(const Arguments& arguments, const Share& share) : arguments_(arguments) {
    const int thread = threadIdx.x % WARPGROUP_THREADS, channel = min(thread / 16, arguments.in_channels - 1);
    plane_row_ = channel * arguments.height;
    row_ = share.first_row + thread / 4 % 4;
    column_ = thread % 4 * 32;
  }

  __device__ __forceinline__ void ask(const TileSource& from, int chunk) const {
    const int row = min(row_ + POOL * chunk, arguments_.height - 1) + plane_row_;
    const int column = min(from.column + column_, arguments_.width - 1);
    const uint32_t offset = uint32_t(row * arguments_.width + column) * uint32_t(sizeof(float));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from.sample + offset));
  }

 private:
  const Arguments& arguments_;
  int plane_row_, row_, column_;
};

/// By the writer, while the producer starts: the chunks that follow its first.
__device__ __forceinline__ void prefetch_first(const Arguments& arguments, const Share& share) {
  if (share.units == 0) return;
  const TileSource from(arguments, share, 0, 0);
  const Prefetcher prefetcher(arguments, share);
#pragma unroll 1
  for (int chunk = 1; chunk <= PREFETCHED_CHUNKS; ++chunk) prefetcher.ask(from, chunk);
}

class Producer {
 public:
  __device__ __forceinline__ Producer(const Arguments& arguments, const Share& share, Shared& shared)
      : arguments_(arguments),
        share_(share),
        shared_(shared),
        thread_(threadIdx.x % WARPGROUP_THREADS),
        warp_(__shfl_sync(ALL_LANES, thread_ / WARP_THREADS, 0)),
        lane_(threadIdx.x % WARP_THREADS),
        wide_(arguments.width % POOL == 0 && reinterpret_cast<uintptr_t>(arguments.x) % sizeof(float4) == 0) {}

  /// Pixels that stand for the band: one in each of 32 layers of rows, the columns in scattered order.
  __device__ __forceinline__ void load_pixels(int round, float (&pixel)[WARP_CHANNELS]) const {
    const TileSource from(arguments_, share_, round, 0);
    const int row = share_.first_row + (share_.rows + HALO) * (2 * lane_ + 1) / (2 * SAMPLED_PIXELS);
    const int column = arguments_.width * (lane_ * 11 % SAMPLED_PIXELS) / SAMPLED_PIXELS;
    const uint32_t offset = uint32_t(row * arguments_.width + column) * uint32_t(sizeof(float));
#pragma unroll
    for (int i = 0; i < WARP_CHANNELS; ++i) {
      const char* from_channel = of_channel(from.sample + offset, warp_ * WARP_CHANNELS + i);
      pixel[i] = share_.rows > 0 ? __ldg(reinterpret_cast<const float*>(from_channel)) : 0.0f;
    }
  }

  __device__ __forceinline__ static void find_means(const float (&pixel)[WARP_CHANNELS],
                                                    float (&mean)[WARP_CHANNELS]) {
#pragma unroll
    for (int i = 0; i < WARP_CHANNELS; ++i) {
      mean[i] = warp_sum(pixel[i]) / SAMPLED_PIXELS;
      if (!isfinite(mean[i])) mean[i] = 0.0f;
    }
  }

  /// The power of two per channel that brings the sampled pixels to 2^5 .. 2^6; what the others do is checked later. And
  /// the first round's shifts: see enter_round.
  __device__ __forceinline__ void publish_scales(const float (&pixel)[WARP_CHANNELS]) const {
    float mean[WARP_CHANNELS];
    find_means(pixel, mean);
#pragma unroll
    for (int i = 0; i < WARP_CHANNELS; ++i) {
      const uint32_t bits = __reduce_max_sync(ALL_LANES, magnitude_bits(pixel[i] - mean[i]));
      const int wanted = SAMPLED_EXPONENT - binary_exponent(__uint_as_float(bits));
      const int exponent = bits == 0 ? 0 : max(-MAX_INPUT_EXPONENT, min(MAX_INPUT_EXPONENT, wanted));
      if (lane_ == 0) {
        const int channel = warp_ * WARP_CHANNELS + i;
        shared_.input_factor[channel] = power_of_two(exponent);
        shared_.input_exponent[channel] = exponent;
        shared_.live[channel] = bits != 0;
        shared_.shift[0][channel] = mean[i];
        shared_.input_offset[0][channel] = -mean[i] * power_of_two(exponent);
      }
    }
    __syncwarp();
    arrive_threads<BLOCK_THREADS>(SCALES_READY);
  }

  __device__ __forceinline__ void run() {
    float pixel[WARP_CHANNELS] = {0.0f, 0.0f};
    clear_sums();
    Values values;
    const Prefetcher prefetcher(arguments_, share_);
    const int chunks = share_.chunks();
    int sequence = 0;
    for (int round = 0; round < share_.rounds; ++round) {
      const bool more = round + 1 < share_.rounds;
      for (int tile = 0; tile < share_.tiles; ++tile) {
        const bool last_tile = tile == share_.tiles - 1;
        const TileSource from(arguments_, share_, round, tile);
        const uint32_t columns = column_offset(from);
#pragma unroll 1
        for (int chunk = 0; chunk < max(1, chunks); ++chunk, ++sequence) {
          const bool are_sums = chunk == chunks - 1;
          if (are_sums) {
            load_edges(values, from);
          } else if (chunks > 0) {
            load(values, from, columns, chunk);
          }
          if (sequence > 0) {
            // Behind the last rows of a tile come those of the next one.
            const int soon = chunk + PREFETCHED_CHUNKS;
            if (soon < chunks - 1) {
              prefetcher.ask(from, soon);
            } else if (!last_tile || more) {
              const TileSource next(arguments_, share_, last_tile ? round + 1 : round, last_tile ? 0 : tile + 1);
              prefetcher.ask(next, soon - (chunks - 1));
            }
          }
          // Not sooner: at the start everybody waits for rows, and code that runs for the first time is slow.
          if (are_sums && last_tile && more) load_pixels(round + 1, pixel);
          if (tile == 0 && chunk == 0) {
            if (sequence == 0) {  // the writer has sampled the first round
              wait_for_scales();
            } else {
              enter_round(round, pixel);
            }
            if (chunks == 0) return;  // nothing ties this warpgroup to the writer's rounds: parities would be mistaken
            magnitude_[0] = magnitude_[1] = magnitude_[2] = magnitude_[3] = __float2half2_rn(0.0f);
          }
          const int slot = sequence % CHUNKS;
          const bool halo = chunk == chunks - 2;
          barrier_wait(&shared_.empty[slot], uint32_t(sequence / CHUNKS & 1) ^ 1u);
          if (are_sums) {
            store_sums(values, round, slot);
          } else if (warp_ < HALO || !halo) {
            const int row = POOL * chunk + warp_;
            store(values, round, slot, row < share_.rows + HALO);
          }
          if (halo && last_tile) {
            publish_magnitudes(round);
            barrier_arrive(&shared_.measured[round % 2]);
          }
          fence_shared_to_async();
          __syncwarp();
          if (lane_ == 0) barrier_arrive(&shared_.full[slot]);
        }
      }
    }
  }

 private:
  using Values = float[MAX_IN_CHANNELS][POOL];  // four columns of a row

  /// The lane's first column of four. Eight lanes of a store meet eight pixels of one phase: 128 bytes in a row.
  __device__ __forceinline__ int first_column() const {
    return lane_ % PHASE_PIXELS * PHASES + lane_ / PHASE_PIXELS * POOL;
  }

  /// First byte of the lane's columns in a row; where they are not 16 aligned bytes, their first column.
  __device__ __forceinline__ uint32_t column_offset(const TileSource& from) const {
    const int first = from.column + first_column();
    return wide_ ? uint32_t(min(first, arguments_.width - POOL)) * uint32_t(sizeof(float)) : uint32_t(first);
  }

  /// The same byte of another channel than the first, or of the last.
  __device__ __forceinline__ const char* of_channel(const char* byte, int channel) const {
    const uint32_t plane_bytes = uint32_t(arguments_.height * arguments_.width) * uint32_t(sizeof(float));
    return byte + plane_bytes * uint32_t(min(channel, arguments_.in_channels - 1));
  }

  /// This warp's row of a chunk. Rows past the image repeat its last: nothing reads them.
  __device__ __forceinline__ void load(Values& values, const TileSource& from, uint32_t columns, int chunk) const {
    const int width = arguments_.width;
    const int row = min(share_.first_row + POOL * chunk + warp_, arguments_.height - 1);
    const uint32_t row_offset = uint32_t(row * width) * uint32_t(sizeof(float));
    if (wide_) {
      const char* first = here(from.sample + (row_offset + columns));
#pragma unroll
      for (int channel = 0; channel < MAX_IN_CHANNELS; ++channel) {
        const float4 four = __ldg(reinterpret_cast<const float4*>(of_channel(first, channel)));
        values[channel][0] = four.x;
        values[channel][1] = four.y;
        values[channel][2] = four.z;
        values[channel][3] = four.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < POOL; ++i) {
        const uint32_t offset = row_offset + uint32_t(min(int(columns) + i, width - 1)) * uint32_t(sizeof(float));
        const char* first = here(from.sample + offset);
#pragma unroll
        for (int channel = 0; channel < MAX_IN_CHANNELS; ++channel) {
          values[channel][i] = __ldg(reinterpret_cast<const float*>(of_channel(first, channel)));
        }
      }
    }
  }

  /// A thread's column of the rows that not every filter row meets: the first two and the last two of the band.
  __device__ __forceinline__ void load_edges(Values& values, const TileSource& from) const {
    const int column = min(from.column + sum_column(), arguments_.width - 1);
#pragma unroll
    for (int i = 0; i < 2 * HALO; ++i) {
      const int row = share_.first_row + (i < HALO ? i : share_.rows + i - HALO);
      const char* first = from.sample + uint32_t(here(row * arguments_.width + column)) * uint32_t(sizeof(float));
#pragma unroll
      for (int channel = 0; channel < MAX_IN_CHANNELS; ++channel) {
        values[channel][i] = __ldg(reinterpret_cast<const float*>(of_channel(first, channel)));
      }
    }
  }

  /// The column whose sums a thread forms: its pixel of its phase.
  __device__ __forceinline__ int sum_column() const {
    return thread_ % PHASE_PIXELS * PHASES + thread_ / PHASE_PIXELS;
  }

  /// A warp's sums of its rows, [channel][phase, pixel], in the slot where the sums of all warps will be.
  __device__ __forceinline__ float* partial_sums(int slot, int warp) const {
    unsigned char* plane = shared_.ring + slot * CHUNK_BYTES + warp / 2 * PLANE_BYTES;
    return reinterpret_cast<float*>(plane) + warp % 2 * MAX_IN_CHANNELS * WGMMA_COLUMNS;
  }
  static_assert(2 * MAX_IN_CHANNELS * WGMMA_COLUMNS * sizeof(float) <= CHUNK_BYTES, "two warps' sums in a plane");

  __device__ __forceinline__ void clear_sums() {
#pragma unroll
    for (int channel = 0; channel < MAX_IN_CHANNELS; ++channel) {
#pragma unroll
      for (int i = 0; i < POOL; ++i) sums_[channel][i] = 0.0f;
    }
  }

  /// Three rows whose convolution is the sum of the band's: for each filter row, the sum of the input rows that it
  /// meets. Consumers then need no additions of their own for the mean.
  __device__ __forceinline__ void store_sums(const Values& edges, int round, int slot) {
    float* partial = partial_sums(slot, warp_) + lane_ / PHASE_PIXELS * POOL * PHASE_PIXELS + lane_ % PHASE_PIXELS;
#pragma unroll
    for (int channel = 0; channel < MAX_IN_CHANNELS; ++channel) {
#pragma unroll
      for (int i = 0; i < POOL; ++i) partial[channel * WGMMA_COLUMNS + i * PHASE_PIXELS] = sums_[channel][i];
    }
    clear_sums();
    sync_threads<PRODUCER_THREADS>(PRODUCERS);
    float row[KERNEL][MAX_IN_CHANNELS];
    const float scale = power_of_two(-share_.sum_exponent());
#pragma unroll
    for (int channel = 0; channel < MAX_IN_CHANNELS; ++channel) {
      float total = 0.0f, edge[2 * HALO];
#pragma unroll
      for (int warp = 0; warp < PRODUCER_WARPS; ++warp) {
        total += partial_sums(slot, warp)[channel * WGMMA_COLUMNS + thread_];
      }
      const float factor = shared_.input_factor[channel], offset = shared_.input_offset[round % 2][channel];
#pragma unroll
      for (int i = 0; i < 2 * HALO; ++i) edge[i] = fmaf(edges[channel][i], factor, offset);
      row[0][channel] = (total - edge[2] - edge[3]) * scale;
      row[1][channel] = (total - edge[0] - edge[3]) * scale;
      row[2][channel] = (total - edge[0] - edge[1]) * scale;
    }
    sync_threads<PRODUCER_THREADS>(PRODUCERS);
    const int pixel = thread_ % PHASE_PIXELS, phase = thread_ / PHASE_PIXELS;
    unsigned char* to = shared_.ring + slot * CHUNK_BYTES + thread_ * PIXEL_BYTES;
#pragma unroll
    for (int i = 0; i < KERNEL; ++i, to += ROW_BYTES) {
      SplitPair split[4];
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) split[pair] = split_fp16(row[i][2 * pair], row[i][2 * pair + 1]);
      const uint4 high = {split[0].high, split[1].high, split[2].high, split[3].high};
      const uint4 low = {split[0].low, split[1].low, split[2].low, split[3].low};
      write(to, high, low, false);
      if (phase < HALO && pixel > 0) write(to + PHASES * PHASE_BYTES - PIXEL_BYTES, high, low, false);
    }
  }

  /// `counted`: some filter row meets the row.
  __device__ __forceinline__ void store(const Values& values, int round, int slot, bool counted) {
    float2 factor[4], offset[4];
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {  // the same addresses for the whole warp: a broadcast
      factor[pair] = reinterpret_cast<const float2*>(shared_.input_factor)[pair];
      offset[pair] = reinterpret_cast<const float2*>(shared_.input_offset[round % 2])[pair];
    }
    unsigned char* row = shared_.ring + slot * CHUNK_BYTES + warp_ * ROW_BYTES;
    const int pixel = lane_ % PHASE_PIXELS, first_phase = lane_ / PHASE_PIXELS * POOL;
    unsigned char* to = row + first_phase * PHASE_BYTES + pixel * PIXEL_BYTES;
#pragma unroll
    for (int i = 0; i < POOL; ++i) {
      SplitPair split[4];
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const float first = fmaf(values[2 * pair][i], factor[pair].x, offset[pair].x);
        const float second = fmaf(values[2 * pair + 1][i], factor[pair].y, offset[pair].y);
        if (counted) {
          sums_[2 * pair][i] += first;
          sums_[2 * pair + 1][i] += second;
        }
        split[pair] = split_fp16(first, second);
        magnitude_[pair] = __hmax2_nan(magnitude_[pair], __habs2(bits_half2(split[pair].high)));
      }
      const uint4 high = {split[0].high, split[1].high, split[2].high, split[3].high};
      const uint4 low = {split[0].low, split[1].low, split[2].low, split[3].low};
      const bool again = slot == 0 && warp_ < HALO;  // where the last slot's rows find it
      write(to + i * PHASE_BYTES, high, low, again);
      if (i < HALO && first_phase == 0 && pixel > 0) {  // and where the last phases' taps do
        write(to + (PHASES + i) * PHASE_BYTES - PIXEL_BYTES, high, low, again);
      }
    }
  }

  static __device__ __forceinline__ void write(unsigned char* to, const uint4& high, const uint4& low, bool again) {
    *reinterpret_cast<uint4*>(to) = high;
    *reinterpret_cast<uint4*>(to + PLANE_BYTES) = low;
    if (again) {
      *reinterpret_cast<uint4*>(to + CHUNKS * CHUNK_BYTES) = high;
      *reinterpret_cast<uint4*>(to + CHUNKS * CHUNK_BYTES + PLANE_BYTES) = low;
    }
  }

  /// A value near each channel's mean, so that sums of squares stay free of cancellation. Of a constant channel it is
  /// the constant: 32 equal summands, added in pairs, give an exact mean.
  __device__ __forceinline__ void enter_round(int round, const float (&pixel)[WARP_CHANNELS]) {
    float mean[WARP_CHANNELS];
    find_means(pixel, mean);
    barrier_wait(&shared_.reusable[round % 2], uint32_t(round / 2 % 2) ^ 1u);
#pragma unroll
    for (int i = 0; i < WARP_CHANNELS; ++i) {
      const int channel = warp_ * WARP_CHANNELS + i;
      if (lane_ == 0) {
        shared_.shift[round % 2][channel] = mean[i];
        shared_.input_offset[round % 2][channel] = -mean[i] * shared_.input_factor[channel];
      }
    }
    sync_threads<PRODUCER_THREADS>(PRODUCERS);
  }

  __device__ __forceinline__ void publish_magnitudes(int round) {
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const float2 largest = __half22float2(magnitude_[pair]);
      const uint32_t first = __reduce_max_sync(ALL_LANES, magnitude_bits(largest.x));
      const uint32_t second = __reduce_max_sync(ALL_LANES, magnitude_bits(largest.y));
      if (lane_ == 0) {
        atomicMax(&shared_.magnitude[round % 2][2 * pair], first);
        atomicMax(&shared_.magnitude[round % 2][2 * pair + 1], second);
      }
    }
  }

  const Arguments& arguments_;
  const Share& share_;
  Shared& shared_;
  const int thread_, warp_, lane_;
  const bool wide_;  // four columns are 16 aligned bytes
  __half2 magnitude_[4];  // largest high parts
  Values sums_;           // of the rows of a band that this warp has
};

}  // namespace kbench::conv_norm_pool
