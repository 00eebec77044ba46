// Direct convolution (stride 1, no padding) with bias, in fp32 FMA.
//
// A block computes 64 output channels of an 8 x 32 tile of pixels; a warp 8 of the channels, a thread 8 channels x 8 pixels of
// one row, in registers. Weights are read from shared memory by broadcast, a row of input once for all of a filter row's
// taps: 192 FMAs for 9 16-byte reads with a 3-wide filter, so that the FMA units are the limit.
#include "launch.cuh"
#include "reduce.cuh"

#include <cuda_pipeline.h>

namespace {

constexpr int TILE_ROWS = 8;
constexpr int TILE_COLUMNS = 32;
constexpr int TILE_CHANNELS = 64;
constexpr int THREAD_CHANNELS = 8;
constexpr int THREAD_PIXELS = 8;
constexpr int WARPS = TILE_CHANNELS / THREAD_CHANNELS;
constexpr int THREADS = WARPS * kbench::WARP_THREADS;
static_assert(TILE_ROWS * TILE_COLUMNS == kbench::WARP_THREADS * THREAD_PIXELS, "a warp covers the tile");

// Filter taps in shared memory are rows of 64 channels, padded by 16 bytes: the transposing stores hit 8 banks, not one.
constexpr int WEIGHT_PITCH = TILE_CHANNELS + 4;
// What a block may have without asking: enough for two resident blocks, whose loading and computing overlap.
constexpr int SHARED_BYTES = 48 * 1024;

struct Convolution {
  int in_channels, height, width;
  int out_channels, kernel_height, kernel_width;
  int row_tiles = 0, column_tiles = 0;
  int input_pitch = 0;     // floats per row of input: 4 mod 32, so that a warp's 8 rows start in different banks
  int chunk_channels = 0;  // input channels in shared memory at a time

  __host__ __device__ int out_height() const { return height - kernel_height + 1; }
  __host__ __device__ int out_width() const { return width - kernel_width + 1; }
  __host__ __device__ int window() const { return kernel_height * kernel_width; }
  __host__ __device__ int input_rows() const { return TILE_ROWS + kernel_height - 1; }
  __host__ __device__ int channel_floats() const { return window() * WEIGHT_PITCH + input_rows() * input_pitch; }
};

struct TilePosition {
  int64_t sample;
  int row, column, channel;
};

// Both tiles are filled by asynchronous copies (cp.async): no load waits for the one before it, so the block pays the latency
// of memory once. Absent values become zeros.
__device__ __forceinline__ void copy_or_zero(float* shared, const float* source, bool inside) {
  __pipeline_memcpy_async(shared, source, sizeof(float), inside ? 0 : sizeof(float));
}

__device__ __forceinline__ void load_input(const float* __restrict__ x, float* shared, const Convolution& conv,
                                           const TilePosition& at, int first_channel, int channels) {
  const int rows = conv.input_rows();
  for (int line = threadIdx.x / 32; line < channels * rows; line += WARPS) {
    const int channel = line / rows, row = at.row + line - channel * rows;
    const float* source = x + ((at.sample * conv.in_channels + first_channel + channel) * conv.height + row) * conv.width;
    for (int column = threadIdx.x % 32; column < conv.input_pitch; column += 32) {
      const bool inside = row < conv.height && at.column + column < conv.width;
      copy_or_zero(shared + line * conv.input_pitch + column, inside ? source + at.column + column : x, inside);
    }
  }
}

__device__ __forceinline__ void load_weights(const float* __restrict__ weight, float* shared, const Convolution& conv,
                                             const TilePosition& at, int first_channel, int channels) {
  const int taps = channels * conv.window();
  for (int c = threadIdx.x / 32; c < TILE_CHANNELS; c += WARPS) {
    const bool inside = at.channel + c < conv.out_channels;
    const float* filter =
        weight + (inside ? (int64_t(at.channel + c) * conv.in_channels + first_channel) * conv.window() : 0);
    for (int tap = threadIdx.x % 32; tap < taps; tap += 32) {
      copy_or_zero(shared + tap * WEIGHT_PITCH + c, filter + tap, inside);
    }
  }
}

struct Sums {
  float values[THREAD_CHANNELS][THREAD_PIXELS] = {};

