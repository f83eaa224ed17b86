#include "backends/gpu/doctor/kernel_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "backends/gpu/doctor/check_details.h"
#include "src/base/half.h"
#include "src/formats/quant/quant.h"

namespace gabbro::gpu {
namespace {

// Sizes that are not multiples of a wave or a tile, over several blocks; columns of weights come in whole blocks.
constexpr int64_t kRows = 37, kColumns = 259;
constexpr int64_t kOutputs = 131, kDepth = 416;
// One token, few, and some for each of the sizes of tiles: other kernels each.
constexpr int64_t kTokens[] = {1, 5, 20, 70};

// Largest errors, relative to the root mean square of the result: f32, f16, and activations in 8 bits, whose rounding
// errors reach 1e-6, 1e-3 and 0.03. A wrong kernel is usually off by 1 and more.
constexpr double kF32Tolerance = 1e-4, kF16Tolerance = 1e-2, kQuantizedTolerance = 0.15;

constexpr size_t kGraphList = 8;  // launches; GpuStream::kGraphLaunches

using Values = std::vector<double>;

Values random_values(int64_t count, uint32_t seed) {
  Values values(static_cast<size_t>(count));
  for (double& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
  }
  return values;
}

std::vector<float> floats(const Values& values) { return {values.begin(), values.end()}; }

// An operand on the device.
class Operand {
 public:
  Operand(GpuDevice& device, std::vector<int64_t> shape, DType dtype, const void* content, size_t bytes)
      : memory_(device.allocate(nullptr, bytes), [&device](void* pointer) { device.free(nullptr, pointer); }),
        bytes_(bytes) {
    if (memory_ == nullptr)
      throw ApiError(abi::StatusCode::kOutOfMemory, fmt::format("no device memory for {} bytes", bytes));
    view_ = {.rank = static_cast<int32_t>(shape.size()), .dtype = dtype, .layout = abi::Layout::kStrided};
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
      view_.shape[i] = shape[i];
      view_.strides[i] = stride;
    }
    view_.data = memory_.get();
    if (content != nullptr) device.copy_to_device(nullptr, view_.data, content, bytes);
  }
  Operand(GpuDevice& device, std::vector<int64_t> shape, const Values& values)
      : Operand(device, std::move(shape), DType::f32, floats(values).data(), values.size() * sizeof(float)) {}

  void set_layout(abi::Layout layout) { view_.layout = layout; }
  const abi::TensorView& view() const { return view_; }
  size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> memory_;
  size_t bytes_;
  abi::TensorView view_{};
};

// [rows, columns] of a type of weights, and the values that it has after rounding.
std::pair<Operand, Values> weights(GpuDevice& device, DType dtype, int64_t rows, int64_t columns,
                                   const std::vector<float>& source) {
  std::vector<std::byte> blocks(dtype_bytes(dtype, source.size()));
  std::vector<float> rounded(source.size());
  const size_t row_bytes = blocks.size() / static_cast<size_t>(rows);
  for (int64_t row = 0; row < rows; ++row) {
    std::byte* const own = blocks.data() + static_cast<size_t>(row) * row_bytes;
    quantize_row(dtype, source.data() + row * columns, own, columns);
    dequantize_row(dtype, own, rounded.data() + row * columns, columns);
  }
  const size_t packed = device.packed_bytes(dtype, rows, columns);
  Operand operand(device, {rows, columns}, dtype, packed == 0 ? blocks.data() : nullptr,
                  packed == 0 ? blocks.size() : packed);
  if (packed > 0) {
    const Operand file(device, {rows, columns}, dtype, blocks.data(), blocks.size());
    device.pack(nullptr, {dtype, rows, columns, 0, rows}, file.view().data, operand.view().data);
    operand.set_layout(abi::Layout::kPacked);
  }
  return {std::move(operand), Values(rounded.begin(), rounded.end())};
}

// x [tokens][depth] times w [outputs][depth], transposed.
Values product(const Values& x, const Values& w, int64_t tokens, int64_t outputs, int64_t depth) {
  Values y(static_cast<size_t>(tokens * outputs));
  for (int64_t i = 0; i < tokens * outputs; ++i) {
    for (int64_t k = 0; k < depth; ++k) {
      y[static_cast<size_t>(i)] +=
          x[static_cast<size_t>(i / outputs * depth + k)] * w[static_cast<size_t>(i % outputs * depth + k)];
    }
  }
  return y;
}

// A call of a kernel with f32 results.
struct Case {
  std::string name;
  const char* op;
  std::vector<Operand> inputs;
  std::vector<int64_t> shape;  // of the result
  Values expected;
  double tolerance = kF32Tolerance;
};

// A small launch that makes a list long enough for a graph.
class Filler {
 public:
  explicit Filler(GpuDevice& device)
      : device_(device), x_(device, {1}, {0.0}), y_(device, {1}, DType::f32, nullptr, sizeof(float)) {
    in_ = x_.view();
    out_ = y_.view();
    kernel_ = device.make_kernel({.op = "neg", .inputs = &in_, .input_count = 1, .outputs = &out_, .output_count = 1});
    if (kernel_ == nullptr) throw ApiError(abi::StatusCode::kFailed, "there is no kernel for neg");
  }
  ~Filler() { device_.forget_graphs_of(kernel_.get()); }
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;
  abi::Launch launch() {
    return {.kernel = kernel_.get(), .inputs = &in_, .outputs = &out_, .input_count = 1, .output_count = 1};
  }

