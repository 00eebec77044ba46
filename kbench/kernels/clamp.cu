// y = x held between two bounds; NaN passes, and the upper bound wins where they cross, as torch has it.
#include "plane_map.cuh"

namespace {

struct Bounds {
  float low, high;

  // Comparisons, not fminf and fmaxf: those would turn NaN into a bound.
  __device__ __forceinline__ float operator()(float value) const {
    const float raised = value < low ? low : value;
    return raised > high ? high : raised;
  }
};

struct SameBounds {
  Bounds bounds;

  __device__ __forceinline__ Bounds operator()(int64_t) const { return bounds; }
};

}  // namespace

extern "C" int kbench_clamp(const float* x, float* y, int64_t count, float low, float high, void* stream) {
  // Cut into planes of a whole number of vectors so that an odd count costs 16-byte accesses only in its tail.
  const int64_t whole = count - count % kbench::VECTOR_FLOATS;
  const SameBounds map{{low, high}};
  const auto on_stream = static_cast<cudaStream_t>(stream);
  const int status = kbench::map_planes(x, y, 1, whole, map, on_stream);
  return status != 0 ? status : kbench::map_planes(x + whole, y + whole, 1, count - whole, map, on_stream);
}
