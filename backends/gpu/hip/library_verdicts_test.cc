// Verdicts on the products of a vendor's libraries, and the words that name a product for a child process.
#include "backends/gpu/hip/library_verdicts.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <vector>

#include "backends/gpu/hip/helper_process.h"
#include "backends/gpu/hip/product_words.h"
#include "backends/gpu/hip/task.h"

namespace gabbro::gpu::hip {
namespace {

using api::GemmShape;
using testing::HasSubstr;

constexpr const char* kDevice = "gfx1201 RX 9070, 56 units, HIP 70253211";
constexpr const char* kLibrary = "hipBLASLt libhipblaslt.so.1.1.70204 of 9000000 bytes";

GemmShape shape(int64_t tokens, int64_t rows = 4096, int64_t depth = 512) {
  return {.rows = rows, .tokens = tokens, .depth = depth, .w = {.step = depth}, .x = {.step = depth}, .y_step = rows};
}

class Verdicts : public testing::Test {
 protected:
  Verdicts() { std::filesystem::remove(path_); }
  ~Verdicts() override { std::filesystem::remove(path_); }

  // A process that finds `found` wherever it has to try.
  std::string problem(const GemmShape& of, const std::optional<LibraryVerdict>& found, const char* library = kLibrary,
                      const char* device = kDevice) {
    LibraryVerdicts verdicts(device, TuningFile(path_));
    return verdicts.problem(library, class_of(of), [&] {
      ++checks_;
      return found;
    });
  }

  const std::string path_ = testing::TempDir() + "gabbro_verdicts.txt";
  int checks_ = 0;
};

TEST_F(Verdicts, AreFoundOnceForAClassOfShapes) {
  EXPECT_EQ(problem(shape(500), LibraryVerdict{}), "");
  EXPECT_EQ(problem(shape(512), LibraryVerdict{.problem = "not asked again"}), "");
  EXPECT_EQ(problem(shape(300), LibraryVerdict{.problem = "not asked again"}), "");
  EXPECT_EQ(checks_, 1);
  EXPECT_EQ(problem(shape(513), LibraryVerdict{}), "");
  EXPECT_EQ(checks_, 2);
}

TEST_F(Verdicts, AWrongProductConcernsItsClass) {
  const LibraryVerdict wrong{.problem = "y[0][31][4095] is 0, expected 12"};
  EXPECT_EQ(problem(shape(500), wrong), wrong.problem);
  EXPECT_EQ(problem(shape(500), LibraryVerdict{}), wrong.problem);
  EXPECT_EQ(problem(shape(100), LibraryVerdict{}), "");
}

TEST_F(Verdicts, ACrashConcernsTheLibrary) {
  const LibraryVerdict crash{.problem = "hipBLASLt crashed: signal 11 (Segmentation fault)", .is_fault = true};
  EXPECT_EQ(problem(shape(500), crash), crash.problem);
  EXPECT_THAT(problem(shape(100), LibraryVerdict{}), HasSubstr("signal 11"));
  EXPECT_EQ(checks_, 1) << "the library is not run again";
  LibraryVerdicts verdicts(kDevice, TuningFile(path_));
  EXPECT_THAT(verdicts.fault(kLibrary), HasSubstr("f16 to f32, 512 x 4096 x 512")) << "for doctor";
  EXPECT_EQ(verdicts.fault("rocBLAS"), "");
}

TEST_F(Verdicts, HoldForOneDeviceRuntimeAndVersion) {
  const LibraryVerdict crash{.problem = "hipBLASLt crashed", .is_fault = true};
  EXPECT_EQ(problem(shape(500), crash), crash.problem);
  EXPECT_EQ(problem(shape(500), LibraryVerdict{}, "hipBLASLt libhipblaslt.so.1.2 of 9100000 bytes"), "");
  EXPECT_EQ(problem(shape(500), LibraryVerdict{}, kLibrary, "gfx1100 RX 7900, 48 units, HIP 70253211"), "");
  EXPECT_EQ(problem(shape(500), LibraryVerdict{}, "rocBLAS librocblas.so.5 of 1 bytes"), "");
}

TEST_F(Verdicts, WhatCouldNotBeTriedIsNotKept) {
  EXPECT_EQ(problem(shape(500), std::nullopt), "it could not be tried");
  EXPECT_EQ(problem(shape(500), LibraryVerdict{}), "");
}

TEST_F(Verdicts, LeaveMeasurementsInTheFileAlone) {
  const TuningTable measured = {{{"device", "linear"}, {.chosen = "few", .candidates = {{"few", 1e-5}}}}};
  ASSERT_EQ(TuningFile(path_).store(measured), "");
  problem(shape(500), LibraryVerdict{});
  std::string damage;
  EXPECT_EQ(TuningFile(path_).load(damage).size(), 2U);
  EXPECT_EQ(damage, "");
}

TEST(ProductWords, ReadBackTheShape) {
  GemmShape product = {.dtype = DType::bf16,
                       .result = DType::bf16,
                       .rows = 5000000000,
                       .tokens = 3,
                       .depth = 77,
                       .batches = 9,
                       .w = {.step = 80, .batch_step = 123, .transposed = true},
                       .x = {.step = 3, .batch_step = 0, .transposed = false},
                       .y_step = 5000000001,
                       .alpha = 0.1f,
                       .bias = true,
                       .activation = api::Activation::kSilu};
  const std::vector<std::string> words = words_of(product);
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  const auto read = shape_of_words(pointers);
  ASSERT_TRUE(read);
  EXPECT_EQ(words_of(*read), words);
  EXPECT_EQ(class_of(*read), class_of(product));
  EXPECT_EQ(read->alpha, product.alpha);
  EXPECT_EQ(read->w.batch_step, 123);
  pointers.back() = "x";
  EXPECT_FALSE(shape_of_words(pointers));
  pointers.pop_back();
  EXPECT_FALSE(shape_of_words(pointers));
}

TEST(ProductWords, Extents) {
  EXPECT_EQ(extent_of({.step = 10}, 3, 8, 1), 28);
  EXPECT_EQ(extent_of({.step = 10, .transposed = true}, 3, 8, 1), 73);
  EXPECT_EQ(extent_of({.step = 8, .batch_step = 24}, 3, 8, 4), 96);
  EXPECT_EQ(extent_of({.step = 8}, 3, 8, 4), 24) << "all batches share it";
  EXPECT_EQ(result_bytes(shape(131072, 4096)), int64_t{1} << 31);
}

// A library that crashes in the child is a finding of the parent.
TEST(HelperProcess, TellsCrashesFromRefusals) {
  const HelperProgram program = {.path = GABBRO_TEST_PROBE, .plugin = GABBRO_TEST_TASK_PLUGIN, .hip = ""};
  const HelperAnswer crash = run_helper(program, {"products", "crash"}, "hipBLASLt", std::chrono::seconds(20));
  EXPECT_FALSE(crash.says(kErrorKey));
  EXPECT_THAT(crash.problem, HasSubstr("hipBLASLt crashed: signal 11"));
  const HelperAnswer refused = run_helper(program, {"products", "refused"}, "hipBLASLt", std::chrono::seconds(20));
  EXPECT_TRUE(refused.says(kErrorKey));
  const HelperAnswer fault = run_helper(program, {"products", "fault"}, "hipBLASLt", std::chrono::seconds(20));
  EXPECT_FALSE(fault.says(kErrorKey));
  EXPECT_EQ(fault.problem, "rocm: waiting for the device: illegal memory access");
}

}  // namespace
}  // namespace gabbro::gpu::hip
