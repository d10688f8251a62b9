// device: gpu
//!POPCORN leaderboard prefill_causal
// Causal prefill in CUDA C++, in bfloat16, by flash attention on tensor cores. One file exports `custom_kernel` through TVM-FFI: the inputs
// in order, then the outputs, all on the GPU.
//
// A block serves 128 queries of one head, each of its 8 warps 16 of them. It walks over the keys in tiles of 64, which are copied to shared
// memory while the tile before is in use. A warp keeps its queries and its running maximum, sum and output of the online softmax, in
// base 2, in registers: what `mma` leaves as the logits of a tile has the very layout that it takes as weights for the second product.
// Where to go from here: `wgmma` and TMA, which Hopper needs to reach its peak, and warps that only copy.

#include <cuda_bf16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>

namespace {

using bf16 = __nv_bfloat16;

constexpr int kD = 128, kWarps = 8, kRows = 16 * kWarps, kKeys = 64, kThreads = 32 * kWarps;
constexpr int kStride = kD + 8;                              // of a row in shared memory: 8 rows at one column lie in different banks
constexpr int kTile = kKeys * kStride;                       // keys or values of a tile
constexpr int kSharedBytes = 2 * 2 * kTile * sizeof(bf16);   // keys and values, of this tile and of the next

struct Shape {
  int q_len, kv_len, q_heads, kv_heads;
};

__device__ uint32_t shared_address(const void* at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); }

// Copies 16 bytes to shared memory without waiting; zeros where there is nothing to copy.
__device__ void copy_async(bf16* to, const bf16* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0));
}

// Four matrices of 8 by 8; lanes 8 i to 8 i + 7 name the rows of matrix i.
__device__ void load_matrices(uint32_t (&into)[4], const bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3]) : "r"(shared_address(row)) : "memory");
}

__device__ void load_transposed(uint32_t (&into)[4], const bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3]) : "r"(shared_address(row)) : "memory");
}

// c += a · b: 16 by 16 times 16 by 8, accumulated in float32. Of c, this lane holds two neighbours in row lane / 4, and two in the row 8 below.
__device__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ uint32_t packed(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ void copy_tile(bf16* tile, const bf16* from, int start, int kv_len, int64_t stride) {
  for (int i = threadIdx.x; i < kKeys * kD / 8; i += kThreads) {
    const int key = i / (kD / 8), channel = i % (kD / 8) * 8;
    const bool there = start + key < kv_len;                               // behind the end anything may lie
    copy_async(tile + key * kStride + channel, from + (there ? start + key : 0) * stride + channel, there);
  }
}

__global__ void __launch_bounds__(kThreads) prefill(const bf16* __restrict__ q, const bf16* __restrict__ k, const bf16* __restrict__ v,
                                                    bf16* __restrict__ output, float* __restrict__ lse, float scale_log2, Shape shape) {
  extern __shared__ __align__(16) bf16 shared[];
  const int q_len = shape.q_len, kv_len = shape.kv_len, q_heads = shape.q_heads, kv_heads = shape.kv_heads;
  const int block = gridDim.x - 1 - blockIdx.x, head = blockIdx.y, sequence = blockIdx.z;      // the longest blocks start first
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pair = lane % 4 * 2;
  const int first = block * kRows + warp * 16, offset = kv_len - q_len;    // query i is token i + offset
  const int query[2] = {first + lane / 4, first + lane / 4 + 8};
  const int64_t stride = int64_t(kv_heads) * kD;
  const int64_t at = (int64_t(sequence) * kv_len * kv_heads + head / (q_heads / kv_heads)) * kD;
  const auto row = [&](int i) { return (int64_t(sequence) * q_len + i) * q_heads + head; };

  uint32_t queries[kD / 16][4];
  for (int i = 0; i < 4; ++i) {                                            // rows lane / 4 and 8 below, then 8 channels further
    const bool there = query[i % 2] < q_len;
    const bf16* from = q + row(there ? query[i % 2] : 0) * kD + i / 2 * 8 + pair;
#pragma unroll
    for (int d = 0; d < kD / 16; ++d) queries[d][i] = there ? *reinterpret_cast<const uint32_t*>(from + d * 16) : 0;
  }

  float mixed[kD / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, total[2] = {};
  const int end = min(kv_len, min(q_len, (block + 1) * kRows) + offset);   // no query of the block sees a key from here on
  copy_tile(shared, k + at, 0, kv_len, stride);
  copy_tile(shared + kTile, v + at, 0, kv_len, stride);
  asm volatile("cp.async.commit_group;");
  for (int start = 0, buffer = 0; start < end; start += kKeys, buffer ^= 1) {
    bf16* next = shared + (buffer ^ 1) * 2 * kTile;
    if (start + kKeys < end) {
      copy_tile(next, k + at, start + kKeys, kv_len, stride);
      copy_tile(next + kTile, v + at, start + kKeys, kv_len, stride);
    }
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;" ::: "memory");                   // all but the newest group: this tile is there
    __syncthreads();
    const bf16 *keys = shared + buffer * 2 * kTile, *values = keys + kTile;

    float logits[kKeys / 8][4] = {};
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int d = 0; d < kD / 32; ++d) {
        uint32_t b[4];                                                     // 8 keys, 32 channels
        load_matrices(b, keys + (n * 8 + lane % 8) * kStride + d * 32 + lane / 8 * 8);
        multiply(logits[n], queries[2 * d], b[0], b[1]);
        multiply(logits[n], queries[2 * d + 1], b[2], b[3]);
      }
    }

    const bool is_masked = start + kKeys - 1 > first + offset;             // some query of the warp does not see some key of the tile
#pragma unroll
    for (int half = 0; half < 2; ++half) {                                 // row lane / 4, then the one 8 below
      float new_top = top[half];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        for (int i = 0; i < 2; ++i) {
          float& logit = logits[n][2 * half + i];
          logit *= scale_log2;                                             // in float32
          if (is_masked && start + n * 8 + pair + i > query[half] + offset) logit = -INFINITY;
          new_top = fmaxf(new_top, logit);
        }
      }
      new_top = fmaxf(new_top, __shfl_xor_sync(0xffffffffu, new_top, 1));  // four lanes share a row
      new_top = fmaxf(new_top, __shfl_xor_sync(0xffffffffu, new_top, 2));
      const float safe = new_top == -INFINITY ? 0.f : new_top;             // a query that has seen nothing yet
      const float rescale = exp2f(top[half] - safe);
      top[half] = new_top;
      total[half] *= rescale;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        for (int i = 0; i < 2; ++i) {
          float& weight = logits[n][2 * half + i];
          weight = exp2f(weight - safe);
          total[half] += weight;
        }
      }
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        mixed[n][2 * half] *= rescale;
        mixed[n][2 * half + 1] *= rescale;
      }
    }

