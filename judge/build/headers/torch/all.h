// The same few parts: what kernels use of PyTorch.
#pragma once
#include <torch/types.h>
