"""An extension by load_inline, the smallest that does the work."""

from torch.utils.cpp_extension import load_inline

CUDA = """
#include <cuda_fp16.h>
template <typename T>
__global__ void add(const T* a, const T* b, T* c, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x)
    c[i] = T(float(a[i]) + float(b[i]));
}

torch::Tensor add_cuda(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.is_cuda(), "on the GPU, please");
  auto c = torch::empty_like(a);
  int64_t n = a.numel();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, a.scalar_type(), "add", [&] {
    add<scalar_t><<<4096, 256>>>(a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), c.data_ptr<scalar_t>(), n);
  });
  return c;
}
"""
CPP = "torch::Tensor add_cuda(torch::Tensor a, torch::Tensor b);"
module = load_inline(name="hello", cpp_sources=[CPP], cuda_sources=[CUDA], functions=["add_cuda"])

def custom_kernel(data):
    return module.add_cuda(data.a, data.b)
