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

#include "backends/gpu/tuning/autotune_fixture.h"

namespace gabbro::gpu::autotuning {
namespace {

using abi::StatusCode;
using abi::TensorView;
using testing::ElementsAre;
using testing::HasSubstr;

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
}  // namespace gabbro::gpu::autotuning