 private:
  GpuDevice& device_;
  Operand x_, y_;
  abi::TensorView in_{}, out_{};
  std::unique_ptr<Kernel> kernel_;
};

class KernelCheck {
 public:
  explicit KernelCheck(GpuDevice& device) : device_(device) {
    if (details_file() != nullptr) filler_.emplace(device);
  }

  void expect(const Case& c) {
    const Values& expected = c.expected;
    const Operand out(device_, c.shape, DType::f32, nullptr, expected.size() * sizeof(float));
    std::vector<abi::TensorView> views;
    for (const Operand& operand : c.inputs) views.push_back(operand.view());
    abi::TensorView result = out.view();
    const abi::KernelRequest request = {.op = c.op,
                                        .inputs = views.data(),
                                        .input_count = static_cast<int32_t>(views.size()),
                                        .outputs = &result,
                                        .output_count = 1};
    const auto kernel = device_.make_kernel(request);
    if (kernel == nullptr) throw ApiError(abi::StatusCode::kFailed, "there is no kernel for " + c.name);
    const Operand scratch(device_, {}, DType::f32, nullptr, std::max<size_t>(kernel->scratch_bytes, 1));
    const abi::Launch launch = {.kernel = kernel.get(),
                                .inputs = views.data(),
                                .outputs = &result,
                                .input_count = request.input_count,
                                .output_count = 1,
                                .scratch = scratch.view().data};
    std::vector<float> found(expected.size());
    const auto run = [&](const char* how, int number, std::span<const abi::Launch> launches) {
      device_.execute(nullptr, launches.data(), static_cast<int32_t>(launches.size()), nullptr);
      device_.copy_to_host(nullptr, found.data(), result.data, found.size() * sizeof(float));
      if (details_file() != nullptr) append_details({c.name, how, number, found, expected, c.tolerance});
    };
    if (details_file() != nullptr) {
      // Lists of this length become graphs when they come again.
      std::vector<abi::Launch> list(kGraphList - 1, filler_->launch());
      list.push_back(launch);
      for (int number = 1; number <= 3; ++number) run("graph", number, list);
      for (int number = 2; number <= 3; ++number) run("direct", number, {&launch, 1});
    }
    run("direct", 1, {&launch, 1});
    device_.forget_graphs_of(kernel.get());
    last_ = found;
    double error = 0, size = 0;
    bool numbers = true;
    for (size_t i = 0; i < found.size(); ++i) {
      numbers = numbers && std::isfinite(found[i]);
      error = std::max(error, std::abs(found[i] - expected[i]));
      size += expected[i] * expected[i];
    }
    error /= std::sqrt(size / static_cast<double>(found.size()));
    verdicts_.push_back({.name = c.name, .right = numbers && error <= c.tolerance, .error = error});
  }

  void rows() {
    const Values a = random_values(kRows * kColumns, 1), b = random_values(kRows * kColumns, 2),
                 weight = random_values(kColumns, 3);
    const Operand x(device_, {kRows, kColumns}, a), y(device_, {kRows, kColumns}, b), w(device_, {kColumns}, weight);
    const auto at = [](int64_t row, int64_t column) { return static_cast<size_t>(row * kColumns + column); };
    Values added = a, sums(kRows), running = a, normalized = a, probabilities = a;
    for (int64_t row = 0; row < kRows; ++row) {
      double squares = 0, all = 0;
      for (int64_t c = 0; c < kColumns; ++c) {
        added[at(row, c)] += b[at(row, c)];
        sums[static_cast<size_t>(row)] += a[at(row, c)];
        running[at(row, c)] = sums[static_cast<size_t>(row)];
        squares += a[at(row, c)] * a[at(row, c)];
        all += std::exp(a[at(row, c)]);
      }
      for (int64_t c = 0; c < kColumns; ++c) {
        normalized[at(row, c)] *= weight[static_cast<size_t>(c)] / std::sqrt(squares / kColumns);
        probabilities[at(row, c)] = std::exp(a[at(row, c)]) / all;
      }
    }
    const std::vector<int64_t> shape = {kRows, kColumns};
    expect({.name = "add", .op = "add", .inputs = {x, y}, .shape = shape, .expected = added});
    expect({.name = "sum", .op = "sum", .inputs = {x}, .shape = {kRows, 1}, .expected = sums});
    expect({.name = "cumsum", .op = "cumsum", .inputs = {x}, .shape = shape, .expected = running});
    expect({.name = "rms_norm", .op = "rms_norm", .inputs = {x, w}, .shape = shape, .expected = normalized});
    expect({.name = "softmax", .op = "softmax", .inputs = {x}, .shape = shape, .expected = probabilities});
  }

