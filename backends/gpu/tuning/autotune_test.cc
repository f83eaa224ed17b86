// Shapes with several candidates, through the plugin's table, on the simulator: what is measured, stored and used. The
// simulator's times mean nothing; that a candidate is used, and which, does.
#include "backends/gpu/tuning/autotune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "backends/gpu/sim/memory.h"
#include "backends/gpu/tuning/tuning.h"
#include "backends/gpu/tuning/tuning_file.h"
#include "gabbro/backend_abi.h"
#include "src/base/half.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu {
namespace {

using abi::StatusCode;
using abi::TensorView;
using testing::ElementsAre;
using testing::HasSubstr;

const abi::Backend& backend() { return *gabbro_backend(); }

TensorView matrix(DType dtype, int64_t rows, int64_t columns) {
  return {.data = nullptr, .shape = {rows, columns}, .strides = {columns, 1}, .rank = 2, .dtype = dtype};
}

// An opened device.
class Opened {
 public:
  Opened(abi::Tuning tuning, const std::string& file) {
    const abi::DeviceOptions options = {.tuning = {.mode = tuning, .file = file.c_str()}};
    EXPECT_EQ(backend().open(0, &options, &device_).code, StatusCode::kOk);
  }
  ~Opened() {
    for (const void* kernel : kernels_) backend().release_kernel(device_, kernel);
    for (void* memory : memory_) backend().free(device_, nullptr, memory);
    backend().close(device_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  abi::BoundKernel find(const char* op, std::vector<TensorView> in, TensorView out,
                        const std::vector<abi::Attribute>& attributes = {}) {
    const abi::KernelRequest request = {.op = op,
                                        .inputs = in.data(),
                                        .input_count = static_cast<int32_t>(in.size()),
                                        .outputs = &out,
                                        .output_count = 1,
                                        .attributes = attributes.data(),
                                        .attribute_count = static_cast<int32_t>(attributes.size())};
    abi::BoundKernel kernel{};
    EXPECT_EQ(backend().find_kernel(device_, &request, &kernel).code, StatusCode::kOk) << op;
    kernels_.push_back(kernel.handle);
    return kernel;
  }

  template <class T>
  void* upload(const std::vector<T>& values) {
    void* memory = allocate(values.size() * sizeof(T));
    EXPECT_EQ(backend().copy_to_device(device_, nullptr, memory, values.data(), values.size() * sizeof(T)).code,
              StatusCode::kOk);
    return memory;
  }

  abi::Status execute(const abi::BoundKernel& kernel, std::vector<TensorView> in, TensorView out) {
    const abi::Launch launch = {.kernel = kernel.handle,
                                .inputs = in.data(),
                                .outputs = &out,
                                .input_count = static_cast<int32_t>(in.size()),
                                .output_count = 1,
                                .scratch = allocate(kernel.scratch_bytes)};
    return backend().execute(device_, nullptr, &launch, 1, nullptr);
  }

  std::vector<float> download(const TensorView& view) {
    std::vector<float> values(static_cast<size_t>(view.shape[0] * view.shape[1]));
    EXPECT_EQ(backend().copy_to_host(device_, nullptr, values.data(), view.data, values.size() * sizeof(float)).code,
              StatusCode::kOk);
    return values;
  }

  void* allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(backend().allocate(device_, nullptr, bytes, &memory).code, StatusCode::kOk);
    memory_.push_back(memory);
    return memory;
  }

  abi::TuningFacts facts() {
    abi::TuningFacts facts{};
    EXPECT_EQ(backend().tuning_facts(device_, &facts).code, StatusCode::kOk);
    return facts;
  }
  abi::MeasuredShape measured(int32_t number) {
    abi::MeasuredShape shape{};
    EXPECT_EQ(backend().measured_shape(device_, number, &shape).code, StatusCode::kOk);
    return shape;
  }

  abi::Status set(const abi::TuningOptions& options) { return backend().set_tuning(device_, &options); }

  abi::Device* get() const { return device_; }

 private:
  abi::Device* device_ = nullptr;
  std::vector<const void*> kernels_;
  std::vector<void*> memory_;
};

// y = x · wᵀ of f16 weights: y[t][r] = sum over k of x[t][k] · w[r][k].
struct Product {
  int64_t tokens, rows = 40, columns = 64;
  std::vector<float> x = std::vector<float>(static_cast<size_t>(tokens * columns));
  std::vector<uint16_t> w = std::vector<uint16_t>(static_cast<size_t>(rows * columns));

