#include "tests/grad/op_cases.h"

#include "src/backend/registry.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"

namespace gabbro::grad {
namespace {

using Inputs = std::vector<Tensor>;

// A function of one result.
template <class F>
auto one(F f) {
  return [f](const Inputs& x) { return std::vector{f(x)}; };
}

void add_elementwise(std::vector<OpCase>& cases) {
  const Shape shape{3, 5};
  const auto unary = [&](const Op& op, Tensor (*f)(const Tensor&), double low = -2, double high = 2) {
    cases.push_back({op.name, &op, {{shape, low, high}}, one([f](const Inputs& x) { return f(x[0]); })});
  };
  unary(kNeg, neg);
  unary(kAbs, abs, -1.9, 2.2);
  unary(kExp, exp);
  unary(kLog, log, 0.25, 2);
  unary(kSqrt, sqrt, 0.25, 2);
  unary(kRsqrt, rsqrt, 0.5, 2);
  unary(kSin, sin);
  unary(kCos, cos);
  unary(kTanh, tanh);
  unary(kSigmoid, sigmoid);
  unary(kErf, erf);
  unary(kExpm1, expm1);
  unary(kLog1p, log1p, -0.5, 2);
  unary(kLog2, log2, 0.25, 2);
  unary(kLog10, log10, 0.25, 2);
  unary(kTan, tan, -1, 1);
  unary(kSinh, sinh);
  unary(kCosh, cosh);
  unary(kAsin, asin, -0.75, 0.75);
  unary(kAcos, acos, -0.75, 0.75);
  unary(kAtan, atan);
  unary(kAsinh, asinh);
  unary(kAcosh, acosh, 1.5, 3);
  unary(kAtanh, atanh, -0.75, 0.75);
  unary(kPow, exp2);
  unary(kDiv, reciprocal, 0.5, 2);
  unary(kMul, square);
  unary(kRelu, relu, -1.9, 2.2);
  unary(kSilu, silu);
  unary(kGelu, [](const Tensor& x) { return gelu(x); });
  unary(kGeluTanh, [](const Tensor& x) { return gelu(x, true); });
  const auto binary = [&](const Op& op, Tensor (*f)(const Tensor&, const Tensor&), Input a, Input b) {
    cases.push_back(
        {std::string(op.name) + " " + a.shape.to_string() + b.shape.to_string(), &op, {a, b}, one([f](const Inputs& x) {
           return f(x[0], x[1]);
         })});
  };
  for (const auto& [a, b] : {std::pair(Shape{3, 1, 4}, Shape{2, 1}), std::pair(Shape{5}, Shape{5})}) {
    binary(kAdd, add, {a}, {b});
    binary(kSub, sub, {a}, {b});
    binary(kMul, mul, {a}, {b});
    binary(kDiv, div, {a}, {b, 0.5, 2});
    binary(kMaximum, maximum, {a, -1.9, 1.7}, {b});
    binary(kMinimum, minimum, {a, -1.9, 1.7}, {b});
    binary(kPow, pow, {a, 0.5, 2}, {b});
    binary(kAtan2, gabbro::atan2, {a, -1.9, 1.7}, {b, 0.5, 2});
    binary(kHypot, gabbro::hypot, {a}, {b, 0.5, 2});
    binary(kRemainder, gabbro::remainder, {a, 2.3, 2.6}, {b, 0.9, 1.1});
  }
  cases.push_back(
      {"clamp", &kClamp, {{shape}, {Shape{3, 1}, -1.03, -0.5}, {Shape{5}, 0.6, 1.57}}, one([](const Inputs& x) {
         return clamp(x[0], x[1], x[2]);
       })});
  cases.push_back({"clamp between numbers", &kClamp, {{shape, -1.9, 2.2}}, one([](const Inputs& x) {
                     return clamp(x[0], -0.75, 1.4);
                   })});
  cases.push_back({"where", &kWhere, {{Shape{3, 4}}, {Shape{4}}}, one([](const Inputs& x) {
                     const Tensor flags = cast(ints(Shape{3, 1}, {1, 0, 1}), DType::boolean);
                     return where(flags, x[0], x[1]);
                   })});
  cases.push_back({"cast through f32", &kCast, {{shape}}, one([](const Inputs& x) {
                     return record(kCast, {x[0] * x[0]}, {{"dtype", static_cast<int64_t>(DType::f32)}});
                   })});
}

void add_reductions(std::vector<OpCase>& cases) {
  const auto along = [&](const Op& op, Tensor (*f)(const Tensor&), Input x) {
    cases.push_back(
        {std::string(op.name) + " " + x.shape.to_string(), &op, {x}, one([f](const Inputs& i) { return f(i[0]); })});
  };
  for (const Shape& shape : {Shape{3, 5}, Shape{7}, Shape{2, 2, 1}}) {
    along(kSum, [](const Tensor& x) { return sum(x, -1, kKeepDims); }, {shape});
    along(kMax, [](const Tensor& x) { return max(x, -1, kKeepDims); }, {shape});
    along(kMin, [](const Tensor& x) { return min(x, -1, kKeepDims); }, {shape});
    along(kProd, [](const Tensor& x) { return prod(x, -1, kKeepDims); }, {shape});
    along(kSum, [](const Tensor& x) { return mean(x, -1, kKeepDims); }, {shape});
    along(kSum, [](const Tensor& x) { return logsumexp(x, 0); }, {shape});
    along(kSoftmax, [](const Tensor& x) { return softmax(x); }, {shape});
    along(kLogSoftmax, [](const Tensor& x) { return log_softmax(x, 0); }, {shape});
    along(kCumsum, [](const Tensor& x) { return cumsum(x, 0); }, {shape});
    along(kSort, [](const Tensor& x) { return sort(x, 0, true); }, {shape});
    along(kTopk, [](const Tensor& x) { return topk(x, 1, -1, false).values; }, {shape});
  }
  along(kTopk, [](const Tensor& x) { return topk(x, 2, 0).values; }, {Shape{5, 3}});
  along(kFlip, [](const Tensor& x) { return flip(x, {0, 2}); }, {Shape{3, 2, 5}});
  along(kMoments, [](const Tensor& x) { return var(x, -1); }, {Shape{3, 5}});
  // Over axes that do not follow each other, and over all of them.
  along(kSum, [](const Tensor& x) { return sum(x, {0, 2}); }, {Shape{3, 2, 5}});
  along(kProd, [](const Tensor& x) { return prod(x, {0, 2}); }, {Shape{2, 3, 2}, 0.5, 2});
  along(kMax, [](const Tensor& x) { return max(x, {0, 2}); }, {Shape{3, 2, 5}});
  along(kSum, [](const Tensor& x) { return mean(x, kAllAxes); }, {Shape{3, 2, 5}});
  along(kMoments, [](const Tensor& x) { return var(x, {0, 2}, 0); }, {Shape{3, 2, 5}});
  along(kMoments, [](const Tensor& x) { return gabbro::std(x, {0, 2}); }, {Shape{2, 3, 2, 5}});
  cases.push_back(
      {"moments", &kMoments, {{Shape{2, 3, 5}}}, [](const Inputs& x) { return record_all(kMoments, {x[0]}); }});
  cases.push_back(
      {"batch_norm_sums", &kBatchNormSums, {{Shape{2, 3, 4}}, {Shape{3}}, {Shape{2, 3, 4}}}, [](const Inputs& x) {
         return record_all(kBatchNormSums, {x[0], x[1], x[2]});
       }});
}

void add_views(std::vector<OpCase>& cases) {
  cases.push_back({"reshape", &kReshape, {{Shape{4, 6}}}, one([](const Inputs& x) {
                     return reshape(x[0], Shape{3, 8});
                   })});
  cases.push_back({"permute", &kPermute, {{Shape{2, 3, 4}}}, one([](const Inputs& x) {
                     return permute(x[0], {2, 0, 1});
                   })});
  for (const auto& [from, to] : {std::pair(Shape{3, 1}, Shape{2, 3, 5}),
                                 std::pair(Shape{1, 3, 1, 2}, Shape{2, 3, 4, 2}), std::pair(Shape{1}, Shape{1, 4})}) {
    cases.push_back({"broadcast_to " + from.to_string(), &kBroadcast, {{from}}, one([to = to](const Inputs& x) {
                       return broadcast_to(x[0], to);
                     })});
  }
  struct Part {
    int64_t axis, start, length, step;
  };
  for (const Part& p :
       {Part{1, 0, 7, 1}, Part{1, 2, 3, 2}, Part{0, 1, 2, 1}, Part{1, 6, 1, 3}, Part{0, 2, 0, 1}, Part{1, 0, 3, 3}}) {
    cases.push_back({"slice " + std::to_string(p.start) + "+" + std::to_string(p.length) + "*" + std::to_string(p.step),
                     &kSlice,
                     {{Shape{3, 7}}},
                     one([p](const Inputs& x) { return slice(x[0], p.axis, p.start, p.length, p.step); })});
  }
  cases.push_back({"identity", &kIdentity, {{Shape{3}}, {Shape{2}}}, one([](const Inputs& x) {
                     return record(kIdentity, {x[0], x[1]});
                   })});
  cases.push_back({"concat", &kConcat, {{Shape{2, 3}}, {Shape{2, 0}}, {Shape{2, 1}}}, one([](const Inputs& x) {
                     return concat(x, 1);
                   })});
}

void add_products_and_indices(std::vector<OpCase>& cases) {
  const auto binary = [&](const Op& op, Tensor (*f)(const Tensor&, const Tensor&), const Shape& a, const Shape& b) {
    cases.push_back(
        {std::string(op.name) + " " + a.to_string() + b.to_string(), &op, {{a}, {b}}, one([f](const Inputs& x) {
           return f(x[0], x[1]);
         })});
  };
  binary(kMatmul, matmul, Shape{3, 5}, Shape{5, 2});
  binary(kMatmul, matmul, Shape{2, 1, 3, 4}, Shape{5, 4, 2});
  binary(kMatmul, matmul, Shape{2, 3, 4}, Shape{4, 2});
  binary(kMatmul, matmul, Shape{1, 1}, Shape{1, 3});
  for (const Shape& shape : {Shape{5}, Shape{3, 5}, Shape{2, 3, 5}}) {
    cases.push_back(
        {"linear " + shape.to_string(), &kLinear, {{shape}, {Shape{4, 5}}, {Shape{4}}}, one([](const Inputs& x) {
           return linear(x[0], x[1], x[2]);
         })});
  }
  // Negative indices count from the end.
  cases.push_back({"gather", &kGather, {{Shape{4, 3}}}, one([](const Inputs& x) {
                     return gather(x[0], ints(Shape{5}, {3, 0, 3, -2, -4}));
                   })});
  cases.push_back({"embedding", &kEmbedding, {{Shape{4, 3}}}, one([](const Inputs& x) {
                     return embedding(x[0], ints(Shape{3}, {3, 0, 3}));
                   })});
  cases.push_back({"take_along", &kTakeAlong, {{Shape{2, 4}}}, one([](const Inputs& x) {
                     return take_along_axis(x[0], ints(Shape{2, 3}, {3, 0, 3, -2, -4, 1}));
                   })});
  cases.push_back({"scatter_add", &kScatterAdd, {{Shape{2, 4}}, {Shape{2, 3}}}, one([](const Inputs& x) {
                     return scatter_add(x[0], ints(Shape{2, 3}, {3, 0, 3, -2, -4, 1}), x[1]);
                   })});
  cases.push_back({"scatter_set", &kScatterSet, {{Shape{2, 4}}, {Shape{2, 3}}}, one([](const Inputs& x) {
                     return put_along_axis(x[0], ints(Shape{2, 3}, {3, 0, 3, -2, -4, 1}), x[1]);
                   })});
  cases.push_back({"index_add", &kIndexAdd, {{Shape{4, 2}}, {Shape{5, 2}}}, one([](const Inputs& x) {
                     return index_add(x[0], ints(Shape{5}, {3, 0, 3, -2, -4}), x[1]);
                   })});
}

}  // namespace

const std::shared_ptr<Device>& device() {
  static const std::shared_ptr<Device> opened = open_device("auto", {.threads = 2});
  return opened;
}

Tensor ints(const Shape& shape, const std::vector<int32_t>& values) {
  return device()->upload(DType::i32, shape, values.data());
}

const std::map<std::string, std::string>& ops_without_gradient() {
  static const std::map<std::string, std::string> kReasons = {
      {"floor", "steps"},
      {"ceil", "steps"},
      {"round", "steps"},
      {"trunc", "steps"},
      {"sign", "steps"},
      {"floor_divide", "steps"},
      {"bitwise_and", "of integers"},
      {"bitwise_or", "of integers"},
      {"bitwise_xor", "of integers"},
      {"left_shift", "of integers"},
      {"right_shift", "of integers"},
      {"eq", "gives bool"},
      {"ne", "gives bool"},
      {"gt", "gives bool"},
      {"ge", "gives bool"},
      {"le", "gives bool"},
      {"lt", "gives bool"},
      {"logical_and", "of bool"},
      {"logical_or", "of bool"},
      {"argmax", "gives indices"},
      {"argmin", "gives indices"},
      {"iota", "has no input"},
      {"resolve_index", "maps indices to indices"},
      {"random", "of a key"},
      {"dequantize", "of quantized weights"},
      {"recurrent_gradient", "recurrent has gradients of higher order by its composition"},
      {"kv_write", "writes a state in place"},
  };
  return kReasons;
}

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_elementwise(cases);
  add_reductions(cases);
  add_views(cases);
  add_products_and_indices(cases);
  add_layer_cases(cases);
  return cases;
}

}  // namespace gabbro::grad
