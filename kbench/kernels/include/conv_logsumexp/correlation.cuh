// First pass, the short way: a run's moments of the convolution from correlations of its input.
//
// The sum of a channel's squared convolution is a quadratic form of its filter: sum over pairs of taps t, t' and pairs
// of input channels of w[t] w[t'] G(t, t'), where G is the sum over the outputs of the products of the two inputs that
// the taps meet. G depends on the taps' distance alone but for the run's edges: it is the correlation of the whole run
// at that distance, less what the rows and columns contribute that the windows of the taps leave out. Of 25
// distances half are mirror images. This takes 13 x 64 products a pixel in place of the convolution's 72 x 64.
//
// Two consumer warpgroups multiply, with mma.sync, whose tiles are small enough: each of 8 warps takes 16 columns of every row, as the depth of m16n8k16 products. A
// row with its neighbours two pixels to either side, 8 channels each, is the left operand, and the same row and the two
// before it are the right one. The third warpgroup does the same for the four columns and rows at the edges, which the
// producer keeps for it, and then puts the run's moments together.
//
// Pairs and three products keep the accuracy of fp32, but a filter that cancels (the weights' sum is zero and the image
// smooth) leaves the difference of large sums. So the bound of what rounding can do travels with the moments, and
// compute_constants sends a sample to TIER_REPEAT where it is not far below them.
#pragma once

#include "pipeline.cuh"

namespace kbench::conv_logsumexp {

/// 16 x 16 times 16 x 8 of fp16, by one warp: the fragments are those of wgmma.cuh for 16 rows and 8 columns.
__device__ __forceinline__ void multiply_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void load_transposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

/// Both parts of 16 pixels as right operand.
struct Unshifted {
  uint32_t parts[4];
};

/// One part (high or low) of 16 pixels as left operands. Three tiles: shifts -2 and -1; 0 and 1; 2 and, in the high part,
/// ones, which sum the right operand up.
struct Shifted {
  uint32_t tiles[3][4];
};

/// Where a lane loads from: lanes 8 i to 8 i + 7 give the rows of the instruction's i-th 8 x 8 matrix.
__device__ __forceinline__ int lane_pixel(int lane) { return lane % 8 + lane / 16 * 8; }
__device__ __forceinline__ int lane_shift(int tile, int lane) { return 2 * tile - 2 + lane / 8 % 2; }
constexpr int ONES_SHIFT = 3;
/// And for right operands: high and low part.
__device__ __forceinline__ int lane_pixel_unshifted(int lane) { return lane % 16; }
__device__ __forceinline__ int lane_part_unshifted(int lane) { return lane / 16; }

/// 16 pixels of a row, in memory whose rows are ROW_BYTES apart and whose high and low parts are PART_ROWS rows apart.
/// Pixels outside the image are zeros.
template <int PART_ROWS>
class RowPixels {
 public:
  __device__ RowPixels(const CorrelationShared& own, const void* rows, int first, int width, int lane) {
    const uint32_t start = shared_address(rows), zero = shared_address(&own.zero), ones = shared_address(&own.ones);
#pragma unroll
    for (int tile = 0; tile < 3; ++tile) {
      const int shift = lane_shift(tile, lane), pixel = first + lane_pixel(lane) + shift;
      const bool inside = pixel >= 0 && pixel < width && shift != ONES_SHIFT;
      base_[tile] = inside ? start + pixel * PIXEL_BYTES : shift == ONES_SHIFT ? ones : zero;
      stride_[tile] = inside ? ROW_BYTES : 0;
      to_low_[tile] = inside ? PART_ROWS * ROW_BYTES : shift == ONES_SHIFT ? zero - ones : 0;
    }
    const int pixel = first + lane_pixel_unshifted(lane);
    const bool inside = pixel < width;
    base_unshifted_ = inside ? start + lane_part_unshifted(lane) * PART_ROWS * ROW_BYTES + pixel * PIXEL_BYTES : zero;
    stride_unshifted_ = inside ? ROW_BYTES : 0;
  }