#pragma unroll
    for (int t = 0; t < kKeys / 16; ++t) {
      const uint32_t weights[4] = {packed(logits[2 * t][0], logits[2 * t][1]), packed(logits[2 * t][2], logits[2 * t][3]),
                                   packed(logits[2 * t + 1][0], logits[2 * t + 1][1]), packed(logits[2 * t + 1][2], logits[2 * t + 1][3])};
#pragma unroll
      for (int n = 0; n < kD / 16; ++n) {
        uint32_t b[4];                                                     // 16 keys, 16 channels
        load_transposed(b, values + (t * 16 + lane % 16) * kStride + n * 16 + lane / 16 * 8);
        multiply(mixed[2 * n], weights, b[0], b[1]);
        multiply(mixed[2 * n + 1], weights, b[2], b[3]);
      }
    }
    __syncthreads();                                                       // before this tile's memory takes the one after the next
  }
  asm volatile("cp.async.wait_all;" ::: "memory");

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = total[half];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (query[half] >= q_len) continue;
    const float scale = sum > 0.f ? 1.f / sum : 0.f;                       // a query that sees nothing: output 0, lse -inf
    bf16* to = output + row(query[half]) * kD + pair;
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
      *reinterpret_cast<uint32_t*>(to + n * 8) = packed(mixed[n][2 * half] * scale, mixed[n][2 * half + 1] * scale);
    }
    if (lane % 4 == 0) lse[row(query[half])] = top[half] + log2f(sum);
  }
}

}  // namespace

void custom_kernel(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, double sm_scale, tvm::ffi::TensorView output,
                   tvm::ffi::TensorView lse) {
  TVM_FFI_ICHECK(q.dtype().code == kDLBfloat && q.size(3) == kD) << "this kernel is for bfloat16 and 128 channels";
  const Shape shape{static_cast<int>(q.size(1)), static_cast<int>(k.size(1)), static_cast<int>(q.size(2)), static_cast<int>(k.size(2))};
  // Work goes to the stream that the judge watches. Work on another stream is not waited for, so its result would come too late.
  const DLDevice device = output.device();
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  cudaFuncSetAttribute(prefill, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);      // more than the 48 KiB that need no asking
  const dim3 grid((shape.q_len + kRows - 1) / kRows, shape.q_heads, static_cast<unsigned>(q.size(0)));
  prefill<<<grid, kThreads, kSharedBytes, stream>>>(
      static_cast<const bf16*>(q.data_ptr()), static_cast<const bf16*>(k.data_ptr()), static_cast<const bf16*>(v.data_ptr()),
      static_cast<bf16*>(output.data_ptr()), static_cast<float*>(lse.data_ptr()), static_cast<float>(sm_scale * 1.4426950408889634), shape);
  TVM_FFI_ICHECK(cudaGetLastError() == cudaSuccess) << "the kernel did not launch";
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(custom_kernel, custom_kernel);
