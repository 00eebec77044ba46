// The producer warps: input rows from global memory to Winograd-transformed, split, channel-minor strips.
//
// Groups of two warps take turns, a pair of convolution rows each, so that the long chain of one pair (wait, transform,
// fence, hand over) overlaps with those of the next. The copy engine brings each pair's four input rows, as the
// 16-byte granules that cover them, whatever their alignment. (Copies by the threads themselves would be in flight at
// each fence before a strip is handed on, and the fence would wait for them.) Columns and channels that the image lacks
// repeat its last ones: their products are dropped, or meet weights of zero.
#pragma once

#include "../bulk_copy.cuh"
#include "../split_fp16.cuh"
#include "plan.cuh"

namespace kbench::conv_norm_pool {

constexpr int QUAD = 4;                         // channels of one lane
constexpr int ITEM_COLUMNS = WARP_THREADS / 2;  // columns of a warp at a time: two lanes, 8 channels each
constexpr int ITEMS = WGMMA_COLUMNS / PRODUCER_GROUP_WARPS / ITEM_COLUMNS;
constexpr int SAMPLED_PIXELS = 32;   // per channel: a power of two, so that a constant's mean is itself
constexpr int SAMPLED_EXPONENT = 5;  // the largest sampled magnitude is scaled to 2^5 .. 2^6
constexpr int MAX_INPUT_EXPONENT = 96;

static_assert(PRODUCER_GROUP_WARPS * QUAD == MAX_IN_CHANNELS, "a warp copies a quad of channels");

__device__ __forceinline__ void store_shared(uint32_t address, uint32_t first, uint32_t second) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(first), "r"(second) : "memory");
}

/// A place in the sequence of a block's pairs.
struct PairCursor {
  int pair = 0, tile = 0, round = 0;

  __device__ __forceinline__ void advance(int count, int pairs, int tiles) {
    pair += count;
    while (pair >= pairs) {
      pair -= pairs;
      if (++tile == tiles) {
        tile = 0;
        ++round;
      }
    }
  }
};

/// SIMPLE: what Arguments::is_simple says, known to the compiler, for fewer registers.
template <bool SIMPLE>
class Producer {
 public:
  /// `warp` counts the producer warps from zero.
  __device__ __forceinline__ Producer(const Arguments& arguments, const Share& share, Shared& shared, int warp)
      : arguments_(arguments),
        share_(share),
        shared_(shared),
        group_(warp / PRODUCER_GROUP_WARPS),
        half_(warp % PRODUCER_GROUP_WARPS),
        lane_(threadIdx.x % WARP_THREADS),
        quad_(lane_ % 2) {}

  __device__ __forceinline__ void run() {
    const int pairs = share_.pairs(), tiles = SIMPLE ? 1 : arguments_.tiles();
    float pixel[2][QUAD];
    load_pixels(0, pixel);
    PairCursor current;
    if (pairs > 0) {
      current.advance(group_, pairs, tiles);
      PairCursor ahead = current;
      for (int slot = group_; slot < RAW_SLOTS; slot += PRODUCER_GROUPS) {
        copy_rows(ahead, slot);
        ahead.advance(PRODUCER_GROUPS, pairs, tiles);
      }
    }
    float shift[QUAD];
    find_shift(pixel, shift);
    find_exponents(pixel, shift);
    if (pairs == 0) return;
    int index = group_;  // of the pair, in the block's sequence
    int known_round = -1;
    while (current.round < share_.rounds) {
      if (current.round != known_round) {
        known_round = current.round;
        enter_round(current);
      }
      const int slot = index % RAW_SLOTS, stage = index % STAGES;
      // Groups start in turn. So the pairs that had this stage and slot before were started, and the phase before the
      // one awaited is complete: parities cannot be mistaken for those of older phases.
      barrier_wait(&shared_.started[group_], uint32_t(index / PRODUCER_GROUPS & 1) ^ uint32_t(group_ == 0));
      barrier_wait(&shared_.empty[stage], uint32_t(index / STAGES & 1) ^ 1u);
      barrier_wait(&shared_.raw_full[slot], uint32_t(index / RAW_SLOTS & 1));
      if (lane_ == 0) barrier_arrive(&shared_.started[(group_ + 1) % PRODUCER_GROUPS]);
#pragma unroll 1
      for (int item = 0; item < ITEMS; ++item) transform(current, slot, stage, half_ * ITEMS + item);
      PairCursor next = current;
      next.advance(PRODUCER_GROUPS, pairs, tiles);
      if (next.round != current.round) publish_magnitudes(current.round);
      fence_shared_to_async();
      __syncwarp();
      if (lane_ == 0) barrier_arrive(&shared_.full[stage]);
      sync_threads(Barrier(PRODUCER_GROUP + group_), PRODUCER_GROUP_WARPS * WARP_THREADS);
      current.advance(RAW_SLOTS, pairs, tiles);
      copy_rows(current, slot);
      current = next;
      index += PRODUCER_GROUPS;
    }
  }

