// What kernels use of PyTorch, for the CUDA compiler: it needs half a minute for the whole of <torch/types.h>, and a few seconds for this.
// A source that needs more is compiled with PyTorch's own headers instead.
#pragma once
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/full_ops.h>
#include <ATen/ops/ones_ops.h>
#include <ATen/ops/zeros_like_ops.h>
#include <ATen/ops/zeros_ops.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>

namespace at {

// As PyTorch's own wrappers in ATen/ops/*.h, whose other includes take longer to compile than all the rest.
#define DERBY_OPTIONS(options) \
  c10::optTypeMetaToScalarType((options).dtype_opt()), (options).layout_opt(), (options).device_opt(), (options).pinned_memory_opt()

inline Tensor empty(IntArrayRef size, TensorOptions options = {}, std::optional<MemoryFormat> format = std::nullopt) {
  return _ops::empty_memory_format::call(c10::fromIntArrayRefSlow(size), DERBY_OPTIONS(options),
                                         c10::impl::check_tensor_options_and_extract_memory_format(options, format));
}
inline Tensor zeros(IntArrayRef size, TensorOptions options = {}) {
  return _ops::zeros::call(c10::fromIntArrayRefSlow(size), DERBY_OPTIONS(options));
}
inline Tensor ones(IntArrayRef size, TensorOptions options = {}) {
  return _ops::ones::call(c10::fromIntArrayRefSlow(size), DERBY_OPTIONS(options));
}
inline Tensor full(IntArrayRef size, const Scalar& value, TensorOptions options = {}) {
  return _ops::full::call(c10::fromIntArrayRefSlow(size), value, DERBY_OPTIONS(options));
}
inline Tensor empty_like(const Tensor& self, TensorOptions options = {}, std::optional<MemoryFormat> format = std::nullopt) {
  return _ops::empty_like::call(self, DERBY_OPTIONS(options), c10::impl::check_tensor_options_and_extract_memory_format(options, format));
}
inline Tensor zeros_like(const Tensor& self, TensorOptions options = {}, std::optional<MemoryFormat> format = std::nullopt) {
  return _ops::zeros_like::call(self, DERBY_OPTIONS(options), c10::impl::check_tensor_options_and_extract_memory_format(options, format));
}

#undef DERBY_OPTIONS

}  // namespace at

namespace torch {
using namespace at;  // NOLINT
using c10::IntArrayRef;
using std::nullopt;

constexpr auto kUInt8 = at::kByte;
constexpr auto kInt8 = at::kChar;
constexpr auto kInt16 = at::kShort;
constexpr auto kInt32 = at::kInt;
constexpr auto kInt64 = at::kLong;
constexpr auto kFloat16 = at::kHalf;
constexpr auto kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;
}  // namespace torch