  explicit Product(int64_t token_count) : tokens(token_count) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 11) - 5;  // exact in f16, and in 8 bits
    for (size_t i = 0; i < w.size(); ++i) w[i] = float_to_half_bits(static_cast<float>(i * 5 % 13) - 6);
  }
  abi::BoundKernel find(Opened& device) const {
    return device.find("linear", {matrix(DType::f32, tokens, columns), matrix(DType::f16, rows, columns)},
                       matrix(DType::f32, tokens, rows));
  }
  abi::Status run(Opened& device, const abi::BoundKernel& kernel, std::vector<float>* y = nullptr) const {
    TensorView in = matrix(DType::f32, tokens, columns), weight = matrix(DType::f16, rows, columns),
               out = matrix(DType::f32, tokens, rows);
    in.data = device.upload(x);
    weight.data = device.upload(w);
    out.data = device.allocate(static_cast<size_t>(tokens * rows) * sizeof(float));
    const abi::Status status = device.execute(kernel, {in, weight}, out);
    if (y != nullptr) *y = device.download(out);
    return status;
  }
  std::vector<float> expected() const {
    std::vector<float> y(static_cast<size_t>(tokens * rows));
    for (int64_t i = 0; i < tokens * rows; ++i) {
      for (int64_t k = 0; k < columns; ++k)
        y[static_cast<size_t>(i)] += x[static_cast<size_t>(i / rows * columns + k)] *
                                     half_bits_to_float(w[static_cast<size_t>(i % rows * columns + k)]);
    }
    return y;
  }
  // Finds the kernel and runs it; the result has to be right.
  std::string check(Opened& device) const {
    const abi::BoundKernel kernel = find(device);
    std::vector<float> y;
    const abi::Status status = run(device, kernel, &y);
    EXPECT_EQ(status.code, StatusCode::kOk) << status.message;
    EXPECT_EQ(y, expected());
    return kernel.implementation;
  }
};

class Autotune : public testing::Test {
 protected:
  Autotune() : file_(testing::TempDir() + "gabbro_autotune_test.txt") { clean(); }
  ~Autotune() override {
    clean();
    EXPECT_EQ(sim::allocation_count(), 0U) << "a closed device left memory behind";
  }
  void clean() const {
    for (const char* name :
         {"GABBRO_SIM_PRODUCTS", "GABBRO_SIM_PRODUCTS_VERSION", "GABBRO_SIM_FAIL", "GABBRO_TUNE", "GABBRO_TUNING_FILE",
          "GABBRO_MIOPEN_SEARCH", "GABBRO_SIM_CONVOLUTIONS", "GABBRO_SIM_DISTRUSTS_PRODUCTS"})
      ::unsetenv(name);
    for (const std::string& path : {file_, file_ + ".other"}) std::filesystem::remove(path);
  }

  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }

  TuningTable stored() const {
    std::string problem;
    TuningTable table = TuningFile(file_).load(problem);
    EXPECT_EQ(problem, "");
    return table;
  }
  // Makes the file say that this way was the fastest.
  void prefer(const std::string& candidate) const {
    TuningTable table = stored();
    for (auto& [key, entry] : table) entry.chosen = candidate;
    ASSERT_EQ(TuningFile(file_).store(table), "");
  }
  static std::vector<std::string> names(const abi::MeasuredShape& shape) {
    std::vector<std::string> all;
    for (int32_t i = 0; i < shape.candidate_count; ++i) all.emplace_back(shape.candidates[i].name);
    return all;
  }

  std::string file_;
};