  __device__ __forceinline__ void load(int row, Shifted& high, Shifted& low) const {
#pragma unroll
    for (int tile = 0; tile < 3; ++tile) {
      const uint32_t address = base_[tile] + row * stride_[tile];
      load_transposed(high.tiles[tile], address);
      load_transposed(low.tiles[tile], address + to_low_[tile]);
    }
  }

  __device__ __forceinline__ void load(int row, Unshifted& to) const {
    load_transposed(to.parts, base_unshifted_ + row * stride_unshifted_);
  }

 private:
  uint32_t base_[3], stride_[3], to_low_[3], base_unshifted_, stride_unshifted_;
};

/// Adds the products of one row with the one ROWS_BEFORE rows above to the tiles of that distance. Small products first.
template <int ROWS_BEFORE>
__device__ __forceinline__ void correlate(float (&sums)[LAG_TILES][4], const Shifted& high, const Shifted& low,
                                          const Unshifted& before) {
  // Without rows between them, negative shifts are mirror images: no far tile.
  constexpr int FIRST = ROWS_BEFORE == 0, TILE = ROWS_BEFORE == 0 ? -1 : 3 * ROWS_BEFORE - 1;
#pragma unroll
  for (int product = 0; product < 3; ++product) {
    const Shifted& left = product == 1 ? low : high;
    const int right = product == 0 ? 2 : 0;
#pragma unroll
    for (int tile = FIRST; tile < 3; ++tile) {
      multiply_m16n8k16(sums[TILE + tile], left.tiles[tile], before.parts[right], before.parts[right + 1]);
    }
  }
}

/// Index of a lag's 8 x 8 sums: `rows` 0 to 2 apart and a shift of -2 to 2 (0 to 2 where rows is 0).
__device__ __forceinline__ int lag_index(int rows, int shift) { return rows == 0 ? shift : 6 * rows + shift; }
constexpr int ONES_LAG = 3;  // sums of the right operand, in every row

__device__ __forceinline__ void clear(float (&sums)[LAG_TILES][4]) {
#pragma unroll
  for (int tile = 0; tile < LAG_TILES; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[tile][i] = 0.f;
  }
}

/// The tensor cores truncate where they add, which would be a bias over many rows: these additions round.
__device__ __forceinline__ void add(float (&total)[LAG_TILES][4], const float (&sums)[LAG_TILES][4]) {
#pragma unroll
  for (int tile = 0; tile < LAG_TILES; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) total[tile][i] += sums[tile][i];
  }
}

/// Tiles [FIRST, END) of a warp's sums to memory, as [lag][channel][channel of the row before].
template <int FIRST, int END>
__device__ __forceinline__ void keep(float* to, const float (&sums)[LAG_TILES][4], int lane) {
#pragma unroll
  for (int tile = FIRST; tile < END; ++tile) {
    float* pair = to + (tile - FIRST) * 128 + 2 * lane;
    *reinterpret_cast<float2*>(pair) = make_float2(sums[tile][0], sums[tile][1]);
    *reinterpret_cast<float2*>(pair + 64) = make_float2(sums[tile][2], sums[tile][3]);
  }
}

/// The consumers' first pass on correlations: a partial of every channel for each of the block's runs.
template <int CONSUMERS>
class RunMoments {
 public:
  __device__ RunMoments(const Problem& problem, Shared<CONSUMERS>& shared)
      : problem_(problem),
        shared_(shared),
        own_(shared.correlation),
        thread_(threadIdx.x % WARPGROUP_THREADS),
        warp_(thread_ / 32),
        lane_(thread_ % 32) {}

