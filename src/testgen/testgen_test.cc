// The shrinker by its rules, the choice of a class, and files of packs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/testgen/pack.h"
#include "src/testgen/shrink.h"
#include "src/testgen/shrink_rules.h"
#include "src/testgen/test_files.h"

namespace gabbro::testgen {
namespace {

Json tiny(const char* text) { return shrink(Json::parse(text), Size::kTiny, "config.json").config; }

TEST(Shrink, KeepsTheRelationOfHeads) {
  for (const auto& [given, expected] : {std::pair(32, 4), {8, 2}, {1, 1}}) {
    const Json config = tiny(fmt::format(R"({{"hidden_size": 4096, "num_attention_heads": 32,
                                             "num_key_value_heads": {}}})",
                                         given)
                                 .c_str());
    EXPECT_EQ(config.at("num_key_value_heads"), expected);
    EXPECT_EQ(config.at("num_attention_heads"), 4);
  }
}

TEST(Shrink, KeepsEveryKindOfLayer) {
  const Json config = tiny(R"({"num_hidden_layers": 6, "layer_types": ["a", "a", "a", "b", "a", "a"],
                               "widths_of_layers": [1, 2, 3, 4, 5, 6]})");
  EXPECT_EQ(config.at("num_hidden_layers"), 4);
  EXPECT_EQ(config.at("layer_types"), Json({"a", "a", "a", "b"}));
  EXPECT_EQ(config.at("widths_of_layers"), Json({1, 2, 3, 4}));
}

TEST(Shrink, MovesTokensTogether) {
  const Json config =
      tiny(R"({"vocab_size": 32000, "eos_token_id": [31999, 2], "pad_token_id": 31999, "bos_token_id": null})");
  EXPECT_EQ(config.at("eos_token_id"), Json({511, 2}));
  EXPECT_EQ(config.at("pad_token_id"), 511);
}

TEST(Shrink, LeavesSmallModelsAndTrueWidths) {
  const Json small = Json::parse(R"({"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2})");
  EXPECT_EQ(shrink(small, Size::kTiny, "x").config, small);
  const Json large = Json::parse(R"({"hidden_size": 4096, "num_hidden_layers": 32})");
  EXPECT_EQ(shrink(large, Size::kTrue, "x").config, Json::parse(R"({"hidden_size": 4096, "num_hidden_layers": 2})"));
  EXPECT_EQ(shrink(large, Size::kFull, "x").config, large);
}

TEST(Shrink, KeepsTheSizeOfHeads) {
  const Json config = Json::parse(R"({"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32})");
  EXPECT_EQ(shrink(config, Size::kHeads, "x").config,
            Json::parse(R"({"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2})"));
  const Json named = Json::parse(R"({"hidden_size": 1000, "num_attention_heads": 8, "head_dim": 80})");
  EXPECT_EQ(shrink(named, Size::kHeads, "x").config,
            Json::parse(R"({"hidden_size": 320, "num_attention_heads": 4, "head_dim": 80})"));
  const Json huge = Json::parse(R"({"hidden_size": 1099511627776, "num_attention_heads": 1, "head_dim": null})");
  EXPECT_EQ(shrink(huge, Size::kHeads, "x").config,
            Json::parse(R"({"hidden_size": 256, "num_attention_heads": 1, "head_dim": 256})"));
}

TEST(Shrink, NamesNumbersOutOfRange) {
  try {
    tiny(R"({"text_config": {"hidden_size": 18446744073709551615}})");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("config.json: field 'text_config.hidden_size'"));
  }
}

TEST(ShrinkRules, Patterns) {
  EXPECT_TRUE(matches_pattern("*_token_id", "image_token_id"));
  EXPECT_TRUE(matches_pattern("num_*_layers", "num_encoder_layers"));
  EXPECT_FALSE(matches_pattern("num_*_layers", "num_layer"));
}

TEST(TestFiles, ImportsThatAreUsed) {
  EXPECT_EQ(add_imports("a\n\n# imports\n\nx = torch.ones(support.N)\n"),
            "a\n\nimport torch\n\nimport support\n\nx = torch.ones(support.N)\n");
}

TEST(TestFiles, FunctionsOfOtherChecksAreLeftOut) {
  const std::string text = "head\n\n\ndef test_cache(a):\n    pass\n\n\ndef test_memory_leak(a):\n    pass\n";
  EXPECT_EQ(keep_checks(text, {"memory"}), "head\n\n\ndef test_memory_leak(a):\n    pass\n");
  EXPECT_EQ(keep_checks(text, {"layers"}), "");
}

TEST(Pack, IsTheSameAgainForEveryTenthType) {
  const auto types = TypeTable::get().types();
  size_t made = 0;
  for (size_t i = 0; i < types.size(); i += 10) {
    try {
      const Source source = default_source(types[i]);
      EXPECT_EQ(make_pack(source, {}).files, make_pack(source, {}).files);
      ++made;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.what();
    }
  }
  EXPECT_GT(made, 40u);
}

}  // namespace
TEST(Recipe, AnArgumentThatATypeDoesNotRunWithoutIsRequired) {
  try {
    check_source(default_source("gemma4_unified_assistant"), "causal-lm");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("no recipe for the argument 'shared_kv_states'"));
  }
  EXPECT_NO_THROW(check_source(default_source("gemma3"), ""));
}

}  // namespace gabbro::testgen
