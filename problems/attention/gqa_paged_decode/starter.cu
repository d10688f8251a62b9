//!POPCORN leaderboard gqa_paged_decode
// Paged GQA decode in CUDA C++, in bfloat16, by flash decoding: each sequence is split over several blocks of threads, and a second
// kernel merges what they found. One file exports `custom_kernel` through TVM-FFI: the inputs in order, then the outputs, all on the GPU.
//
// Half a warp reads one key and one value: 16 lanes with 8 channels each, 16 bytes a load. It keeps the running maximum, sum and output
// of the online softmax, in base 2, for the 4 query heads that share the key. At the end the half warps of a block merge through shared
// memory. Where to go from here: tensor cores for the products, and asynchronous copies that fetch pages further ahead.

#include <cuda_bf16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cmath>

namespace {

using bf16 = __nv_bfloat16;

constexpr int kD = 128, kHeads = 32, kKvHeads = 8, kGroup = kHeads / kKvHeads;
constexpr int kThreads = 256, kTeams = kThreads / 16;      // a team is half a warp
constexpr int kLane = 8;                                   // channels of a lane
constexpr int kAtOnce = 4;                                 // tokens that a team loads before it uses them
constexpr int kBlocks = 2048, kMostSplits = 64;            // more blocks than run at once, so that lengths even out

struct Softmax {                                           // one query head, this lane's channels
  float top, total, mixed[kLane];

  __device__ void clear() {
    top = -INFINITY;
    total = 0.f;
    for (int c = 0; c < kLane; ++c) mixed[c] = 0.f;
  }

  __device__ void add(const Softmax& other) {
    const float new_top = fmaxf(top, other.top);
    if (new_top == -INFINITY) return;                      // neither has seen a token
    const float mine = exp2f(top - new_top), theirs = exp2f(other.top - new_top);
    top = new_top;
    total = total * mine + other.total * theirs;
    for (int c = 0; c < kLane; ++c) mixed[c] = mixed[c] * mine + other.mixed[c] * theirs;
  }
};

__device__ void unpack(const uint4& packed, float (&into)[kLane]) {
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&packed);
  for (int i = 0; i < kLane / 2; ++i) {
    const float2 pair = __bfloat1622float2(pairs[i]);
    into[2 * i] = pair.x;
    into[2 * i + 1] = pair.y;
  }
}

// The partial results of one share of one sequence's tokens, for one key-value head: [row][split][kD] and their log-sum-exps [row][split].
__global__ void __launch_bounds__(kThreads) decode(const bf16* __restrict__ q, const bf16* __restrict__ kv_pool,
                                                   const int* __restrict__ block_table, const int* __restrict__ seq_lens,
                                                   float* __restrict__ parts, float* __restrict__ part_lse, float scale_log2, int max_pages,
                                                   int page, int splits) {
  const int split = blockIdx.x, kv_head = blockIdx.y, sequence = blockIdx.z;
  const int team = threadIdx.x / 16, lane = threadIdx.x % 16;
  const int length = seq_lens[sequence], share = (length + splits - 1) / splits;
  const int begin = split * share, end = min(length, begin + share);
  const int row = sequence * kHeads + kv_head * kGroup;

  float queries[kGroup][kLane];
  for (int h = 0; h < kGroup; ++h) unpack(*reinterpret_cast<const uint4*>(q + int64_t(row + h) * kD + lane * kLane), queries[h]);

  Softmax state[kGroup];
  for (int h = 0; h < kGroup; ++h) state[h].clear();
  for (int first = begin + team; first < end; first += kTeams * kAtOnce) {
    uint4 keys[kAtOnce], values[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int token = min(first + i * kTeams, end - 1);                   // never behind the end: what lies there may be NaN
      const int64_t number = block_table[int64_t(sequence) * max_pages + token / page];      // 64 bits: a real pool is large
      const bf16* at = kv_pool + ((number * 2 * kKvHeads + kv_head) * page + token % page) * kD + lane * kLane;
      keys[i] = __ldcs(reinterpret_cast<const uint4*>(at));
      values[i] = __ldcs(reinterpret_cast<const uint4*>(at + int64_t(kKvHeads) * page * kD));
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const bool there = first + i * kTeams < end;
      float key[kLane], value[kLane];
      unpack(keys[i], key);
      unpack(values[i], value);
#pragma unroll
      for (int h = 0; h < kGroup; ++h) {
        float logit = 0.f;
        for (int c = 0; c < kLane; ++c) logit += queries[h][c] * key[c];
        const unsigned half = 0xffffu << (threadIdx.x & 16);                // the two teams of a warp may be at different tokens
        for (int step = 8; step; step /= 2) logit += __shfl_xor_sync(half, logit, step);
        if (!there) continue;
        logit *= scale_log2;
        const float new_top = fmaxf(state[h].top, logit), rescale = exp2f(state[h].top - new_top), weight = exp2f(logit - new_top);
        state[h].top = new_top;
        state[h].total = state[h].total * rescale + weight;
        for (int c = 0; c < kLane; ++c) state[h].mixed[c] = state[h].mixed[c] * rescale + weight * value[c];
      }
    }
  }

  // Half of the teams that are left hand over to the other half, until one is left.
  __shared__ Softmax handed[kTeams / 2][16];
#pragma unroll
  for (int h = 0; h < kGroup; ++h) {
    for (int left = kTeams / 2; left; left /= 2) {
      __syncthreads();
      if (team >= left && team < 2 * left) handed[team - left][lane] = state[h];
      __syncthreads();
      if (team < left) state[h].add(handed[team][lane]);
    }
    if (team) continue;
    const int64_t part = int64_t(row + h) * splits + split;
    const float scale = state[h].total > 0.f ? 1.f / state[h].total : 0.f;
    for (int c = 0; c < kLane; ++c) parts[part * kD + lane * kLane + c] = state[h].mixed[c] * scale;
    if (lane == 0) part_lse[part] = state[h].top + log2f(state[h].total);   // a share without tokens: -inf
  }
}