TEST_F(Autotune, NothingIsMeasuredUnlessAsked) {
  Opened device(abi::Tuning::kKnown, file_);
  EXPECT_EQ(Product(4).check(device), "linear linear_f16_4");
  EXPECT_EQ(Product(20).check(device), "linear linear_f16_batch_32");
  EXPECT_EQ(Product(65).check(device), "linear linear_f16_batch_64");
  EXPECT_EQ(Product(193).check(device), "linear linear_f16_tiled_128");
  EXPECT_EQ(device.facts().measured, 0);
  EXPECT_STREQ(device.facts().file, file_.c_str());
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(Autotune, AllAreMeasuredByTheFirstLaunchAndKept) {
  set("GABBRO_SIM_PRODUCTS", "1");
  {
    Opened device(abi::Tuning::kMeasureAll, file_);
    EXPECT_THAT(Product(100).check(device), HasSubstr("measured at its first launch"));
    ASSERT_EQ(device.facts().measured, 1);
    const abi::MeasuredShape shape = device.measured(0);
    EXPECT_STREQ(shape.shape, "linear up to 128 tokens x 64, f16 40");
    EXPECT_THAT(names(shape), ElementsAre("simulated library", "batch", "tiled 128", "tiled 32", "few"));
    for (int32_t i = 0; i < shape.candidate_count; ++i) {
      EXPECT_TRUE(shape.candidates[i].fit) << i;
      EXPECT_GT(shape.candidates[i].seconds, 0) << i;
      EXPECT_GE(1.021 * shape.candidates[i].seconds, shape.candidates[shape.chosen].seconds) << i;
    }
    // Another length of the same class is known by then; another class is not.
    EXPECT_THAT(Product(127).check(device), testing::Not(HasSubstr("measured")));
    EXPECT_EQ(device.facts().measured, 1);
    Product(129).check(device);
    EXPECT_EQ(device.facts().measured, 2);
    abi::MeasuredShape none{};
    EXPECT_EQ(backend().measured_shape(device.get(), 2, &none).code, StatusCode::kUnsupported);
    EXPECT_EQ(backend().measured_shape(device.get(), -1, &none).code, StatusCode::kUnsupported);
  }
  EXPECT_EQ(stored().size(), 2U);
  const std::string described = stored().begin()->first.first;
  EXPECT_THAT(described, HasSubstr("sim32 simulated GPU, waves of 32 lanes, 1 units, gabbro "));
  EXPECT_THAT(described, HasSubstr(", simulated library 1.0"));
}

// Else a library's verdict would end the fusion of products that are not measured.
TEST_F(Autotune, VerdictsOfChecksAreNoMeasurements) {
  const TuningEntry works = {.chosen = "works", .candidates = {{"works", 1}}};
  ASSERT_EQ(TuningFile(file_).store({{{"gfx942, hipBLASLt", "check of products: f16 to f32"}, works}}), "");
  Tuning tuning({.mode = abi::Tuning::kKnown, .file = file_.c_str()}, [] { return "gfx942, hipBLASLt"; });
  EXPECT_FALSE(tuning.active());
  EXPECT_EQ(tuning.known("check of products: f16 to f32"), "");
  tuning.record({.shape = "linear", .candidates = {{.name = "few", .seconds = 1e-5, .fit = true}}});
  EXPECT_EQ(stored().size(), 2U) << "the verdict stays in the file";
  EXPECT_TRUE(tuning.active());
}

TEST_F(Autotune, KnownResultsAreUsed) {
  set("GABBRO_SIM_PRODUCTS", "1");
  {
    Opened device(abi::Tuning::kMeasureAll, file_);
    Product(100).check(device);
  }
  for (const auto& [candidate, implementation] :
       {std::pair{"few", "linear linear_f16_8"}, std::pair{"batch", "linear linear_f16_batch_64"},
        std::pair{"tiled 32", "linear linear_f16_tiled_32"}, std::pair{"tiled 128", "linear linear_f16_tiled_128"},
        std::pair{"simulated library", "linear simulated library"}}) {
    prefer(candidate);
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Product(100).check(device), implementation);
    EXPECT_EQ(Product(65).check(device), implementation);
    EXPECT_EQ(device.facts().known, 1);
    EXPECT_EQ(Product(129).check(device), "linear simulated library") << "by the rule";
  }
}

TEST_F(Autotune, AnotherLibraryVersionOrDeviceIsAnotherMeasurement) {
  set("GABBRO_SIM_PRODUCTS", "1");
  {
    Opened device(abi::Tuning::kMeasureAll, file_);
    Product(100).check(device);
  }
  prefer("few");
  set("GABBRO_SIM_PRODUCTS_VERSION", "2.0");
  {
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Product(100).check(device), "linear simulated library");
    EXPECT_EQ(device.facts().known, 0);
  }
  ::unsetenv("GABBRO_SIM_PRODUCTS_VERSION");
  set("GABBRO_SIM_WAVE", "64");
  {
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Product(100).check(device), "linear simulated library");
  }
  ::unsetenv("GABBRO_SIM_WAVE");
  set("GABBRO_SIM_PRODUCTS", "missing");  // the library is gone: the rule, without it
  Opened device(abi::Tuning::kKnown, file_);
  EXPECT_EQ(Product(100).check(device), "linear linear_f16_batch_64");
}

