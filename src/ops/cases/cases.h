// One entry per op for all of its tests: values, gradients, kernels and refusals. The lists are in the files of the
// op's family; cases.cc joins them.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/backend/device.h"
#include "src/graph/node.h"

namespace gabbro::cases {

using Inputs = std::vector<Tensor>;

// The device that GABBRO_DEVICE chooses.
const std::shared_ptr<Device>& device();
Tensor ints(const Shape& shape, const std::vector<int32_t>& values);  // i32

// An input in f32: numbers between `low` and `high`, all different and equally far from each other.
struct Input {
  Shape shape;
  double low = -2, high = 2;
};

struct GradientCase {
  std::string name;
  const Op* op;  // which the call records
  std::vector<Input> inputs;
  std::function<std::vector<Tensor>(const Inputs& x)> call;
};

// Numbers in f32, for values that are written down.
struct Literal {
  Shape shape;
  std::vector<double> numbers;
};

struct ValueCase {
  std::vector<Literal> inputs;
  Literal expected;
  double ulps = 8;  // the largest error, in units of 2^-24 of the largest number that is expected
  nlohmann::json attributes = nlohmann::json::object();
};

struct Refusal {
  std::function<void()> call;  // with tensors of refused_input(), which compute nothing
  std::string message;
};

struct Entry {
  std::string name;  // in tests/data/ops and in the names of tests
  std::function<Tensor(const Inputs& x, const nlohmann::json& attributes)> call = nullptr;
  std::vector<ValueCase> values = {};  // of ops that no script of tests/reference/ has
  std::vector<GradientCase> gradients = {};
  std::vector<Refusal> refusals = {};
  std::vector<std::pair<const Op*, const char*>> without_gradient = {};  // ops that have none, and why
};

// An elementwise function of one tensor, and its formula in double precision.
struct Unary {
  // How near kernels come between `low` and `high`: `ulps` of the larger of the result and `floor`.
  struct Accuracy {
    float low, high;
    double ulps, floor = 0;
  };

  const char* name;
  const Op* op;  // which the call records
  Tensor (*call)(const Tensor& x);
  double (*reference)(double x) = nullptr;
  double low = -2, high = 2;                      // of inputs whose values and gradients are tested
  double ulps = 8;                                // as in ValueCase
  const char* no_gradient = nullptr;              // why it has none
  std::optional<Accuracy> kernel = std::nullopt;  // nothing: not every backend has a kernel
  const char* refusal = nullptr;                  // of refused_input(DType::boolean)
};

struct Binary {
  const char* name;
  const Op* op;
  Tensor (*call)(const Tensor& a, const Tensor& b);
  double (*reference)(double a, double b) = nullptr;
  double low_a = -2, high_a = 2, low_b = -2, high_b = 2;
  const char* no_gradient = nullptr;          // why it has none
  std::optional<double> ulps = std::nullopt;  // of kernels, of the result; nothing: as for Unary
};

const std::vector<Unary>& unary_functions();
const std::vector<Binary>& binary_functions();

const std::vector<Entry>& entries();
const Entry& entry(const std::string& name);  // throws std::out_of_range

// f32 (2, 5), say, of a device that computes nothing.
Tensor refused_input(DType dtype, const Shape& shape = {2, 5});

// The lists of the families.
void add_elementwise(std::vector<Entry>& entries);
void add_elementwise_binary(std::vector<Entry>& entries);
void add_reductions(std::vector<Entry>& entries);
void add_arrays(std::vector<Entry>& entries);
void add_products(std::vector<Entry>& entries);
void add_layers(std::vector<Entry>& entries);
void add_windows(std::vector<Entry>& entries);
void add_sequences(std::vector<Entry>& entries);

// A function of one result as a GradientCase's.
template <class F>
auto one(F f) {
  return [f](const Inputs& x) { return std::vector{f(x)}; };
}

}  // namespace gabbro::cases