 private:
  /// Index of the first float of a tile's row, counted from address zero: its last two bits are the row's skew,
  /// floats between the copy's start and the row's.
  __device__ __forceinline__ int64_t row_index(const PairCursor& at, int row, int channel) const {
    const int64_t plane =
        int64_t(share_.sample(at.round)) * arguments_.in_channels + min(channel, arguments_.in_channels - 1);
    const int image_row = min(share_.first_row + PAIR_ROWS * at.pair + row, arguments_.height - 1);
    return int64_t(reinterpret_cast<uintptr_t>(arguments_.x) / 4) +
           (plane * arguments_.height + image_row) * arguments_.width + at.tile * TILE_OWNED;
  }

  /// Whether a channel's four rows are copied as one run, with what lies between them. A copy costs its issuing warp
  /// over a hundred cycles, whatever its size, so few are wanted.
  __device__ __forceinline__ bool in_one_run(int columns) const {
    return SIMPLE || (TRANSFORMED - 1) * arguments_.width + columns + 6 <= RAW_PITCH;
  }

  /// Starts the copies of one pair's rows. Each warp of the group takes a quad of channels.
  __device__ __forceinline__ void copy_rows(const PairCursor& at, int slot) {
    if (at.round >= share_.rounds) return;
    if (SIMPLE) {
      if (lane_ >= QUAD) return;
      const int channel = min(half_ * QUAD + lane_, arguments_.in_channels - 1);
      const int row = share_.first_row + PAIR_ROWS * at.pair;
      const int bytes = 4 * arguments_.width * min(TRANSFORMED, arguments_.height - row);
      const int image = arguments_.in_channels * arguments_.height * arguments_.width;
      const float* from = arguments_.x + int64_t(share_.sample(at.round)) * image +
                          (channel * arguments_.height + row) * arguments_.width;
      barrier_arrive_expect(&shared_.raw_full[slot], uint32_t(bytes));
      bulk_load(shared_.raw[slot][half_ * QUAD + lane_], from, uint32_t(bytes), &shared_.raw_full[slot]);
      return;
    }
    const int columns = min(WGMMA_COLUMNS, arguments_.width - at.tile * TILE_OWNED);
    const bool one_run = in_one_run(columns);
    const int channel = half_ * QUAD + lane_ % QUAD, row = lane_ / QUAD;
    uint32_t bytes = 0;
    int64_t index = 0;
    if (row < (one_run ? 1 : TRANSFORMED)) {
      index = row_index(at, row, channel);
      const int last_row = min(share_.first_row + PAIR_ROWS * at.pair + TRANSFORMED - 1, arguments_.height - 1);
      const int rows_between = one_run ? last_row - (share_.first_row + PAIR_ROWS * at.pair) : 0;
      bytes = uint32_t((int(index & 3) + rows_between * arguments_.width + columns + 3) / 4 * 16);
    }
    const uint32_t all_bytes = __reduce_add_sync(ALL_LANES, bytes);
    if (row < TRANSFORMED) shared_.skew[slot][row][channel] = int((one_run ? row_index(at, 0, channel) : index) & 3);
    __syncwarp();
    if (lane_ < QUAD) barrier_arrive_expect(&shared_.raw_full[slot], lane_ == 0 ? all_bytes : 0);
    __syncwarp();
    if (bytes == 0) return;
    const void* from = reinterpret_cast<const void*>(static_cast<uintptr_t>(index & ~int64_t(3)) * 4);
    bulk_load(&shared_.raw[slot][channel][row * RAW_ROW_FLOATS], from, bytes, &shared_.raw_full[slot]);
  }

