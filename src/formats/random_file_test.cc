#include "src/formats/random_file.h"

#include <cmath>

#include "src/formats/gguf/gguf_test_support.h"
#include "src/formats/quant/finite.h"

namespace gabbro::gguf {
namespace {

using testing::HasSubstr;

constexpr uint32_t kF32 = 0, kQ4K = 12, kQ8K = 15;

class RandomFile : public testing::Test {
 protected:
  File make() const { return random_file("random", writer_, 0.02f, 7); }

  std::vector<float> values_ = {1, 2, 3};
  Writer writer_{kPageAlignment};
};

TEST_F(RandomFile, IsAModelLikeAnyOther) {
  writer_.add_string("general.architecture", "llama");
  writer_.add_tensor("given", kF32, std::vector<int64_t>{3}, std::as_bytes(std::span(values_)));
  writer_.declare_tensor("a", kQ4K, std::vector<int64_t>{5, 512});
  writer_.declare_tensor("b", kQ4K, std::vector<int64_t>{5, 512});
  const File file = make();
  EXPECT_EQ(file.path(), "random");
  EXPECT_EQ(file.require_string("general.architecture"), "llama");
  ASSERT_EQ(file.tensors().size(), 3u);
  const TensorInfo& given = file.require_tensor("given");
  EXPECT_EQ(std::memcmp(given.data.data(), values_.data(), given.data.size()), 0);
  const TensorInfo &a = file.require_tensor("a"), &b = file.require_tensor("b");
  ASSERT_EQ(a.data.size(), 10u * 144);
  EXPECT_TRUE(all_finite(DType::q4_k, a.data.data(), a.elements()));
  EXPECT_TRUE(all_finite(DType::q4_k, b.data.data(), b.elements()));
  EXPECT_NE(std::memcmp(a.data.data(), b.data.data(), a.data.size()), 0);
}

TEST_F(RandomFile, HasADeviationForEachTensor) {
  for (const char* name : {"wide", "narrow"}) writer_.declare_tensor(name, kF32, std::vector<int64_t>{64, 512});
  const File file = random_file(
      "random", writer_, [](const std::string& t) { return t == "wide" ? 1.0f : 0.02f; }, 7);
  const auto deviation_of = [&](const char* name) {
    const auto* const values = reinterpret_cast<const float*>(file.require_tensor(name).data.data());
    double squares = 0;
    for (int i = 0; i < 64 * 512; ++i) squares += static_cast<double>(values[i]) * values[i];
    return std::sqrt(squares / (64 * 512));
  };
  EXPECT_NEAR(deviation_of("wide"), 1, 0.05);
  EXPECT_NEAR(deviation_of("narrow"), 0.02, 0.001);
}

// 100 MB of Q4_K, six times round: whole blocks all over, also where one run ends and the next begins.
TEST_F(RandomFile, TensorsMayBeLargerThanWhatIsMade) {
  constexpr int64_t kRows = 350, kColumns = 1 << 19;
  writer_.declare_tensor("large", kQ4K, std::vector<int64_t>{kRows, kColumns});
  const File file = make();
  const TensorInfo& large = file.require_tensor("large");
  ASSERT_EQ(large.data.size(), size_t{kRows} * kColumns / 256 * 144);
  EXPECT_TRUE(all_finite(DType::q4_k, large.data.data(), large.elements()));
  std::vector<std::byte> start(large.data.begin(), large.data.begin() + 4096);
  large.file->release(static_cast<size_t>(large.data.data() - large.file->bytes().data()), large.data.size());
  EXPECT_EQ(std::memcmp(large.data.data(), start.data(), start.size()), 0);  // it can be read again
}

TEST_F(RandomFile, WhatCannotBe) {
  EXPECT_THAT(error_of([&] { random_file("x", Writer(), 1, 1); }), HasSubstr("not aligned"));
  EXPECT_THAT(error_of([&] { writer_.declare_tensor("t", kQ4K, std::vector<int64_t>{2, 31}); }), HasSubstr("Q4_K"));
  EXPECT_THAT(error_of([&] { writer_.declare_tensor("t", 4, std::vector<int64_t>{2, 32}); }), HasSubstr("type 4"));
  writer_.declare_tensor("t", kQ8K, std::vector<int64_t>{2, 256});
  EXPECT_THAT(error_of([&] { make(); }), HasSubstr("'t'"));
  EXPECT_THAT(error_of([&] { writer_.bytes(); }), HasSubstr("'t' has no data"));
}

}  // namespace
}  // namespace gabbro::gguf
