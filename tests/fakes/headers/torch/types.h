// What the candidates that tests build on a CPU need of torch's header, which takes half a minute to read.
#pragma once
#define AT_PER_OPERATOR_HEADERS
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace torch {
using namespace at;
constexpr auto kFloat32 = at::kFloat;
}  // namespace torch
