// Every op against PyTorch and NumPy (tests/data/ops/*.json, made by the scripts of tests/reference/ whose names end in
// _fixtures.py): through its kernel where the device has one, else through its composition. GABBRO_DEVICE chooses the
// device.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/base/half.h"
#include "src/graph/eval.h"
#include "src/ops/ops.h"
#include "tests/ops/fixture_cases.h"
#include "tests/ops/op_calls.h"

namespace gabbro {

using nlohmann::json;

namespace fixtures {

const std::shared_ptr<Device>& device() {
  static const std::shared_ptr<Device> opened = open_device("auto", {.threads = 2});
  return opened;
}

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

namespace {

Tensor ints(const std::vector<int32_t>& values) {
  return device()->upload(DType::i32, Shape{std::ssize(values)}, values.data());
}

// q, and the keys and values of all tokens, of which q's are the last. They are written in two steps, to pages in
// shuffled order.
Tensor cached_attention(const std::vector<Tensor>& x, const json& a, DType dtype) {
  const Shape& kv = x[1].shape();
  const int64_t page = a.at("page");
  const int64_t pages = (kv[0] + page - 1) / page;
  const auto zeros = [&](DType type, const Shape& shape) {
    const std::vector<uint16_t> bytes(static_cast<size_t>(shape.elements()), 0);
    return device()->upload(type, shape, bytes.data());
  };
  KvLayer cache{.keys = zeros(dtype, Shape{pages + 1, kv[1], kv[2], page}),
                .values = zeros(dtype, Shape{pages + 1, kv[1], page, kv[2]})};
  if (dtype == DType::i8) {
    cache.key_scales = zeros(DType::f16, Shape{pages + 1, kv[1], kv[2] / 32, page});
    cache.value_scales = zeros(DType::f16, Shape{pages + 1, kv[1], page, kv[2] / 32});
  }
  std::vector<int32_t> table(static_cast<size_t>(pages));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(table.size() - i);
  const Tensor page_table = reshape(ints(table), Shape{1, pages});
  const auto places = [&](int64_t start, int64_t count) {
    std::vector<int32_t> positions(static_cast<size_t>(count));
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(start));
    const std::vector<int32_t> sequence(positions.size(), 0);
    return TokenPositions{.positions = ints(positions), .sequence = ints(sequence), .page_table = page_table};
  };
  const int64_t early = kv[0] / 3;
  for (const auto& [start, count] : {std::pair(int64_t{0}, early), std::pair(early, kv[0] - early)}) {
    cache = kv_write(cache, slice(x[1], 0, start, count), slice(x[2], 0, start, count), places(start, count));
  }
  const int64_t tokens = x[0].shape()[0];
  return attention(x[0], cache, places(kv[0] - tokens, tokens),
                   {.scale = 1 / std::sqrt(static_cast<float>(kv[2])),
                    .window = a.at("window"),
                    .softcap = a.at("softcap").get<float>()});
}

}  // namespace

Tensor apply(const std::string& op, const Inputs& x, const json& a) {
  using Function = Tensor (*)(const Inputs&, const json&);
  static const std::map<std::string, Function> kOps = {
      {"neg", [](const Inputs& i, const json&) { return neg(i[0]); }},
      {"abs", [](const Inputs& i, const json&) { return abs(i[0]); }},
      {"exp", [](const Inputs& i, const json&) { return exp(i[0]); }},
      {"log", [](const Inputs& i, const json&) { return log(i[0]); }},
      {"sqrt", [](const Inputs& i, const json&) { return sqrt(i[0]); }},
      {"rsqrt", [](const Inputs& i, const json&) { return rsqrt(i[0]); }},
      {"sin", [](const Inputs& i, const json&) { return sin(i[0]); }},
      {"cos", [](const Inputs& i, const json&) { return cos(i[0]); }},
      {"tanh", [](const Inputs& i, const json&) { return tanh(i[0]); }},
      {"sigmoid", [](const Inputs& i, const json&) { return sigmoid(i[0]); }},
      {"silu", [](const Inputs& i, const json&) { return silu(i[0]); }},
      {"add", [](const Inputs& i, const json&) { return i[0] + i[1]; }},
      {"sub", [](const Inputs& i, const json&) { return i[0] - i[1]; }},
      {"mul", [](const Inputs& i, const json&) { return i[0] * i[1]; }},
      {"div", [](const Inputs& i, const json&) { return i[0] / i[1]; }},
      {"maximum", [](const Inputs& i, const json&) { return maximum(i[0], i[1]); }},
      {"minimum", [](const Inputs& i, const json&) { return minimum(i[0], i[1]); }},
      {"less_equal", [](const Inputs& i, const json&) { return less_equal(i[0], i[1]); }},
      {"less", [](const Inputs& i, const json&) { return less(i[0], i[1]); }},
      {"logical_and", [](const Inputs& i, const json&) { return logical_and(i[0], i[1]); }},
      {"where", [](const Inputs& i, const json&) { return where(i[0], i[1], i[2]); }},
      {"cast", [](const Inputs& i, const json& b) { return cast(i[0], dtype_of(b.at("dtype"))); }},
      {"through_f16", [](const Inputs& i, const json&) { return cast(cast(i[0], DType::f16), DType::f32); }},
      {"through_bf16", [](const Inputs& i, const json&) { return cast(cast(i[0], DType::bf16), DType::f32); }},
      {"sum", [](const Inputs& i, const json&) { return sum(i[0], -1, kKeepDims); }},
      {"mean", [](const Inputs& i, const json&) { return mean(i[0], -1, kKeepDims); }},
      {"max", [](const Inputs& i, const json&) { return max(i[0], -1, kKeepDims); }},
      {"argmax", [](const Inputs& i, const json&) { return argmax(i[0], -1, kKeepDims); }},
      {"softmax", [](const Inputs& i, const json&) { return softmax(i[0]); }},
      {"rms_norm", [](const Inputs& i, const json& b) { return rms_norm(i[0], i[1], b.at("epsilon")); }},
      {"reshape", [](const Inputs& i, const json& b) { return reshape(i[0], shape_of(b.at("shape"))); }},
      {"permute", [](const Inputs& i, const json& b) { return permute(i[0], b.at("axes")); }},
      {"permute_reshape",
       [](const Inputs& i, const json& b) { return reshape(permute(i[0], b.at("axes")), shape_of(b.at("shape"))); }},
      {"broadcast_to", [](const Inputs& i, const json& b) { return broadcast_to(i[0], shape_of(b.at("shape"))); }},
      {"slice", [](const Inputs& i,
                   const json& b) { return slice(i[0], b.at("axis"), b.at("start"), b.at("length"), b.at("step")); }},
      {"gather", [](const Inputs& i, const json&) { return gather(i[0], i[1]); }},
      {"concat", [](const Inputs& i, const json& b) { return gabbro::concat(i, b.at("axis")); }},
      {"iota",
       [](const Inputs&, const json& b) {
         return iota(device(), b.at("count"), dtype_of(b.at("dtype")), b.at("start"), b.at("step"));
       }},
      {"matmul", [](const Inputs& i, const json&) { return matmul(i[0], i[1]); }},
      {"matmul_transposed",
       [](const Inputs& i, const json&) {
         return matmul(i[0], permute(i[1], {1, 0}));
       }},
      {"linear", [](const Inputs& i, const json&) { return linear(i[0], i[1], i.size() == 3 ? i[2] : Tensor()); }},
      {"embedding", [](const Inputs& i, const json&) { return embedding(i[0], i[1]); }},
      {"rope",
       [](const Inputs& i, const json& b) {
         return rope(i[0], i[1], i[2], {.interleaved = b.at("interleaved"), .magnitude = b.at("magnitude")});
       }},
      {"attention", [](const Inputs& i, const json& b) { return cached_attention(i, b, DType::f16); }},
  };
  if (const auto y = array_op(op, device(), x, a)) return *y;
  const auto found = kOps.find(op);
  return found == kOps.end() ? family_op(op, device(), x, a) : found->second(x, a);
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

const json& cases() {
  static const json all = [] {
    json joined = json::array();
    for (const char* name : {"values", "sort", "norm", "random", "conv", "tensor", "arrays"}) {
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
  const json& c = cases()[index];
  std::string text = std::to_string(index) + " " + c.at("op").get<std::string>();
  for (const json& input : c.at("inputs")) text += " " + shape_of(input.at("shape")).to_string();
  return text;
}

class OpValues : public testing::TestWithParam<size_t> {};

TEST_P(OpValues, AreThoseOfPyTorch) {
  SCOPED_TRACE(title(GetParam()));
  const json& c = cases()[GetParam()];
  Inputs inputs;
  for (const json& input : c.at("inputs")) inputs.push_back(upload(input));
  if (is_refused(c, [&] { return apply(c.at("op"), inputs, c.at("attributes")); })) return;
  // Outputs are written with 9 digits: half a unit of the last is less than 2^-24.
  expect_close(apply(c.at("op"), inputs, c.at("attributes")), c.at("output"),
               (c.at("ulps").get<double>() + 1) * 0x1p-24);
}

TEST_P(OpValues, DoNotDependOnHowTheInputsLie) {
  SCOPED_TRACE(title(GetParam()));
  const json& c = cases()[GetParam()];
  Inputs inputs;
  for (const json& input : c.at("inputs")) inputs.push_back(in_steps(upload(input)));
  if (is_refused(c, [&] { return apply(c.at("op"), inputs, c.at("attributes")); })) return;
  expect_close(apply(c.at("op"), inputs, c.at("attributes")), c.at("output"),
               (c.at("ulps").get<double>() + 1) * 0x1p-24);
}

// "8_attention": a filter can name an op.
INSTANTIATE_TEST_SUITE_P(PyTorch, OpValues, testing::Range<size_t>(0, cases().size()), [](const auto& info) {
  return fmt::format("{}_{}", info.param, cases()[info.param].at("op").template get<std::string>());
});

TEST(QuantizedCache, KeepsAttentionCloseToTheFloatOne) {
  size_t checked = 0;
  for (size_t index = 0; index < cases().size(); ++index) {
    const json& c = cases()[index];
    if (c.at("op") != "attention" || c.at("inputs")[1].at("shape")[2] != 32) continue;
    ++checked;
    Inputs inputs;
    for (const json& input : c.at("inputs")) inputs.push_back(upload(input));
    // A value is off by up to half a step, 1/254 of its group's largest; so are the weights that the keys give.
    expect_close(cached_attention(inputs, c.at("attributes"), DType::i8), c.at("output"), 0.02);
  }
  EXPECT_GT(checked, 0U);
}

}  // namespace
}  // namespace gabbro
