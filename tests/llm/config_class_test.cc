// A config.json by its configuration class: defaults, names, null, types, and rotary embeddings in the forms
// that they have had. Expected values come from transformers 5.24.
#include "src/models/config/config_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

ClassConfig read(const char* model_type, const char* fields) {
  return {*find_config_class(model_type), Json::parse(fields), "", "config.json"};
}

std::string refusal(const char* model_type, const char* fields) {
  try {
    read(model_type, fields);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

float number(const ClassConfig& config, const char* name) { return config.metadata().require_f32(config.key_of(name)); }

TEST(ConfigClass, HasTheDefaultsOfTheClass) {
  EXPECT_EQ(read("mistral", "{}").metadata().require_u32("sliding_window"), 4096U);
  EXPECT_FALSE(read("mixtral", "{}").metadata().has("sliding_window"));
  EXPECT_FALSE(read("qwen2", "{}").metadata().require_bool("use_sliding_window"));
  EXPECT_FLOAT_EQ(number(read("glm4", "{}"), "rms_norm_eps"), 1.5625e-07F);
  EXPECT_TRUE(read("gemma", "{}").metadata().require_bool("tie_word_embeddings"));
}

TEST(ConfigClass, TakesNullForNoValue) {
  EXPECT_FALSE(read("mistral", R"({"sliding_window": null})").metadata().has("sliding_window"));
  EXPECT_THAT(refusal("llama", R"({"hidden_size": null})"), HasSubstr("field 'hidden_size' is null"));
}

TEST(ConfigClass, DoesNotHaveFieldsOfOthers) {
  const ClassConfig config = read("llama", R"({"sliding_window": 3, "n_embd": 7, "num_experts": 4})");
  for (const char* name : {"sliding_window", "n_embd", "num_experts"}) {
    EXPECT_EQ(config.key_of(name), "");
    EXPECT_FALSE(config.metadata().has(name));
  }
}

TEST(ConfigClass, TakesBothNamesOfAField) {
  const ClassConfig config = read("gpt2", R"({"hidden_size": 24, "n_layer": 3})");
  EXPECT_EQ(config.metadata().require_u32(config.key_of("n_embd")), 24U);
  EXPECT_EQ(config.key_of("n_embd"), "hidden_size");  // as the file calls it, for messages
  EXPECT_EQ(config.metadata().require_u32(config.key_of("num_hidden_layers")), 3U);
  // transformers sets the other name last.
  const ClassConfig both = read("gpt2", R"({"hidden_size": 24, "n_embd": 48})");
  EXPECT_EQ(both.metadata().require_u32(both.key_of("n_embd")), 24U);
}

TEST(ConfigClass, HasNamesThatItsCodeReads) {
  const ClassConfig pattern = read("nemotron_h", R"({"hybrid_override_pattern": "M-*-"})");
  EXPECT_EQ(pattern.metadata().require_string(pattern.key_of("hybrid_override_pattern")), "M-*-");
  EXPECT_EQ(read("nemotron_h", R"({"num_hidden_layers": 7})").key_of("num_hidden_layers"), "");  // the list says it
  EXPECT_NE(read("lfm2", R"({"block_ff_dim": 7})").key_of("block_ff_dim"), "");
}

TEST(ConfigClass, RefusesOtherTypesByName) {
  EXPECT_THAT(refusal("llama", R"({"hidden_size": "64"})"),
              HasSubstr("field 'hidden_size' is \"64\", models of type 'llama' have an integer"));
  EXPECT_THAT(refusal("llama", R"({"use_cache": 1})"), HasSubstr("field 'use_cache' is 1"));
  EXPECT_THAT(refusal("llama", R"({"hidden_size": true})"), HasSubstr("field 'hidden_size' is true"));
  EXPECT_THAT(refusal("qwen2", R"({"layer_types": [1]})"), HasSubstr("field 'layer_types' is [1]"));
  EXPECT_THAT(refusal("mamba", R"({"layer_types": ["linear_attention"]})"), HasSubstr("cannot be set"));
  EXPECT_THAT(refusal("llama", R"({"num_hidden_layers": 2, "layer_types": ["full_attention"]})"),
              HasSubstr("field 'layer_types' has 1 layers, num_hidden_layers is 2"));
  EXPECT_THAT(refusal("cohere2", R"({"head_dim": {"a": 1}})"), HasSubstr("field 'head_dim' is an object"));
  EXPECT_EQ(refusal("granite", R"({"embedding_multiplier": 12})"), "");
}

TEST(ConfigClass, HasRotaryEmbeddingsOfAllVersionsInOneForm) {
  const auto base = [](const char* type, const char* fields) {
    return number(read(type, fields), "rope_parameters.rope_theta");
  };
  EXPECT_EQ(base("mixtral", "{}"), 1e6F);
  EXPECT_EQ(base("mixtral", R"({"rope_theta": 500.0})"), 500);
  EXPECT_EQ(base("mixtral", R"({"rope_theta": 500.0, "rope_parameters": {"rope_theta": 700.0}})"), 700);
  EXPECT_EQ(base("mixtral", R"({"rope_scaling": {"type": "linear", "factor": 2.0}})"), 1e6F);
  EXPECT_EQ(base("gpt_neox", R"({"rotary_emb_base": 300, "rope_theta": 500})"), 300);
  EXPECT_EQ(number(read("gpt_neox", "{}"), "rope_parameters.partial_rotary_factor"), 0.25F);
  EXPECT_EQ(base("apertus", R"({"rope_theta": 500.0})"), 12e6F);  // the class's parameters have one
  EXPECT_EQ(base("gpt_oss", R"({"rope_theta": 500.0})"), 500);
  EXPECT_EQ(read("gpt_oss", "{}").metadata().require_string("rope_parameters.rope_type"), "yarn");
  EXPECT_EQ(read("gpt_oss", R"({"rope_parameters": {}})").metadata().require_string("rope_parameters.rope_type"),
            "default");
  const ClassConfig gemma = read("gemma3_text", R"({"rope_theta": 500.0, "rope_local_base_freq": 300.0})");
  EXPECT_EQ(number(gemma, "rope_parameters.full_attention.rope_theta"), 500);
  EXPECT_EQ(number(gemma, "rope_parameters.sliding_attention.rope_theta"), 300);
  EXPECT_FALSE(
      read("llama", R"({"partial_rotary_factor": 0.5})").metadata().has("rope_parameters.partial_rotary_factor"));
  const ClassConfig yarn = read("llama", R"({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}})");
  EXPECT_EQ(number(yarn, "rope_parameters.original_max_position_embeddings"), 2048);
  EXPECT_THAT(refusal("llama", R"({"rope_scaling": {"rope_type": "linear"}})"),
              HasSubstr("field 'rope_parameters.factor' is missing"));
  EXPECT_THAT(refusal("llama", R"({"rope_theta": {"a": 1}})"), HasSubstr("rope_theta' is not a number"));
  EXPECT_THAT(refusal("llama", R"({"rope_scaling": "linear"})"), HasSubstr("'rope_scaling' is not an object"));
  EXPECT_EQ(read("phi3", R"({"rope_scaling": {"type": "su", "short_factor": [1.0], "long_factor": [2.0]}})")
                .metadata()
                .require_string("rope_parameters.rope_type"),
            "longrope");
}

TEST(ConfigClass, BiasesAreThereWhereAFieldSaysSo) {
  EXPECT_EQ(read("llama", "{}").has_bias("q_proj"), false);
  EXPECT_EQ(read("llama", R"({"attention_bias": true})").has_bias("q_proj"), true);
  EXPECT_EQ(read("qwen2", R"({"attention_bias": true})").has_bias("o_proj"), false);
  EXPECT_EQ(read("qwen2", "{}").has_bias("q_proj"), std::nullopt);  // always, so the files decide
}

TEST(ConfigClass, EachFamilyHasOne) {
  // Names of GGUF only.
  for (const Family* family : families()) {
    const bool known = std::ranges::any_of(family->architectures,
                                           [](std::string_view name) { return find_config_class(name) != nullptr; });
    EXPECT_TRUE(known) << family->architectures.front();
  }
}

TEST(TextFields, AreThoseOfTheLanguageModel) {
  const Json nested = Json::parse(R"({"model_type": "gemma3", "text_config": {"hidden_size": 8}})");
  EXPECT_EQ(text_fields_of(nested, "").model_type, "gemma3_text");
  EXPECT_EQ(text_fields_of(nested, "").prefix, "text_config.");
  const Json other = Json::parse(R"({"model_type": "llava", "text_config": {"model_type": "llama"}})");
  EXPECT_EQ(text_fields_of(other, "").model_type, "llama");
  const Json flat = Json::parse(R"({"model_type": "gemma3", "hidden_size": 8})");
  EXPECT_EQ(text_fields_of(flat, "").model_type, "gemma3_text");
  EXPECT_EQ(text_fields_of(flat, "").prefix, "");
}

}  // namespace
}  // namespace gabbro::llm