  /// All runs of the block; warpgroups 0 and 1 take the lags, 2 the edges.
  __device__ void all_runs(bool edges) {
    if (edges) {
      list_terms();
    } else {
      clear_zero_row();
    }
    Walk walk(problem_, last_sample_first(problem_, blockIdx.x));
    Run run;
    int stage = 0;
    for (int number = 0; walk.next(problem_, run); ++number) {
      const bool last = !walk.more();
      if (edges) {
        edge_columns_and_rows(run.rows + 2, uint32_t(number & 1));
        corners(run.rows + 2);
        peak_ = fmaxf(fmaxf(own_.peaks[0], own_.peaks[1]), fmaxf(own_.peaks[2], own_.peaks[3]));
        arrive_threads<2 * WARPGROUP_THREADS>(EDGES_TAKEN_BARRIER);
      } else {
        lags_of_run(run.rows + 2, stage, number);
      }
      barrier_arrive(&shared_.lags_full);
      if (!edges && !last) continue;
      barrier_wait(&shared_.lags_full, uint32_t(number & 1));
      const int thread = edges ? thread_ : int(threadIdx.x) + WARPGROUP_THREADS;
      put_together(run, thread, last ? 3 * WARPGROUP_THREADS : WARPGROUP_THREADS);
      if (!last) barrier_arrive(&shared_.lags_empty);
    }
  }

 private:
  /// A run's moments, by the given number of threads: the last run's by all, since the others have nothing else to do.
  __device__ void put_together(const Run& run, int thread, int threads) {
    add_up_lags(thread, threads);
    synchronise(threads);
    assemble(thread, threads);
    synchronise(threads);
    quadratic_forms(thread / 32, threads / 32);
    synchronise(threads);
    if (thread < MAX_CHANNELS) publish(run, thread, threads / 32);
  }

  __device__ void clear_zero_row() {
    static_assert(TILE_PIXELS == WARPGROUP_THREADS, "a pixel of each part a thread");
    unsigned char* part = shared_.ring + threadIdx.x / TILE_PIXELS * RING_PLANE_BYTES;
    reinterpret_cast<uint4*>(part + ZERO_ROW * ROW_BYTES)[thread_] = make_uint4(0u, 0u, 0u, 0u);
    sync_threads<2 * WARPGROUP_THREADS>(ZERO_ROW_BARRIER);
  }

  /// One warp's columns of all rows of a run.
  __device__ void lags_of_run(int rows, int& stage, int number) {
    const int warp = threadIdx.x / 32;
    const RowPixels<RING_PLANE_BYTES / ROW_BYTES> pixels(own_, shared_.ring, 16 * warp, problem_.width, lane_);
    float total[LAG_TILES][4];
    clear(total);
    Unshifted before[3] = {};
    for (int first = 0; first < rows; first += BATCH_ROWS, ++stage) {
      const int slot = stage % STAGES;
      barrier_wait(&shared_.stage_full[slot], uint32_t(stage / STAGES & 1));
      float sums[LAG_TILES][4];
      clear(sums);
#pragma unroll
      for (int i = 0; i < BATCH_ROWS; ++i) {
        const int row = first + i < rows ? slot * BATCH_ROWS + i : ZERO_ROW;
        Shifted high, low;
        pixels.load(row, high, low);
        pixels.load(row, before[i]);
        correlate<0>(sums, high, low, before[i]);
        correlate<1>(sums, high, low, before[(i + 2) % 3]);
        correlate<2>(sums, high, low, before[(i + 1) % 3]);
      }
      arrive_threads<3 * WARPGROUP_THREADS>(FIRST_STAGE_BARRIER + slot);
      add(total, sums);
    }
    if (number > 0) barrier_wait(&shared_.lags_empty, uint32_t(number - 1) & 1);
    keep<0, LAG_TILES>(&own_.lags[warp][0][0], total, lane_);
  }

  __device__ static void synchronise(int threads) {
    asm volatile("bar.sync %0, %1;" ::"n"(RUN_BARRIER), "r"(threads) : "memory");
  }