// As on RDNA, where libraries were seen to fault.
TEST_F(Autotune, DistrustedLibrariesAreTakenOnlyWhereTheyWereMeasured) {
  set("GABBRO_SIM_PRODUCTS", "1");
  set("GABBRO_SIM_DISTRUSTS_PRODUCTS", "1");
  {
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Product(100).check(device), "linear linear_f16_batch_64");
    EXPECT_EQ(Product(193).check(device), "linear linear_f16_tiled_128");
  }
  {
    Opened device(abi::Tuning::kMeasureAll, file_);
    Product(100).check(device);
    EXPECT_EQ(device.measured(0).candidate_count, 5) << "the library is a candidate";
  }
  prefer("simulated library");
  Opened device(abi::Tuning::kKnown, file_);
  EXPECT_EQ(Product(100).check(device), "linear simulated library");
  EXPECT_EQ(Product(193).check(device), "linear linear_f16_tiled_128") << "this shape was not measured";
}

TEST_F(Autotune, LibrariesThatFailOrAreWrongAreNotTaken) {
  set("GABBRO_SIM_PRODUCTS", "missing,declining,failing,wrong,1");
  {
    Opened device(abi::Tuning::kMeasureAll, file_);
    Product(100).check(device);
    const abi::MeasuredShape shape = device.measured(0);
    EXPECT_THAT(names(shape),
                ElementsAre("failing library", "wrong library", "simulated library", "batch", "tiled 128", "tiled 32"));
    EXPECT_FALSE(shape.candidates[0].fit);
    EXPECT_EQ(shape.candidates[0].seconds, 0);
    EXPECT_FALSE(shape.candidates[1].fit);
    EXPECT_GT(shape.candidates[1].seconds, 0);
    EXPECT_TRUE(shape.candidates[2].fit);
    EXPECT_TRUE(shape.candidates[shape.chosen].fit);
  }
  for (const auto& [key, entry] : stored()) {
    EXPECT_EQ(entry.candidates.size(), 4U);
    EXPECT_THAT(key.first, testing::Not(HasSubstr("missing")));
  }
}

TEST_F(Autotune, QuantizedWeightsAndFusedMatrices) {
  // Two matrices whose products are joined: silu(x·aᵀ) · (x·bᵀ), of q8_0.
  const auto view = [](int64_t rows) {
    TensorView packed = matrix(DType::q8_0, rows, 64);
    packed.layout = abi::Layout::kPacked;
    return packed;
  };
  Opened device(abi::Tuning::kMeasureAll, file_);
  constexpr size_t kBytes = size_t{40} * 64 / 32 * 34;
  std::vector<std::byte> blocks(kBytes);
  for (size_t block = 0; block < kBytes / 34; ++block) {
    const uint16_t scale = float_to_half_bits(0.01f);
    std::memcpy(&blocks[block * 34], &scale, 2);
    for (size_t i = 2; i < 34; ++i) blocks[block * 34 + i] = static_cast<std::byte>(block * 31 + i * 17);
  }
  std::vector<TensorView> in = {matrix(DType::f32, 20, 64), view(40), view(40)};
  TensorView out = matrix(DType::f32, 20, 40);
  const abi::Attribute matrices = {.name = "n", .kind = abi::AttributeKind::kInteger, .integer = 2};
  const abi::Attribute epilogue = {.name = "epilogue", .kind = abi::AttributeKind::kInteger, .integer = 2};
  const abi::BoundKernel kernel = device.find("linear_fused", in, out, {matrices, epilogue});
  ASSERT_NE(kernel.handle, nullptr);
  in[0].data = device.upload(Product(20).x);
  for (int m : {1, 2}) {
    in[static_cast<size_t>(m)].data = device.allocate(backend().packed_bytes(device.get(), DType::q8_0, 40, 64));
    const abi::PackRequest rows = {DType::q8_0, 40, 64, 0, 40};
    const void* const source = device.upload(blocks);
    ASSERT_EQ(backend().pack(device.get(), nullptr, &rows, source, in[static_cast<size_t>(m)].data).code,
              StatusCode::kOk);
  }
  out.data = device.allocate(20 * 40 * sizeof(float));
  ASSERT_EQ(device.execute(kernel, in, out).code, StatusCode::kOk);
  const abi::MeasuredShape shape = device.measured(0);
  EXPECT_STREQ(shape.shape, "linear up to 32 tokens x 64, q8_0 40 + 40, silu_mul");
  EXPECT_THAT(names(shape), ElementsAre("batch", "few", "tiled 32", "tiled 128"));
  for (int32_t i = 0; i < shape.candidate_count; ++i) EXPECT_TRUE(shape.candidates[i].fit) << shape.candidates[i].name;
}