  __device__ __forceinline__ void add(const float* weights, const float (&pixels)[THREAD_PIXELS]) {
    const float4 low = *reinterpret_cast<const float4*>(weights), high = *reinterpret_cast<const float4*>(weights + 4);
    const float factors[THREAD_CHANNELS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int c = 0; c < THREAD_CHANNELS; ++c) {
#pragma unroll
      for (int p = 0; p < THREAD_PIXELS; ++p) values[c][p] = fmaf(factors[c], pixels[p], values[c][p]);
    }
  }
};

// One row of taps. KERNEL_WIDTH > 0: the row of input comes into registers once, by 16-byte reads, and slides.
template <int KERNEL_WIDTH>
__device__ __forceinline__ void add_filter_row(Sums& sums, const float* weights, const float* input, int kernel_width) {
  if constexpr (KERNEL_WIDTH > 0) {
    constexpr int VECTORS = (THREAD_PIXELS + KERNEL_WIDTH - 1 + 3) / 4;
    float row[VECTORS * 4];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      const float4 vector = reinterpret_cast<const float4*>(input)[i];
      row[4 * i] = vector.x;
      row[4 * i + 1] = vector.y;
      row[4 * i + 2] = vector.z;
      row[4 * i + 3] = vector.w;
    }
#pragma unroll
    for (int tap = 0; tap < KERNEL_WIDTH; ++tap) {
      float pixels[THREAD_PIXELS];
#pragma unroll
      for (int p = 0; p < THREAD_PIXELS; ++p) pixels[p] = row[tap + p];
      sums.add(weights + tap * WEIGHT_PITCH, pixels);
    }
  } else {
    for (int tap = 0; tap < kernel_width; ++tap) {
      float pixels[THREAD_PIXELS];
#pragma unroll
      for (int p = 0; p < THREAD_PIXELS; ++p) pixels[p] = input[tap + p];
      sums.add(weights + tap * WEIGHT_PITCH, pixels);
    }
  }
}

// Through shared memory, a channel at a time, so that a warp stores whole rows of 32 neighbouring pixels.
__device__ __forceinline__ void store_sums(const Sums& sums, const float* __restrict__ bias, float* __restrict__ out,
                                           float* staging, const Convolution& conv, const TilePosition& at,
                                           int first_channel) {
  const int lane = threadIdx.x % 32, thread_row = lane / 4, thread_column = lane % 4 * THREAD_PIXELS;
  constexpr int PITCH = TILE_COLUMNS + 4;
#pragma unroll
  for (int c = 0; c < THREAD_CHANNELS; ++c) {
    const int channel = first_channel + c;
    if (channel >= conv.out_channels) return;
    const float added = __ldg(bias + channel);
    __syncwarp();
    float4* target = reinterpret_cast<float4*>(staging + thread_row * PITCH + thread_column);
    const float* v = sums.values[c];
    target[0] = make_float4(v[0] + added, v[1] + added, v[2] + added, v[3] + added);
    target[1] = make_float4(v[4] + added, v[5] + added, v[6] + added, v[7] + added);
    __syncwarp();
    float* plane = out + (at.sample * conv.out_channels + channel) * conv.out_height() * conv.out_width();
    const int column = at.column + lane;
#pragma unroll
    for (int row = 0; row < TILE_ROWS; ++row) {
      if (at.row + row < conv.out_height() && column < conv.out_width()) {
        plane[int64_t(at.row + row) * conv.out_width() + column] = staging[row * PITCH + lane];
      }
    }
  }
}