  /// Correlations down edge column `warp_` of 0, 1, width - 2 and width - 1, where rows are the products' depth; and
  /// along the edge rows as soon as they are there.
  __device__ void edge_columns_and_rows(int rows, uint32_t parity) {
    float total[LAG_TILES][4];
    clear(total);
#pragma unroll 1
    for (int first = 0; first < rows; first += EDGE_ROWS) {
      barrier_wait(&shared_.edges_full[first / EDGE_ROWS], parity);
      if (first == 0) edge_rows(0);
      if (first + EDGE_ROWS >= rows) edge_rows(1);
      float sums[LAG_TILES][4];
      clear(sums);
      Shifted high, low;
      Unshifted before;
      const int own_row = first + lane_pixel_unshifted(lane_);
      const uint4* unshifted = &own_.columns[lane_part_unshifted(lane_)][warp_][own_row];
      load_transposed(before.parts, shared_address(own_row < rows ? unshifted : &own_.zero));
      load_column(first, rows, high, low);
      correlate<0>(sums, high, low, before);
      load_column(first + 1, rows, high, low);
      correlate<1>(sums, high, low, before);
      load_column(first + 2, rows, high, low);
      correlate<2>(sums, high, low, before);
      add(total, sums);
    }
    keep<0, LAG_TILES>(&own_.column_lags[warp_][0][0], total, lane_);
  }

  __device__ void load_column(int first, int rows, Shifted& high, Shifted& low) const {
#pragma unroll
    for (int tile = 0; tile < 3; ++tile) {
      const int shift = lane_shift(tile, lane_), column = warp_ + shift, row = first + lane_pixel(lane_);
      const bool inside = shift != ONES_SHIFT && column >= 0 && column / 2 == warp_ / 2 && row < rows;
      const uint4* zero = &own_.zero;
      load_transposed(high.tiles[tile], shared_address(inside                ? &own_.columns[0][column][row]
                                                       : shift == ONES_SHIFT ? &own_.ones
                                                                             : zero));
      load_transposed(low.tiles[tile], shared_address(inside ? &own_.columns[1][column][row] : zero));
    }
  }

  /// The first two rows or the last two: each with itself, and the lower with the upper one.
  __device__ void edge_rows(int which) {
    const int upper = 2 * which, lower = upper + 1;
    if (warp_ == 0) edge_row<0>(upper, upper, upper);
    if (warp_ == 1) edge_row<0>(lower, lower, lower);
    if (warp_ == 2) edge_row<1>(4 + which, lower, upper);
  }

  /// Correlations along edge row `left` of 0, 1, last but one and last, with edge row `right`, ROWS_BEFORE rows above.
  template <int ROWS_BEFORE>
  __device__ void edge_row(int index, int left, int right) {
    float total[LAG_TILES][4];
    clear(total);
#pragma unroll 1
    for (int first = 0; first < problem_.width; first += 16) {
      const RowPixels<4> pixels(own_, own_.rows, first, problem_.width, lane_);
      float sums[LAG_TILES][4];
      clear(sums);
      Shifted high, low;
      Unshifted before;
      pixels.load(left, high, low);
      pixels.load(right, before);
      correlate<ROWS_BEFORE>(sums, high, low, before);
      add(total, sums);
    }
    keep<ROWS_BEFORE == 0 ? 0 : 2, ROWS_BEFORE == 0 ? 2 : 5>(&own_.row_lags[index][0][0], total, lane_);
  }

  /// The 4 x 4 pixels where edges meet.
  __device__ void corners(int rows) {
    const int index = thread_ / 32, column = thread_ / 8 % 4, channel = thread_ % 8;
    const int row = index < 2 ? index : rows - 4 + index;
    const __half* high = reinterpret_cast<const __half*>(&own_.columns[0][column][row]);
    const __half* low = reinterpret_cast<const __half*>(&own_.columns[1][column][row]);
    own_.corners[index][column][channel] = __half2float(high[channel]) + __half2float(low[channel]);
  }

