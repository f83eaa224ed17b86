#include "src/formats/file_type.h"

#include <gtest/gtest.h>

#include <set>

namespace gabbro {
namespace {

TEST(FileType, NamesAndNumbersAreThoseOfLlamaCpp) {
  // enum llama_ftype of llama.h.
  EXPECT_EQ(find_file_type("f32")->number, 0u);
  EXPECT_EQ(find_file_type("Q4_0")->number, 2u);
  EXPECT_EQ(find_file_type("q8_0")->number, 7u);
  EXPECT_EQ(find_file_type("q2_k")->number, 10u);
  EXPECT_EQ(find_file_type("Q4_K_M")->number, 15u);
  EXPECT_EQ(find_file_type("q6_k")->number, 18u);
  EXPECT_EQ(find_file_type("iq4_nl")->number, 25u);
  EXPECT_EQ(find_file_type("iq4_xs")->number, 30u);
  EXPECT_EQ(find_file_type("bf16")->number, 32u);
  EXPECT_EQ(find_file_type("iq2_xxs")->number, 19u);
  EXPECT_EQ(find_file_type("iq2_s")->number, 28u);
  EXPECT_EQ(find_file_type("iq1_m")->number, 31u);
  EXPECT_EQ(find_file_type("tq2_0")->number, 37u);
  EXPECT_EQ(find_file_type("MXFP4")->number, 38u);
  EXPECT_EQ(find_file_type("nvfp4")->number, 39u);
  EXPECT_EQ(find_file_type("q5_k"), find_file_type("q5_k_m"));
  EXPECT_EQ(find_file_type(15u), find_file_type("q4_k_m"));
  EXPECT_EQ(find_file_type("q4_k_x"), nullptr);
  EXPECT_EQ(find_file_type(""), nullptr);
  EXPECT_EQ(find_file_type(4u), nullptr);  // was removed from the format
}

TEST(FileType, TheListHasEachFormatAndNoneTwice) {
  std::set<std::string_view> names;
  std::set<uint32_t> numbers;
  std::set<DType> bases;
  for (const FileType& type : file_types()) {
    EXPECT_TRUE(names.insert(type.name).second) << type.name;
    EXPECT_TRUE(numbers.insert(type.number).second) << type.name;
    bases.insert(type.base);
  }
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) EXPECT_TRUE(bases.contains(static_cast<DType>(i))) << i;
  EXPECT_TRUE(bases.contains(DType::f32) && bases.contains(DType::f16) && bases.contains(DType::bf16));
}

// Formats of 256 elements a block fall back to formats of 32, and these to f16, as the quantizer warns that it does.
TEST(Mixture, RowsThatAreNoNumberOfBlocks) {
  const MixtureModel model{.layers = 2, .heads = 2, .kv_heads = 2};
  const auto of = [&](const char* type, int64_t columns) {
    return mixture_dtype(*find_file_type(type), {.columns = columns}, model);
  };
  EXPECT_EQ(of("q4_k_s", 512), DType::q4_k);
  EXPECT_EQ(of("q4_k_s", 96), DType::q5_0);
  EXPECT_EQ(of("q3_k_s", 96), DType::q4_0);
  EXPECT_EQ(of("q5_k_s", 96), DType::q5_1);
  EXPECT_EQ(of("q6_k", 96), DType::q8_0);
  EXPECT_EQ(of("iq4_xs", 96), DType::iq4_nl);
  EXPECT_EQ(of("iq2_s", 96), DType::iq4_nl);
  EXPECT_EQ(of("tq1_0", 96), DType::q4_0);
  EXPECT_EQ(of("q2_0", 96), DType::q4_0);
  EXPECT_EQ(of("nvfp4", 96), DType::f16);
  EXPECT_EQ(of("q4_k_s", 33), DType::f16);
  EXPECT_EQ(of("q8_0", 33), DType::f16);
  EXPECT_EQ(of("f32", 33), DType::f32);
}

}  // namespace
}  // namespace gabbro
