// The producer warpgroup: input rows from global memory to split, channel-minor rows in the ring.
//
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

/// A place in the sequence of a block's chunks.
struct ChunkCursor {
  int chunk = 0, tile = 0, round = 0;

  __device__ __forceinline__ void advance(const Share& share) {
    if (++chunk < share.chunks()) return;
    chunk = 0;
    if (++tile < share.tiles) return;
    tile = 0;
    ++round;
  }
};

/// Asks L2 for a chunk that will be loaded later: 8 channels x 4 rows x 4 lines of 128 bytes, a thread each.
__device__ __forceinline__ void prefetch(const Arguments& arguments, const Share& share, const ChunkCursor& at) {
  if (at.round >= share.rounds) return;
  const int thread = threadIdx.x % WARPGROUP_THREADS, channel = min(thread / 16, arguments.in_channels - 1);
  const int row = min(share.first_row + POOL * at.chunk + thread / 4 % 4, arguments.height - 1);
  const int column = min(at.tile * TILE_OWNED + thread % 4 * 32, arguments.width - 1);
  const int64_t plane = int64_t(share.sample(at.round)) * arguments.in_channels + channel;
  const float* from = arguments.x + (plane * arguments.height + row) * arguments.width + column;
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/// By the writer, while the producer starts: the chunks that follow its first.
__device__ __forceinline__ void prefetch_first(const Arguments& arguments, const Share& share) {
  if (share.units == 0) return;
  ChunkCursor at;
#pragma unroll 1
  for (int i = 0; i < PREFETCHED_CHUNKS; ++i) {
    at.advance(share);
    prefetch(arguments, share, at);
  }
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

  __device__ __forceinline__ void run() {
    float pixel[WARP_CHANNELS];
    load_pixels(0, pixel);
    clear_sums();
    Values values;
    const int chunks = share_.chunks();
    ChunkCursor at, next, soon;
    for (int i = 0; i < PREFETCHED_CHUNKS; ++i) soon.advance(share_);  // the writer asks for these
    for (int sequence = 0; share_.rounds > at.round; ++sequence) {
      const bool are_sums = at.chunk == chunks - 1;
      if (are_sums) {
        load_edges(values, at);
      } else if (chunks > 0) {
        load(values, at);
      }
      if (sequence > 0) {
        soon.advance(share_);
        prefetch(arguments_, share_, soon);
      }
      // Not sooner: at the start everybody waits for rows, and code that runs for the first time is slow.
      if (at.tile == share_.tiles - 1 && at.chunk == chunks - 1 && at.round + 1 < share_.rounds) {
        load_pixels(at.round + 1, pixel);
      }
      if (at.tile == 0 && at.chunk == 0) {
        if (sequence == 0) sync_threads<BLOCK_THREADS>(INITIALISED);
        float mean[WARP_CHANNELS];
        find_means(pixel, mean);
        if (sequence == 0) find_scales(pixel, mean);
        if (chunks == 0) return;  // nothing ties this warpgroup to the writer's rounds, and parities would be mistaken
        enter_round(at.round, mean);
        magnitude_[0] = magnitude_[1] = magnitude_[2] = magnitude_[3] = __float2half2_rn(0.0f);
      }
      const int slot = sequence % CHUNKS;
      const bool halo = at.chunk == chunks - 2;
      next.advance(share_);
      barrier_wait(&shared_.empty[slot], uint32_t(sequence / CHUNKS & 1) ^ 1u);
      if (are_sums) {
        store_sums(values, at.round, slot);
      } else if (warp_ < HALO || !halo) {
        const int row = POOL * at.chunk + warp_;
        store(values, at.round, slot, row < share_.rows + HALO);
      }
      if (halo && at.tile == share_.tiles - 1) {
        publish_magnitudes(at.round);
        barrier_arrive(&shared_.measured[at.round % 2]);
      }
      fence_shared_to_async();
      __syncwarp();
      if (lane_ == 0) barrier_arrive(&shared_.full[slot]);
      at = next;
    }
  }

 private:
  using Values = float[MAX_IN_CHANNELS][POOL];  // four columns of a row

  /// The lane's first column of four. Eight lanes of a store meet eight pixels of one phase: 128 bytes in a row.
  __device__ __forceinline__ int first_column() const {
    return lane_ % PHASE_PIXELS * PHASES + lane_ / PHASE_PIXELS * POOL;
  }

  __device__ __forceinline__ const float* plane(int round, int channel) const {
    const int64_t planes = int64_t(share_.sample(round)) * arguments_.in_channels + channel;
    return arguments_.x + planes * arguments_.height * arguments_.width;
  }

  /// The same pixel of a later channel, or of the last. In bytes: an addition of a uniform number, and nothing else.
  __device__ __forceinline__ const float* next_plane(const float* pixel, int channel) const {
    const uint64_t plane_bytes = uint64_t(sizeof(float)) * uint32_t(arguments_.height * arguments_.width);
    const uint64_t bytes = plane_bytes * uint32_t(min(channel, arguments_.in_channels - 1));
    return reinterpret_cast<const float*>(reinterpret_cast<const char*>(pixel) + bytes);
  }

  /// This warp's row of a chunk. Rows past the image repeat its last: nothing reads them.
  __device__ __forceinline__ void load(Values& values, const ChunkCursor& at) const {
    const int row = min(share_.first_row + POOL * at.chunk + warp_, arguments_.height - 1);
    const int first = at.tile * TILE_OWNED + first_column(), width = arguments_.width;
    const float* from = plane(at.round, 0) + row * width;
    if (wide_) {
      from += min(first, width - POOL);
#pragma unroll
      for (int channel = 0; channel < MAX_IN_CHANNELS; ++channel) {
        const float4 four = __ldg(reinterpret_cast<const float4*>(next_plane(from, channel)));
        values[channel][0] = four.x;
        values[channel][1] = four.y;
        values[channel][2] = four.z;
        values[channel][3] = four.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < POOL; ++i) {
        const float* pixel = from + min(first + i, width - 1);
#pragma unroll
        for (int channel = 0; channel < MAX_IN_CHANNELS; ++channel) {
          values[channel][i] = __ldg(next_plane(pixel, channel));
        }
      }
    }
  }

  /// A thread's column of the rows that not every filter row meets: the first two and the last two of the band.
  __device__ __forceinline__ void load_edges(Values& values, const ChunkCursor& at) const {
    const int column = min(at.tile * TILE_OWNED + sum_column(), arguments_.width - 1);
    const float* from = plane(at.round, 0) + share_.first_row * arguments_.width + column;
#pragma unroll
    for (int i = 0; i < 2 * HALO; ++i) {
      const float* pixel = from + (i < HALO ? i : share_.rows + i - HALO) * arguments_.width;
#pragma unroll
      for (int channel = 0; channel < MAX_IN_CHANNELS; ++channel) {
        values[channel][i] = __ldg(next_plane(pixel, channel));
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

  /// Pixels that stand for the band: one in each of 32 layers of rows, the columns in scattered order.
  __device__ __forceinline__ void load_pixels(int round, float (&pixel)[WARP_CHANNELS]) const {
    const int row = share_.first_row + (share_.rows + HALO) * (2 * lane_ + 1) / (2 * SAMPLED_PIXELS);
    const int column = arguments_.width * (lane_ * 11 % SAMPLED_PIXELS) / SAMPLED_PIXELS;
#pragma unroll
    for (int i = 0; i < WARP_CHANNELS; ++i) {
      const int channel = min(warp_ * WARP_CHANNELS + i, arguments_.in_channels - 1);
      pixel[i] = share_.rows > 0 ? __ldg(plane(round, channel) + row * arguments_.width + column) : 0.0f;
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

  /// The power of two per channel that brings the sampled pixels to 2^5 .. 2^6; what the others do is checked later.
  __device__ __forceinline__ void find_scales(const float (&pixel)[WARP_CHANNELS],
                                              const float (&mean)[WARP_CHANNELS]) {
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
      }
    }
    __syncwarp();
    arrive_threads<PRODUCER_THREADS + CONSUMER_THREADS>(SCALES_READY);
  }

  /// A value near each channel's mean, so that sums of squares stay free of cancellation. Of a constant channel it is
  /// the constant: 32 equal summands, added in pairs, give an exact mean.
  __device__ __forceinline__ void enter_round(int round, const float (&mean)[WARP_CHANNELS]) {
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