  __device__ void add_up_lags(int thread, int threads) {
#pragma unroll 2
    for (int at = thread; at < LAGS * 64; at += threads) {
      float sum = 0.f;
#pragma unroll
      for (int warp = 0; warp < LAG_WARPS; ++warp) sum += (&own_.lags[warp][0][0])[at];
      (&own_.all_lags[0][0])[at] = sum;
    }
  }

  /// Pair `index` of 45 pairs of taps: the first is in a lower row, or in the same and not further left.
  struct Pair {
    int y, x, other_y, other_x;

    __device__ explicit Pair(int index) {
      constexpr uint32_t HIGHER = 2 << 8 | 2 << 4 | 1, LOWER = 0 << 8 | 1 << 4 | 0;  // (1, 0), (2, 1), (2, 0)
      if (index < 27) {
        const int rows = index / 9 * 4, within = index % 9;
        y = HIGHER >> rows & 3;
        other_y = LOWER >> rows & 3;
        x = within / 3;
        other_x = within % 3;
      } else {
        const int within = (index - 27) % 6;
        y = other_y = (index - 27) / 6;
        x = within < 3 ? within : HIGHER >> (within - 3) * 4 & 3;
        other_x = within < 3 ? within : LOWER >> (within - 3) * 4 & 3;
      }
    }
  };

  /// Two edge rows or columns (0 and 1 for the first two, 2 and 3 for the last) that a tap's window leaves out.
  static __device__ int left_out(int tap, int which) {
    return which == 0 ? (tap == 0 ? 2 : 0) : (tap == 2 ? 1 : 3);
  }

  /// Where assemble() finds what makes up a pair's G.
  __device__ void list_terms() {
    if (thread_ < 64) own_.nothing[thread_] = 0.f;
    if (thread_ >= PAIRS) return;
    const Pair pair(thread_);
    const int rows = pair.y - pair.other_y, shift = pair.x - pair.other_x, lag = lag_index(rows, shift);
    PairTerms& terms = own_.terms[thread_];
    terms.lag = offset(own_.all_lags[lag]);
    terms.factor = rows == 0 && shift == 0 ? 1 : 2;
    terms.taps = pair.y * 3 + pair.x;
    terms.other_taps = pair.other_y * 3 + pair.other_x;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      terms.columns[i] = offset(own_.column_lags[left_out(pair.other_x, i)][lag]);
      const int row = rows == 0 ? left_out(pair.other_y, i) : pair.other_y == 0 ? 2 : 0;
      const bool there = rows == 0 || rows == 1 && i == 0;
      terms.rows[i] = offset(!there      ? own_.nothing
                             : rows == 0 ? own_.row_lags[row][lag]
                                         : own_.row_lags[4 + row / 2][lag - 4]);
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int column = left_out(pair.other_x, k), shifted = column + shift;
        const bool both = there && shifted >= 0 && shifted / 2 == column / 2;
        terms.corners[2 * i + k] = offset(both ? own_.corners[row + rows][shifted] : own_.nothing);
        terms.other_corners[2 * i + k] = offset(both ? own_.corners[row][column] : own_.nothing);
      }
    }
  }

  __device__ uint16_t offset(const float* term) const { return uint16_t(term - base()); }
  __device__ const float* base() const { return reinterpret_cast<const float*>(&own_); }

  /// G of all pairs, doubled where the mirrored pair counts too; and the sums of the inputs that each tap meets.
  __device__ void assemble(int thread, int threads) {
    const int entry = thread % 64, channel = entry / 8, other = entry % 8;
#pragma unroll 2
    for (int pair = thread / 64; pair < PAIRS; pair += threads / 64) {
      const PairTerms terms = own_.terms[pair];
      const float* at = base() + entry;
      const float outside = at[terms.columns[0]] + at[terms.columns[1]] + at[terms.rows[0]] + at[terms.rows[1]];
      float sum = at[terms.lag] - outside;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sum = fmaf(base()[terms.corners[i] + channel], base()[terms.other_corners[i] + other], sum);
      }
      own_.gram[pair][entry] = sum * float(terms.factor);
    }
    if (thread < TAPS * 8) {
      const int y = thread / 24, x = thread / 8 % 3, input = thread % 8;
      float sum = own_.all_lags[ONES_LAG][input];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        sum -= own_.row_lags[left_out(y, i)][ONES_LAG][input] + own_.column_lags[left_out(x, i)][ONES_LAG][input];
#pragma unroll
        for (int k = 0; k < 2; ++k) sum += own_.corners[left_out(y, i)][left_out(x, k)][input];
      }
      own_.sums[thread] = sum;
    }
    if (thread < 8) own_.power[thread] = own_.all_lags[0][9 * thread];
  }

  /// Each warp takes its share of the pairs, and each lane two channels.
  __device__ void quadratic_forms(int warp, int warps) {
    double squares[2] = {0, 0};
    float sum[2] = {0.f, 0.f};
#pragma unroll 1
    for (int index = warp; index < PAIRS; index += warps) {
      const int tap = own_.terms[index].taps, other_tap = own_.terms[index].other_taps;
      float own[2][8], other[2][8];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        load_weights_of(own[k], k, tap);
        load_weights_of(other[k], k, other_tap);
      }
      float form[2] = {0.f, 0.f};
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const float4* row = reinterpret_cast<const float4*>(&own_.gram[index][8 * c]);
        const float4 low = row[0], high = row[1];
        const float g[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          float product = 0.f;
#pragma unroll
          for (int i = 0; i < 8; ++i) product = fmaf(g[i], other[k][i], product);
          form[k] = fmaf(product, own[k][c], form[k]);
        }
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) squares[k] += double(form[k]);
    }