TEST_F(Autotune, MatmulHasTwoAndOneMoreForFewVectors) {
  for (const int64_t columns : {6, 3}) {
    Opened device(abi::Tuning::kMeasureAll, file_);
    TensorView a = matrix(DType::f32, 5, 7), b = matrix(DType::f32, 7, columns), c = matrix(DType::f32, 5, columns);
    const abi::BoundKernel product = device.find("matmul", {a, b}, c);
    const auto count = static_cast<size_t>(5 * columns);
    const std::vector<float> ones(64, 1);
    a.data = device.upload(ones);
    b.data = device.upload(ones);
    c.data = device.allocate(count * sizeof(float));
    ASSERT_EQ(device.execute(product, {a, b}, c).code, StatusCode::kOk);
    EXPECT_EQ(device.download(c), std::vector<float>(count, 7));
    if (columns > 4) {
      EXPECT_STREQ(device.measured(0).shape, "matmul f32 up to 1 of 8 x 8 x 8");
      EXPECT_THAT(names(device.measured(0)), ElementsAre("1x1 a thread", "4x4 a thread"));
    } else {
      EXPECT_STREQ(device.measured(0).shape, "matmul f32 up to 1 of 8 x 8 x 4");
      EXPECT_THAT(names(device.measured(0)), ElementsAre("vectors", "1x1 a thread", "4x4 a thread"));
    }
  }
}

// 2 images of 3 channels, 5x6, to 4 channels by 3x3, with a bias.
struct Convolution {
  static TensorView images(int64_t count, int64_t channels) {
    return {.data = nullptr,
            .shape = {count, channels, 1, 5, 6},
            .strides = {channels * 30, 30, 30, 6, 1},
            .rank = 5,
            .dtype = DType::f32};
  }
  static TensorView filters() {
    return {.data = nullptr, .shape = {4, 3, 1, 3, 3}, .strides = {27, 9, 9, 3, 1}, .rank = 5, .dtype = DType::f32};
  }
  static TensorView bias() { return {.data = nullptr, .shape = {4}, .strides = {1}, .rank = 1, .dtype = DType::f32}; }

  // The kernel's name; the result is put where it is asked for.
  static std::string run(Opened& device, std::vector<float>& result) {
    std::vector<TensorView> in = {images(2, 3), filters(), bias()};
    TensorView out = images(2, 4);
    const auto padding = [](const char* name) {
      return abi::Attribute{.name = name, .kind = abi::AttributeKind::kInteger, .integer = 1};
    };
    const abi::BoundKernel kernel = device.find("conv", in, out, {padding("padding_h"), padding("padding_w")});
    const std::vector<float> values = Product(20).x;
    in[0].data = device.upload(std::vector<float>(values.begin(), values.begin() + 180));
    in[1].data = device.upload(std::vector<float>(values.begin() + 7, values.begin() + 115));
    in[2].data = device.upload(std::vector<float>{1, -2, 3, -4});
    out.data = device.allocate(240 * sizeof(float));
    const abi::Status status = device.execute(kernel, in, out);
    EXPECT_EQ(status.code, StatusCode::kOk) << status.message;
    TensorView flat = matrix(DType::f32, 1, 240);
    flat.data = out.data;
    result = device.download(flat);
    return kernel.implementation;
  }
};