  /// Shift and scale of a sample, and nothing seen of it yet. All warps agree on them without talking to each other.
  __device__ __forceinline__ void enter_round(const PairCursor& at) {
    barrier_wait(&shared_.reusable[at.round % 2], uint32_t(at.round / 2 % 2) ^ 1u);
    if (at.round > 0) {
      float pixel[2][QUAD], shift[QUAD];
      load_pixels(at.round, pixel);
      find_shift(pixel, shift);
      keep_shift(shift);
    }
    if (at.pair == 0 && at.tile == 0 && half_ == 0 && lane_ < 2) {
      const float* shift = shared_.scales[group_][0][quad_].shift;
#pragma unroll
      for (int channel = 0; channel < QUAD; ++channel)
        shared_.shift[at.round % 2][quad_ * QUAD + channel] = shift[channel];
    }
    magnitude_[0] = magnitude_[1] = __float2half2_rn(0.0f);
  }

  /// For each warp in shared memory: registers are short.
  __device__ __forceinline__ void keep_shift(const float (&shift)[QUAD]) {
    QuadScales& scales = shared_.scales[group_][half_][quad_];
    __syncwarp();
    if (lane_ < 2) {
#pragma unroll
      for (int channel = 0; channel < QUAD; ++channel) {
        scales.shift[channel] = shift[channel];
        scales.offset[channel] = -shift[channel] * scales.factor[channel];
      }
    }
    __syncwarp();
  }

  /// Four values of a column and quad, in each of the pair's four rows, to the four strips of F(2,3) along the rows.
  __device__ __forceinline__ void transform(const PairCursor& at, int slot, int stage, int item) {
    const int column = min(item * ITEM_COLUMNS + lane_ / 2, arguments_.width - at.tile * TILE_OWNED - 1);
    const float* from = &shared_.raw[slot][quad_ * QUAD][column];
    const int columns = min(WGMMA_COLUMNS, arguments_.width - at.tile * TILE_OWNED);
    const int stride = in_one_run(columns) ? arguments_.width : RAW_ROW_FLOATS;
    // Rows past the image repeat its last one.
    const int rows_left =
        in_one_run(columns) ? arguments_.height - 1 - share_.first_row - PAIR_ROWS * at.pair : TRANSFORMED;
    float d[TRANSFORMED][QUAD];
#pragma unroll
    for (int row = 0; row < TRANSFORMED; ++row) {
      const float* place = from + min(row, rows_left) * stride;
#pragma unroll
      for (int channel = 0; channel < QUAD; ++channel) {
        const int skew = SIMPLE ? 0 : shared_.skew[slot][row][quad_ * QUAD + channel];
        d[row][channel] = place[channel * RAW_PITCH + skew];
      }
    }
    const QuadScales& scales = shared_.scales[group_][half_][quad_];
    const float4 factors = *reinterpret_cast<const float4*>(scales.factor);
    const float4 offsets = *reinterpret_cast<const float4*>(scales.offset);
    const float factor[QUAD] = {factors.x, factors.y, factors.z, factors.w};
    const float offset[QUAD] = {offsets.x, offsets.y, offsets.z, offsets.w};
#pragma unroll
    for (int row = 0; row < TRANSFORMED; ++row) {
#pragma unroll
      for (int channel = 0; channel < QUAD; ++channel) {
        d[row][channel] = fmaf(d[row][channel], factor[channel], offset[channel]);
      }
    }
    const uint32_t to = shared_address(shared_.ring) + stage * STAGE_BYTES + (item * WARP_THREADS + lane_) * 8;
    store_strip(to, d[0][0] - d[2][0], d[0][1] - d[2][1], d[0][2] - d[2][2], d[0][3] - d[2][3]);
    store_strip(to + STRIP_BYTES, d[1][0] + d[2][0], d[1][1] + d[2][1], d[1][2] + d[2][2], d[1][3] + d[2][3]);
    store_strip(to + 2 * STRIP_BYTES, d[2][0] - d[1][0], d[2][1] - d[1][1], d[2][2] - d[1][2], d[2][3] - d[1][3]);
    store_strip(to + 3 * STRIP_BYTES, d[3][0] - d[1][0], d[3][1] - d[1][1], d[3][2] - d[1][2], d[3][3] - d[1][3]);
  }

  __device__ __forceinline__ void store_strip(uint32_t to, float a, float b, float c, float d) {
    const SplitPair lower = split_fp16(a, b), upper = split_fp16(c, d);
    store_shared(to, lower.high, upper.high);
    store_shared(to + PART_BYTES, lower.low, upper.low);
    magnitude_[0] = __hmax2_nan(magnitude_[0], __habs2(bits_half2(lower.high)));
    magnitude_[1] = __hmax2_nan(magnitude_[1], __habs2(bits_half2(upper.high)));
  }

