// What generated bindings use of PyTorch: tensors, and how Python passes them. PyTorch's own header is taken where this is too little.
#pragma once
#ifndef __CUDACC__
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#endif
#include <torch/types.h>