TEST_F(Autotune, ConvolutionsAskLibrariesOnceTheyAreMeasured) {
  std::vector<float> ours, theirs;
  {
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Convolution::run(device, ours), "conv_direct_f32");
  }
  ::setenv("GABBRO_SIM_CONVOLUTIONS", "missing,declining,failing,wrong,1", 1);
  {
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Convolution::run(device, theirs), "conv_direct_f32") << "not measured";
    Opened measuring(abi::Tuning::kMeasureAll, file_);
    Convolution::run(measuring, theirs);
    EXPECT_EQ(theirs, ours);
    const abi::MeasuredShape shape = measuring.measured(0);
    EXPECT_THAT(shape.shape, HasSubstr("conv f32, up to 2 of 3 x 1x5x6 to 4, taps 1x3x3, stride 1x1x1, padding 0x1x1"));
    EXPECT_THAT(shape.shape, HasSubstr(", bias, declining library 1.0, failing library 1.0"));
    EXPECT_THAT(names(shape), ElementsAre("direct", "tiled", "failing library", "wrong library", "simulated library"));
    EXPECT_FALSE(shape.candidates[2].fit);
    EXPECT_FALSE(shape.candidates[3].fit);
    EXPECT_TRUE(shape.candidates[4].fit);
  }
  prefer("simulated library");
  {
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Convolution::run(device, theirs), "conv simulated library");
    EXPECT_EQ(theirs, ours);
  }
  ::setenv("GABBRO_SIM_CONVOLUTIONS", "missing", 1);
  {
    Opened device(abi::Tuning::kKnown, file_);
    EXPECT_EQ(Convolution::run(device, theirs), "conv_direct_f32") << "the library is gone";
  }
  ::unsetenv("GABBRO_SIM_CONVOLUTIONS");
}

TEST_F(Autotune, ConvolutionsAreProductsToo) {
  set("GABBRO_SIM_PRODUCTS", "1");
  Opened device(abi::Tuning::kMeasureAll, file_);
  std::vector<float> result;
  Convolution::run(device, result);
  const abi::MeasuredShape shape = device.measured(0);
  EXPECT_THAT(names(shape), ElementsAre("direct", "tiled", "product simulated library"));
  EXPECT_TRUE(shape.candidates[2].fit);
}

TEST_F(Autotune, LargeConvolutionsAskLibrariesThatAreTrusted) {
  ::setenv("GABBRO_SIM_CONVOLUTIONS", "missing,declining,1", 1);
  const auto implementation = [&](int64_t side) {
    Opened device(abi::Tuning::kKnown, file_);
    const auto images = [&](int64_t lines, int64_t columns) {
      const int64_t plane = lines * columns;
      return TensorView{.data = nullptr,
                        .shape = {1, 64, 1, lines, columns},
                        .strides = {64 * plane, plane, plane, columns, 1},
                        .rank = 5,
                        .dtype = DType::f32};
    };
    const TensorView filters = {
        .data = nullptr, .shape = {64, 64, 1, 1, 1}, .strides = {64, 1, 1, 1, 1}, .rank = 5, .dtype = DType::f32};
    return std::string(device.find("conv", {images(side, side), filters}, images(side, side), {}).implementation);
  };
  EXPECT_EQ(implementation(128), "conv_tiled_f32");
  ::setenv("GABBRO_SIM_TRUSTS_CONVOLUTIONS", "1", 1);
  EXPECT_EQ(implementation(128), "conv simulated library");
  EXPECT_EQ(implementation(16), "conv_tiled_f32") << "too small to open a library for";
  set("GABBRO_SIM_PRODUCTS", "1");
  EXPECT_EQ(implementation(128), "conv as a product simulated library") << "it has one tap";
  ::unsetenv("GABBRO_SIM_TRUSTS_CONVOLUTIONS");
  ::unsetenv("GABBRO_SIM_CONVOLUTIONS");
}

