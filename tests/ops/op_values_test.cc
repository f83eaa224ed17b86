// Every op against PyTorch and NumPy (tests/data/ops/*.json, made by the scripts of tests/reference/ whose names end in
// _fixtures.py): through its kernel where the device has one, else through its composition. GABBRO_DEVICE chooses the
// device.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "src/base/error.h"
#include "src/base/half.h"
#include "src/ops/cases/attention.h"
#include "src/ops/cases/attributes.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/ops/fixture_cases.h"

namespace gabbro {

using nlohmann::json;

namespace fixtures {

json cases_of(const std::string& file) {
  return json::parse(std::ifstream(GABBRO_SOURCE_DIR "/tests/data/ops/" + file + ".json"));
}

Shape shape_of(const json& lengths) { return Shape(lengths.get<std::vector<int64_t>>()); }

namespace {

double number(const json& value) {
  if (value.is_number()) return value.get<double>();
  return value == "nan" ? NAN : value == "inf" ? INFINITY : -INFINITY;
}

std::vector<double> numbers(const json& tensor) {
  std::vector<double> values;
  for (const json& value : tensor.at("data")) values.push_back(number(value));
  return values;
}

template <class T>
Tensor upload_as(DType dtype, const json& tensor) {
  std::vector<T> values;
  for (const double value : numbers(tensor)) values.push_back(static_cast<T>(value));
  return device()->upload(dtype, shape_of(tensor.at("shape")), values.data());
}

}  // namespace

Tensor upload(const json& tensor) {
  const DType dtype = dtype_of(tensor.at("dtype"));
  switch (dtype) {
    case DType::f32:
      return upload_as<float>(dtype, tensor);
    case DType::f64:
      return upload_as<double>(dtype, tensor);
    case DType::i8:
      return upload_as<int8_t>(dtype, tensor);
    case DType::u8:
    case DType::boolean:
      return upload_as<uint8_t>(dtype, tensor);
    case DType::i16:
      return upload_as<int16_t>(dtype, tensor);
    case DType::i32:
      return upload_as<int32_t>(dtype, tensor);
    case DType::i64:
      return upload_as<int64_t>(dtype, tensor);
    default:
      return cast(upload_as<float>(DType::f32, tensor), dtype);
  }
}

namespace {

template <class T>
std::vector<double> read_as(const Tensor& tensor) {
  const std::vector<T> values = to_host<T>(tensor);
  return {values.begin(), values.end()};
}

}  // namespace

std::vector<double> read(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return read_as<float>(tensor);
    case DType::f64:
      return read_as<double>(tensor);
    case DType::i8:
      return read_as<int8_t>(tensor);
    case DType::u8:
    case DType::boolean:
      return read_as<uint8_t>(tensor);
    case DType::i16:
      return read_as<int16_t>(tensor);
    case DType::i32:
      return read_as<int32_t>(tensor);
    case DType::i64:
      return read_as<int64_t>(tensor);
    default:
      return read_as<float>(cast(tensor, DType::f32));
  }
}

// Every second element of a longer last axis, from 1 on.
Tensor in_steps(const Tensor& x) {
  if (x.shape().rank() == 0 || x.shape().rank() == Shape::kMaxRank || x.shape().elements() == 0) return x;
  std::vector<int64_t> lengths(x.shape().lengths().begin(), x.shape().lengths().end());
  lengths.push_back(1);
  const Tensor column = reshape(x, Shape(lengths));
  const Tensor pairs = concat({column, column}, -1);
  lengths.pop_back();
  lengths.back() *= 2;
  const Tensor strided = slice(reshape(pairs, Shape(lengths)), -1, 1, x.shape()[x.shape().rank() - 1], 2);
  eval(std::span(&strided, 1));
  return strided;
}

}  // namespace fixtures