  /// Pixels that stand for the band: one in each of 32 layers of rows, the columns in scattered order.
  __device__ __forceinline__ float sampled_pixel(int round, int part, int channel) const {
    const int pixel = lane_ / 2 + part * ITEM_COLUMNS;
    const int row = share_.first_row + (share_.rows + KERNEL - 1) * (2 * pixel + 1) / (2 * SAMPLED_PIXELS);
    const int column = arguments_.width * (pixel * 11 % SAMPLED_PIXELS) / SAMPLED_PIXELS;
    const int plane = min(quad_ * QUAD + channel, arguments_.in_channels - 1);
    return arguments_.x[((int64_t(share_.sample(round)) * arguments_.in_channels + plane) * arguments_.height + row) *
                            arguments_.width +
                        column];
  }

  __device__ __forceinline__ void load_pixels(int round, float (&pixel)[2][QUAD]) const {
#pragma unroll
    for (int channel = 0; channel < QUAD; ++channel) {
      pixel[0][channel] = share_.rows > 0 ? sampled_pixel(round, 0, channel) : 0.0f;
      pixel[1][channel] = share_.rows > 0 ? sampled_pixel(round, 1, channel) : 0.0f;
    }
  }

  /// A value near each channel's mean, so that sums of squares stay free of cancellation. Of a constant channel it is
  /// the constant: 32 equal summands, added in pairs, give an exact mean.
  __device__ __forceinline__ void find_shift(const float (&pixel)[2][QUAD], float (&shift)[QUAD]) {
#pragma unroll
    for (int channel = 0; channel < QUAD; ++channel) {
      float sum = pixel[0][channel] + pixel[1][channel];
#pragma unroll
      for (int distance = 2; distance < WARP_THREADS; distance *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, distance);
      const float mean = sum / SAMPLED_PIXELS;
      shift[channel] = isfinite(mean) ? mean : 0.0f;
    }
  }

  /// The power of two per channel that brings the sampled pixels to 2^5 .. 2^6; what the others do is checked later.
  __device__ __forceinline__ void find_exponents(const float (&pixel)[2][QUAD], const float (&shift)[QUAD]) {
#pragma unroll
    for (int channel = 0; channel < QUAD; ++channel) {
      uint32_t bits =
          max(magnitude_bits(pixel[0][channel] - shift[channel]), magnitude_bits(pixel[1][channel] - shift[channel]));
#pragma unroll
      for (int distance = 2; distance < WARP_THREADS; distance *= 2) {
        bits = max(bits, __shfl_xor_sync(ALL_LANES, bits, distance));
      }
      const int wanted = SAMPLED_EXPONENT - binary_exponent(__uint_as_float(bits));
      const int exponent = bits == 0 ? 0 : max(-MAX_INPUT_EXPONENT, min(MAX_INPUT_EXPONENT, wanted));
      if (lane_ < 2) shared_.scales[group_][half_][quad_].factor[channel] = power_of_two(exponent);
      if (group_ == 0 && half_ == 0 && lane_ < 2) {
        shared_.live[quad_ * QUAD + channel] = bits != 0;
        shared_.input_exponent[quad_ * QUAD + channel] = exponent;
      }
    }
    keep_shift(shift);
    if (group_ == 0 && half_ == 0) arrive_threads(SCALES_READY, WARP_THREADS + CONSUMER_THREADS);
  }

  __device__ __forceinline__ void publish_magnitudes(int round) {
    const float2 lower = __half22float2(magnitude_[0]), upper = __half22float2(magnitude_[1]);
    const float largest[QUAD] = {lower.x, lower.y, upper.x, upper.y};
#pragma unroll
    for (int channel = 0; channel < QUAD; ++channel) {
      uint32_t bits = magnitude_bits(largest[channel]);
#pragma unroll
      for (int distance = 2; distance < WARP_THREADS; distance *= 2) {
        bits = max(bits, __shfl_xor_sync(ALL_LANES, bits, distance));
      }
      if (lane_ < 2) atomicMax(&shared_.magnitude[round % 2][quad_ * QUAD + channel], bits);
    }
  }

  const Arguments& arguments_;
  const Share& share_;
  Shared& shared_;
  const int group_, half_, lane_, quad_;
  __half2 magnitude_[2];  // largest high parts, of channels 0 and 1, 2 and 3
};

}  // namespace kbench::conv_norm_pool