TEST_F(Autotune, TransposedConvolutionsAskLibrariesThatAreTrusted) {
  ::setenv("GABBRO_SIM_CONVOLUTIONS", "1", 1);
  ::setenv("GABBRO_SIM_TRUSTS_CONVOLUTIONS", "1", 1);
  Opened device(abi::Tuning::kKnown, file_);
  // Ones, so that each result is the number of channels: 64 planes of 128x128, by a filter of one tap.
  constexpr int64_t kPlane = int64_t{128} * 128;
  TensorView x = {.data = nullptr,
                  .shape = {1, 64, 1, 128, 128},
                  .strides = {64 * kPlane, kPlane, kPlane, 128, 1},
                  .rank = 5,
                  .dtype = DType::f32};
  TensorView filters = {
      .data = nullptr, .shape = {64, 64, 1, 1, 1}, .strides = {64, 1, 1, 1, 1}, .rank = 5, .dtype = DType::f32};
  TensorView y = x;
  const abi::BoundKernel kernel = device.find("conv_transpose", {x, filters}, y, {});
  EXPECT_STREQ(kernel.implementation, "conv_transpose simulated library");
  x.data = device.upload(std::vector<float>(64 * kPlane, 1));
  filters.data = device.upload(std::vector<float>(64 * 64, 1));
  y.data = device.allocate(64 * kPlane * sizeof(float));
  ASSERT_EQ(device.execute(kernel, {x, filters}, y).code, StatusCode::kOk);
  TensorView flat = matrix(DType::f32, 1, 64 * kPlane);
  flat.data = y.data;
  EXPECT_EQ(device.download(flat), std::vector<float>(64 * kPlane, 64));
  ::unsetenv("GABBRO_SIM_TRUSTS_CONVOLUTIONS");
  ::unsetenv("GABBRO_SIM_CONVOLUTIONS");
}

TEST_F(Autotune, TheVariableAsksForWhatIsNotKnown) {
  set("GABBRO_TUNE", "1");
  {
    Opened device(abi::Tuning::kKnown, file_);
    Product(20).check(device);
    EXPECT_EQ(device.facts().measured, 1);
  }
  prefer("tiled 128");
  Opened device(abi::Tuning::kKnown, file_);
  EXPECT_EQ(Product(20).check(device), "linear linear_f16_tiled_128");
  EXPECT_EQ(device.facts().measured, 0);
  Product(40).check(device);
  EXPECT_EQ(device.facts().measured, 1);
}

TEST_F(Autotune, AnOpenDeviceIsToldToMeasureAndToStop) {
  Opened device(abi::Tuning::kKnown, file_);
  EXPECT_EQ(device.facts().mode, abi::Tuning::kKnown);
  EXPECT_EQ(Product(20).check(device), "linear linear_f16_batch_32");
  ASSERT_EQ(device.set({.mode = abi::Tuning::kMeasureUnknown, .file = file_.c_str()}).code, StatusCode::kOk);
  EXPECT_EQ(device.facts().mode, abi::Tuning::kMeasureUnknown);
  EXPECT_THAT(Product(20).check(device), HasSubstr("measured at its first launch"));
  EXPECT_EQ(stored().size(), 1U);
  ASSERT_EQ(device.set({.file = file_.c_str()}).code, StatusCode::kOk);
  EXPECT_THAT(Product(40).check(device), testing::Not(HasSubstr("measured")));
  EXPECT_THAT(Product(20).check(device), testing::Not(HasSubstr("measured")));
  const abi::TuningFacts facts = device.facts();
  EXPECT_EQ(facts.known, 1);
  EXPECT_EQ(facts.measured, 1);
  EXPECT_EQ(facts.misses, 3U);
  EXPECT_EQ(facts.hits, 1U) << "of the last";
  EXPECT_GT(facts.seconds, 0);
}

TEST_F(Autotune, AnotherFileGetsWhatWasMeasuredAndGivesWhatItHas) {
  const std::string other = file_ + ".other";
  {
    Opened device(abi::Tuning::kMeasureAll, other);
    Product(65).check(device);
  }
  Opened device(abi::Tuning::kMeasureUnknown, "");
  Product(20).check(device);
  EXPECT_STREQ(device.facts().file, "");
  ASSERT_EQ(device.set({.mode = abi::Tuning::kMeasureUnknown, .file = other.c_str()}).code, StatusCode::kOk);
  EXPECT_STREQ(device.facts().file, other.c_str());
  EXPECT_EQ(device.facts().known, 2);
  EXPECT_THAT(Product(65).check(device), testing::Not(HasSubstr("measured")));
  std::string problem;
  EXPECT_EQ(TuningFile(other).load(problem).size(), 2U);
}