namespace {

using namespace fixtures;

const json& fixture_cases() {
  static const json all = [] {
    json joined = json::array();
    for (const char* name : {"values", "sort", "norm", "random", "conv", "tensor", "arrays", "experts"}) {
      for (json& c : cases_of(name)) joined.push_back(std::move(c));
    }
    return joined;
  }();
  return all;
}

// Whether only the CPU computes it: f64, products of matrices of integers, and what sorts or accumulates i64.
bool is_for_the_cpu(const json& c) {
  static const std::set<std::string> kProducts = {"matmul", "einsum", "tensordot", "dot"};
  static const std::set<std::string> kOrdered = {"sort", "argsort", "unique", "cumsum"};
  const auto has = [&](auto&& is) {
    const auto fits = [&](const json& tensor) { return is(dtype_of(tensor.at("dtype"))); };
    return fits(c.at("output")) || std::ranges::any_of(c.at("inputs"), fits);
  };
  return has([](DType dtype) { return dtype == DType::f64; }) ||
         (kProducts.contains(c.at("op")) && has([](DType dtype) { return !is_floating(dtype); })) ||
         (kOrdered.contains(c.at("op")) && has([](DType dtype) { return dtype == DType::i64; }));
}

// Another device says that it has no kernel, unless there is nothing to compute.
bool is_refused(const json& c, const std::function<Tensor()>& compute) {
  if (device()->facts().id == std::string("cpu") || !is_for_the_cpu(c)) return false;
  try {
    const Tensor y = compute();
    eval(std::span(&y, 1));
    return false;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("has no kernel for it on"));
    return true;
  }
}

void expect_close(const Tensor& result, const json& expected, double tolerance) {
  ASSERT_EQ(result.shape(), shape_of(expected.at("shape")));
  ASSERT_EQ(result.dtype(), dtype_of(expected.at("dtype")));
  if (result.dtype() == DType::f64) tolerance *= 0x1p-29;  // tolerances are in units of f32
  const std::vector<double> want = numbers(expected);
  const std::vector<double> got = read(result);
  double largest = 0;
  for (const double value : want) largest = std::max(largest, std::isfinite(value) ? std::fabs(value) : 0.0);
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] == got[i] || (std::isnan(want[i]) && std::isnan(got[i]))) continue;
    ASSERT_LE(std::fabs(want[i] - got[i]), tolerance * largest)
        << "at " << i << ": expected " << want[i] << ", actual " << got[i];
  }
}

// "8 attention (3, 4, 16) (37, 2, 16) (37, 2, 16)", for messages.
std::string title(size_t index) {
  const json& c = fixture_cases()[index];
  std::string text = std::to_string(index) + " " + c.at("op").get<std::string>();
  for (const json& input : c.at("inputs")) text += " " + shape_of(input.at("shape")).to_string();
  return text;
}

class OpValues : public testing::TestWithParam<size_t> {};

TEST_P(OpValues, AreThoseOfPyTorch) {
  SCOPED_TRACE(title(GetParam()));
  const json& c = fixture_cases()[GetParam()];
  Inputs inputs;
  for (const json& input : c.at("inputs")) inputs.push_back(upload(input));
  if (is_refused(c, [&] { return apply(c.at("op"), inputs, c.at("attributes")); })) return;
  // Outputs are written with 9 digits: half a unit of the last is less than 2^-24.
  expect_close(apply(c.at("op"), inputs, c.at("attributes")), c.at("output"),
               (c.at("ulps").get<double>() + 1) * 0x1p-24);
}

TEST_P(OpValues, DoNotDependOnTheLayoutOfInputs) {
  SCOPED_TRACE(title(GetParam()));
  const json& c = fixture_cases()[GetParam()];
  Inputs inputs;
  for (const json& input : c.at("inputs")) inputs.push_back(in_steps(upload(input)));
  if (is_refused(c, [&] { return apply(c.at("op"), inputs, c.at("attributes")); })) return;
  expect_close(apply(c.at("op"), inputs, c.at("attributes")), c.at("output"),
               (c.at("ulps").get<double>() + 1) * 0x1p-24);
}

// "8_attention": a filter can name an op.
INSTANTIATE_TEST_SUITE_P(PyTorch, OpValues, testing::Range<size_t>(0, fixture_cases().size()), [](const auto& test) {
  return fmt::format("{}_{}", test.param, fixture_cases()[test.param].at("op").template get<std::string>());
});

TEST(QuantizedCache, KeepsAttentionCloseToTheFloatOne) {
  size_t checked = 0;
  for (size_t index = 0; index < fixture_cases().size(); ++index) {
    const json& c = fixture_cases()[index];
    if (c.at("op") != "attention" || c.at("inputs")[1].at("shape")[2] != 32) continue;
    ++checked;
    Inputs inputs;
    for (const json& input : c.at("inputs")) inputs.push_back(upload(input));
    // A value is off by up to half a step, 1/254 of its group's largest; so are the weights that the keys give.
    expect_close(cases::cached_attention(inputs, c.at("attributes"), DType::i8), c.at("output"), 0.02);
  }
  EXPECT_GT(checked, 0U);
}

}  // namespace
}  // namespace gabbro