// One block for a row, one thread for a channel.
__global__ void __launch_bounds__(kD) merge(const float* __restrict__ parts, const float* __restrict__ part_lse, bf16* __restrict__ output,
                                            float* __restrict__ lse, int splits) {
  const int64_t row = blockIdx.x;
  float top = -INFINITY, total = 0.f, mixed = 0.f;
  for (int split = 0; split < splits; ++split) top = fmaxf(top, part_lse[row * splits + split]);
  if (top > -INFINITY) {
    for (int split = 0; split < splits; ++split) {
      const float weight = exp2f(part_lse[row * splits + split] - top);
      total += weight;
      mixed += weight * parts[(row * splits + split) * kD + threadIdx.x];
    }
    mixed /= total;
  }
  output[row * kD + threadIdx.x] = __float2bfloat16(mixed);                 // a sequence without tokens: output 0, lse -inf
  if (threadIdx.x == 0) lse[row] = top + log2f(total);
}

// Memory for partial results. It is kept, and older ones stay where they are: a graph captured earlier may still use them.
float* workspace(size_t floats) {
  static float* memory = nullptr;
  static size_t size = 0;
  if (floats > size) {
    TVM_FFI_ICHECK(cudaMalloc(&memory, floats * sizeof(float)) == cudaSuccess) << "no memory for partial results";
    size = floats;
  }
  return memory;
}

}  // namespace

void custom_kernel(tvm::ffi::TensorView q, tvm::ffi::TensorView kv_pool, tvm::ffi::TensorView block_table, tvm::ffi::TensorView seq_lens,
                   double sm_scale, tvm::ffi::TensorView output, tvm::ffi::TensorView lse) {
  TVM_FFI_ICHECK(q.dtype().code == kDLBfloat && q.size(1) == kHeads && q.size(2) == kD && kv_pool.size(2) == kKvHeads)
      << "this kernel is for bfloat16, 32 query heads over 8 key-value heads and 128 channels";
  const int batch = static_cast<int>(q.size(0));
  int splits = 1;
  while (splits < kMostSplits && splits * batch * kKvHeads < kBlocks) splits *= 2;
  float* parts = workspace(size_t(batch) * kHeads * splits * (kD + 1));
  float* part_lse = parts + size_t(batch) * kHeads * splits * kD;
  // Work goes to the stream that the judge watches. Work on another stream is not waited for, so its result would come too late.
  const DLDevice device = output.device();
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  decode<<<dim3(splits, kKvHeads, batch), kThreads, 0, stream>>>(
      static_cast<const bf16*>(q.data_ptr()), static_cast<const bf16*>(kv_pool.data_ptr()), static_cast<const int*>(block_table.data_ptr()),
      static_cast<const int*>(seq_lens.data_ptr()), parts, part_lse, static_cast<float>(sm_scale * 1.4426950408889634),
      static_cast<int>(block_table.size(1)), static_cast<int>(kv_pool.size(3)), splits);
  merge<<<batch * kHeads, kD, 0, stream>>>(parts, part_lse, static_cast<bf16*>(output.data_ptr()), static_cast<float*>(lse.data_ptr()), splits);
  TVM_FFI_ICHECK(cudaGetLastError() == cudaSuccess) << "a kernel did not launch";
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(custom_kernel, custom_kernel);