TEST_F(Autotune, AFileThatCannotServeIsRefusedAndChangesNothing) {
  Opened device(abi::Tuning::kKnown, file_);
  std::ofstream(file_ + ".other") << "somebody's notes\n";
  abi::Status status = device.set({.mode = abi::Tuning::kMeasureAll, .file = (file_ + ".other").c_str()});
  EXPECT_EQ(status.code, StatusCode::kFailed);
  EXPECT_THAT(status.message, HasSubstr("it is not one that this version of Gabbro wrote"));
  status = device.set({.mode = abi::Tuning::kMeasureAll, .file = "/proc/tuning.txt"});
  EXPECT_EQ(status.code, StatusCode::kFailed);
  EXPECT_THAT(status.message, HasSubstr("cannot be written"));
  EXPECT_EQ(device.facts().mode, abi::Tuning::kKnown);
  EXPECT_STREQ(device.facts().file, file_.c_str());
}

TEST_F(Autotune, WhatIsKnownCanBeForgotten) {
  Opened device(abi::Tuning::kMeasureUnknown, file_);
  Product(20).check(device);
  ASSERT_EQ(backend().forget_tuning(device.get()).code, StatusCode::kOk);
  abi::TuningFacts facts = device.facts();
  EXPECT_EQ(facts.known, 0);
  EXPECT_EQ(facts.measured, 0);
  EXPECT_EQ(facts.misses, 0U);
  EXPECT_EQ(stored().size(), 1U) << "the file stays";
  EXPECT_THAT(Product(20).check(device), HasSubstr("measured at its first launch"));
}

TEST_F(Autotune, LibrariesSearchWhereThatIsAskedFor) {
  set("GABBRO_SIM_CONVOLUTIONS", "searching");
  std::vector<float> y;
  for (const bool search : {false, true}) {
    Opened device(abi::Tuning::kKnown, "");
    ASSERT_EQ(device.set({.mode = abi::Tuning::kMeasureAll, .search = search, .file = ""}).code, StatusCode::kOk);
    EXPECT_EQ(device.facts().search, search);
    Convolution::run(device, y);
    EXPECT_EQ(device.measured(0).candidate_count, search ? 3 : 2);
  }
  set("GABBRO_MIOPEN_SEARCH", "1");
  Opened device(abi::Tuning::kMeasureAll, "");
  EXPECT_TRUE(device.facts().search) << "of the environment";
  Convolution::run(device, y);
  EXPECT_EQ(device.measured(0).candidate_count, 3);
}

TEST_F(Autotune, ADamagedFileIsSaidAndTheRuleHolds) {
  std::ofstream(file_) << "gabbro tuning 1\nnonsense\n";
  Opened device(abi::Tuning::kKnown, file_);
  EXPECT_EQ(device.facts().problem, "the tuning file " + file_ + " is ignored: line 2 is damaged");
  EXPECT_EQ(Product(20).check(device), "linear linear_f16_batch_32");
}

TEST_F(Autotune, WhatCannotBeKeptIsTakenAllTheSame) {
  set("GABBRO_SIM_PRODUCTS", "1");
  Opened device(abi::Tuning::kMeasureAll, "/proc/tuning.txt");
  Product(20).check(device);
  EXPECT_THAT(device.facts().problem, HasSubstr("the tuning file /proc/tuning.txt cannot be written: "));
  EXPECT_EQ(device.facts().known, 1);
  EXPECT_THAT(Product(20).check(device), testing::Not(HasSubstr("measured")));
}

TEST_F(Autotune, AMeasurementThatFailsIsAFailureAndNotKept) {
  for (const auto& [fault, code] :
       {std::pair{"lost:3", StatusCode::kLost}, std::pair{"launch:1", StatusCode::kFailed}}) {
    set("GABBRO_SIM_FAIL", fault);
    Opened device(abi::Tuning::kMeasureAll, file_);
    const Product product(20);
    const abi::BoundKernel kernel = product.find(device);
    EXPECT_EQ(product.run(device, kernel).code, code) << fault;
    EXPECT_EQ(device.facts().measured, 0) << fault;
    EXPECT_FALSE(std::filesystem::exists(file_)) << fault;
  }
}

TEST(LengthClass, PowersOfTwo) {
  for (const auto& [length, expected] :
       {std::pair{0, 1}, {1, 1}, {2, 2}, {3, 4}, {16, 16}, {17, 32}, {512, 512}, {513, 1024}})
    EXPECT_EQ(length_class(length), expected) << length;
}

}  // namespace
}  // namespace gabbro::gpu