// Grid: (column tiles x row tiles x samples) x channel tiles.
template <int KERNEL_WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
    direct_conv_kernel(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                       float* __restrict__ out, Convolution conv) {
  extern __shared__ __align__(16) float shared[];
  const int tiles = conv.row_tiles * conv.column_tiles, tile = blockIdx.x % tiles;
  const TilePosition at{blockIdx.x / tiles, tile / conv.column_tiles * TILE_ROWS, tile % conv.column_tiles * TILE_COLUMNS,
                        int(blockIdx.y) * TILE_CHANNELS};
  float* weights = shared;
  float* input = shared + conv.chunk_channels * conv.window() * WEIGHT_PITCH;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float* thread_input = input + lane / 4 * conv.input_pitch + lane % 4 * THREAD_PIXELS;
  const float* warp_weights = weights + warp * THREAD_CHANNELS;
  Sums sums;
  for (int first = 0; first < conv.in_channels; first += conv.chunk_channels) {
    const int channels = min(conv.chunk_channels, conv.in_channels - first);
    load_input(x, input, conv, at, first, channels);
    load_weights(weight, weights, conv, at, first, channels);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int channel = 0; channel < channels; ++channel) {
      for (int row = 0; row < conv.kernel_height; ++row) {
        add_filter_row<KERNEL_WIDTH>(sums, warp_weights + (channel * conv.kernel_height + row) * conv.kernel_width * WEIGHT_PITCH,
                                     thread_input + (channel * conv.input_rows() + row) * conv.input_pitch,
                                     conv.kernel_width);
      }
    }
    __syncthreads();
  }
  store_sums(sums, bias, out, shared + warp * TILE_ROWS * (TILE_COLUMNS + 4), conv, at, at.channel + warp * THREAD_CHANNELS);
}

}  // namespace

// cudaErrorInvalidValue for filters whose taps of one input channel do not fit in shared memory (about 128 taps).
extern "C" int kbench_direct_conv(const float* x, const float* weight, const float* bias, float* out, int64_t batch,
                                  int64_t in_channels, int64_t height, int64_t width, int64_t out_channels,
                                  int64_t kernel_height, int64_t kernel_width, void* stream) {
  constexpr int64_t LIMIT = (int64_t(1) << 31) - 1024;  // a plane is indexed by 32 bits
  const bool fits = kernel_height >= 1 && kernel_width >= 1 && kernel_height <= height && kernel_width <= width;
  if (!fits || height * width >= LIMIT || in_channels >= LIMIT || out_channels >= LIMIT) return int(cudaErrorInvalidValue);
  Convolution conv{int(in_channels),  int(height),        int(width),
                   int(out_channels), int(kernel_height), int(kernel_width)};
  conv.row_tiles = kbench::ceil_div(conv.out_height(), TILE_ROWS);
  conv.column_tiles = kbench::ceil_div(conv.out_width(), TILE_COLUMNS);
  conv.input_pitch = kbench::ceil_div(TILE_COLUMNS + conv.kernel_width - 1 - 4, 32) * 32 + 4;
  const int64_t channel_bytes = int64_t(conv.channel_floats()) * sizeof(float);
  const int64_t blocks = int64_t(conv.row_tiles) * conv.column_tiles * batch;
  const int64_t channel_tiles = kbench::ceil_div(out_channels, int64_t(TILE_CHANNELS));
  if (channel_bytes > SHARED_BYTES || blocks > kbench::MAX_GRID_X || channel_tiles > kbench::MAX_GRID_YZ) {
    return int(cudaErrorInvalidValue);
  }
  if (batch == 0) return int(cudaSuccess);
  conv.chunk_channels = int(SHARED_BYTES / channel_bytes < in_channels ? SHARED_BYTES / channel_bytes : in_channels);
  // The results are staged in the same memory: one channel of the tile per warp.
  constexpr int64_t STAGING_BYTES = int64_t(WARPS) * TILE_ROWS * (TILE_COLUMNS + 4) * sizeof(float);
  static_assert(STAGING_BYTES <= SHARED_BYTES, "staging fits");
  const int64_t operand_bytes = conv.chunk_channels * channel_bytes;
  const size_t shared_bytes = size_t(operand_bytes > STAGING_BYTES ? operand_bytes : STAGING_BYTES);
  const auto kernel = kernel_width == 1   ? direct_conv_kernel<1>
                      : kernel_width == 3 ? direct_conv_kernel<3>
                      : kernel_width == 5 ? direct_conv_kernel<5>
                                          : direct_conv_kernel<0>;
  const dim3 grid{unsigned(blocks), unsigned(channel_tiles)};
  kernel<<<grid, THREADS, shared_bytes, static_cast<cudaStream_t>(stream)>>>(x, weight, bias, out, conv);
  return kbench::launch_status();
}