  void products() {
    const Values a = random_values(kRows * kDepth, 5), b = random_values(kOutputs * kDepth, 6);
    const Operand x(device_, {kRows, kDepth}, a), y(device_, {kDepth, kOutputs}, transposed(b));
    expect({.name = "matmul",
            .op = "matmul",
            .inputs = {x, y},
            .shape = {kRows, kOutputs},
            .expected = product(a, b, kRows, kOutputs, kDepth)});
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
      const auto [w, values] = weights(device_, dtype, kOutputs, kDepth, floats(random_values(kOutputs * kDepth, 7)));
      for (const int64_t tokens : kTokens) {
        const Values input = random_values(tokens * kDepth, 8);
        const double tolerance = dtype == DType::f32   ? kF32Tolerance
                                 : is_quantized(dtype) ? kQuantizedTolerance
                                                       : kF16Tolerance;
        expect({.name = fmt::format("linear {}, {} tokens", dtype_name(dtype), tokens),
                .op = "linear",
                .inputs = {Operand(device_, {tokens, kDepth}, input), w},
                .shape = {tokens, kOutputs},
                .expected = product(input, values, tokens, kOutputs, kDepth),
                .tolerance = tolerance});
      }
    }
  }

  // The product of an identity matrix and a matrix of indices, in both orders: each element names the one of the
  // operand that it was read from, so that a wrong layout of a matrix instruction is seen in the first 16 x 16
  // elements.
  void layouts() {
    constexpr int64_t kSize = 64;
    Values indices(kSize * kSize), identity(kSize * kSize);
    for (int64_t i = 0; i < kSize * kSize; ++i) {
      indices[static_cast<size_t>(i)] = static_cast<double>(i / kSize % 16 * 16 + i % 16);
      identity[static_cast<size_t>(i)] = i / kSize == i % kSize ? 1 : 0;
    }
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (const bool in_x : {true, false}) {
        const Values &x = in_x ? indices : identity, &weight = in_x ? identity : indices;
        const std::string name =
            fmt::format("linear {}, {} x identity", dtype_name(dtype), in_x ? "indices" : "transposed indices");
        expect({.name = name,
                .op = "linear",
                .inputs = {Operand(device_, {kSize, kSize}, x),
                           weights(device_, dtype, kSize, kSize, floats(weight)).first},
                .shape = {kSize, kSize},
                .expected = product(x, weight, kSize, kSize, kSize),
                .tolerance = kF16Tolerance});
        std::vector<float> corner;
        for (int64_t row = 0; row < 16; ++row) {
          const auto first = last_.begin() + row * kSize;
          corner.insert(corner.end(), first, first + 16);
        }
        append_table(name, corner, 16);
      }
    }
    verdicts_.resize(verdicts_.size() - 4);  // the check counts its kernels, and these come with details only
  }

  std::vector<KernelVerdict> take() { return std::move(verdicts_); }

 private:
  // [kOutputs][kDepth] to [kDepth][kOutputs].
  static Values transposed(const Values& values) {
    Values other(values.size());
    for (int64_t i = 0; i < kOutputs * kDepth; ++i)
      other[static_cast<size_t>(i % kDepth * kOutputs + i / kDepth)] = values[static_cast<size_t>(i)];
    return other;
  }

  GpuDevice& device_;
  std::vector<KernelVerdict> verdicts_;
  std::vector<float> last_;  // result of the last case
  std::optional<Filler> filler_;
};

}  // namespace

std::vector<KernelVerdict> check_kernels(GpuDevice& device) {
  KernelCheck check(device);
  check.rows();
  check.products();
  if (details_file() != nullptr) check.layouts();
  return check.take();
}

}  // namespace gabbro::gpu