#pragma unroll 1
    for (int tap = warp; tap < TAPS; tap += warps) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        float own[8];
        load_weights_of(own, k, tap);
#pragma unroll
        for (int c = 0; c < 8; ++c) sum[k] = fmaf(own_.sums[tap * 8 + c], own[c], sum[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      own_.parts[warp][0][lane_ + 32 * k] = squares[k];
      own_.parts[warp][1][lane_ + 32 * k] = double(sum[k]);
    }
  }

  __device__ void load_weights_of(float (&to)[8], int half, int tap) const {
    const float* from = own_.weights + (lane_ + 32 * half) * WEIGHT_PITCH + tap;
#pragma unroll
    for (int c = 0; c < 8; ++c) to[c] = from[c * TAPS];
  }

  __device__ void publish(const Run& run, int channel, int warps) {
    double squares = 0, sum = 0;
#pragma unroll 4
    for (int warp = 0; warp < warps; ++warp) {
      squares += own_.parts[warp][0][channel];
      sum += own_.parts[warp][1][channel];
    }
    float weight = 0.f;
#pragma unroll
    for (int c = 0; c < 8; ++c) weight = fmaf(shared_.weight_l1_of[channel][c], sqrtf(own_.power[c]), weight);
    const int count = run.rows * problem_.out_width;
    const double scale = shared_.weight_scale[channel], mean = sum / count;
    const int slot = int(blockIdx.x) - problem_.first_block(run.sample);
    Partial& partial = problem_.partials[(int64_t(run.sample) * problem_.slots + slot) * MAX_CHANNELS + channel];
    partial.mean = mean * scale;
    partial.squares = (squares - sum * mean) * scale * scale;
    partial.weight = weight * weight * float(scale) * float(scale);
    // No pixel's convolution is larger than the product of its inputs' norm and the filter's.
    partial.high = sqrtf(3.f * peak_) * shared_.weight_l2[channel] * 1.0001f;
    partial.low = -partial.high;
    partial.count = float(count);
  }

  const Problem& problem_;
  Shared<CONSUMERS>& shared_;
  CorrelationShared& own_;
  int thread_, warp_, lane_;
  float peak_ = 0.f;
};

}  // namespace kbench::conv_logsumexp
