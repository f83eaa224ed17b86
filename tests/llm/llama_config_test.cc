// Configurations of llama files that are accepted, and those that are refused: each time one line that names the file
// and the field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/models/llm/decoder_config.h"
#include "src/models/llm/registry.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using test::tiny_llama;
using test::TinyModel;
using testing::HasSubstr;

llm::DecoderConfig read_config(const Checkpoint& file) {
  return llm::read_decoder_config(llm::ConfigReader(file), llm::kDecoderNames);
}

// The message with which loading fails, after the file's name; "" where it does not.
std::string refusal(const TinyModel& model) {
  const std::string path = model.write("config");
  try {
    const Checkpoint file = Checkpoint::open(path);
    llm::load_model(file, open_device("null"), {.context = TinyModel::kContext});
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.what();
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    return message.substr(std::min(message.size(), path.size() + 2));
  }
}

template <class T>
std::string refusal_of_field(const std::string& name, T value) {
  TinyModel model = tiny_llama();
  model.fields[name] = value;
  return refusal(model);
}

TEST(LlamaConfig, ReadsTheSizes) {
  TinyModel model = tiny_llama();
  const Checkpoint file = Checkpoint::open(model.write("config"));
  const llm::DecoderConfig config = read_config(file);
  EXPECT_EQ(config.shape.layers, TinyModel::kL);
  EXPECT_EQ(config.shape.heads, TinyModel::kH);
  EXPECT_EQ(config.shape.kv_heads, TinyModel::kG);
  EXPECT_EQ(config.shape.head_dimension, TinyModel::kD);
  EXPECT_EQ(config.shape.vocabulary, TinyModel::kV);
  EXPECT_EQ(config.shape.context_trained, TinyModel::kContext);
  EXPECT_FLOAT_EQ(config.attention_scale, 1 / std::sqrt(32.0f));
  EXPECT_EQ(config.layers[0].window, 0);
  EXPECT_EQ(config.rope.dimensions, TinyModel::kD);
  EXPECT_EQ(refusal(model), "");
}

TEST(LlamaConfig, OldFilesNameTheLinearScaleAlone) {
  TinyModel model = tiny_llama();
  model.fields["rope.scale_linear"] = 2.0f;
  const llm::DecoderConfig config = read_config(Checkpoint::open(model.write("config")));
  EXPECT_EQ(config.rope.scaling, nn::RopeScaling::kLinear);
  EXPECT_EQ(config.rope.factor, 2);
}

// As llama.cpp does, for which linear scaling needs no name.
TEST(LlamaConfig, AFactorAloneScalesLinearly) {
  TinyModel model = tiny_llama();
  const auto rope = [&] { return read_config(Checkpoint::open(model.write("config"))).rope; };
  model.fields["rope.scaling.factor"] = 4.0f;
  EXPECT_EQ(rope().scaling, nn::RopeScaling::kLinear);
  EXPECT_EQ(rope().factor, 4);
  model.fields["rope.scale_linear"] = 2.0f;  // the old name counts where the new one is missing
  EXPECT_EQ(rope().factor, 4);
  model.fields["rope.scaling.type"] = std::string("none");
  EXPECT_EQ(rope().scaling, nn::RopeScaling::kNone);
  model.fields.erase("rope.scaling.factor");
  model.fields["rope.scaling.type"] = std::string("linear");
  EXPECT_EQ(rope().scaling, nn::RopeScaling::kLinear);
  EXPECT_EQ(rope().factor, 2);
}

TEST(LlamaConfig, EverySizeHasBounds) {
  const struct {
    const char* field;
    int64_t value;
    const char* message;
  } cases[] = {
      {"block_count", 0, "field 'llama.block_count' is 0, expected 1 to 4096"},
      {"block_count", 100000, "field 'llama.block_count' is 100000, expected 1 to 4096"},
      {"embedding_length", 0, "field 'llama.embedding_length' is 0, expected 1 to 1048576"},
      {"attention.head_count", 0, "field 'llama.attention.head_count' is 0, expected 1 to 16384"},
      {"attention.head_count", 3,
       "field 'llama.attention.head_count' is 3, which does not divide the embedding length 64"},
      {"attention.head_count_kv", 0, "field 'llama.attention.head_count_kv' is 0, expected 1 to 2"},
      {"attention.head_count_kv", 4, "field 'llama.attention.head_count_kv' is 4, expected 1 to 2"},
      {"attention.key_length", 0, "field 'llama.attention.key_length' is 0, expected 2 to 4096"},
      {"attention.key_length", 1 << 20, "field 'llama.attention.key_length' is 1048576, expected 2 to 4096"},
      {"attention.value_length", 16,
       "field 'llama.attention.value_length' differs from the key length, which is not supported"},
      {"context_length", 0, "field 'llama.context_length' is 0, expected 1 to 4294967296"},
      {"feed_forward_length", 0, "field 'llama.feed_forward_length' is 0, expected 1 to 4194304"},
      {"rope.dimension_count", 31, "field 'llama.rope.dimension_count' is 31, expected an even number"},
      {"rope.dimension_count", 34, "field 'llama.rope.dimension_count' is 34, expected 2 to 32"},
      {"rope.scaling.original_context_length", 0,
       "field 'llama.rope.scaling.original_context_length' is 0, expected 1 to 4294967296"},
      {"expert_count", 8, "metadata 'llama.expert_used_count' is missing"},
  };
  for (const auto& c : cases) EXPECT_EQ(refusal_of_field(c.field, c.value), c.message);
  TinyModel model = tiny_llama();
  model.fields["attention.head_count"] = int64_t{4};
  model.fields["attention.head_count_kv"] = int64_t{3};
  EXPECT_EQ(refusal(model), "field 'llama.attention.head_count_kv' is 3, which does not divide the 4 heads");
}

TEST(LlamaConfig, EveryNumberHasBounds) {
  const struct {
    const char* field;
    float value;
    const char* message;
  } cases[] = {
      {"attention.layer_norm_rms_epsilon", -1.0f,
       "field 'llama.attention.layer_norm_rms_epsilon' is -1, expected 0 to 1"},
      {"attention.layer_norm_rms_epsilon", NAN,
       "field 'llama.attention.layer_norm_rms_epsilon' is nan, expected 0 to 1"},
      {"rope.freq_base", 0.0f, "field 'llama.rope.freq_base' is 0, expected 1 to 1000000000000"},
      {"rope.freq_base", INFINITY, "field 'llama.rope.freq_base' is inf, expected 1 to 1000000000000"},
      {"rope.scaling.factor", 0.0f, "field 'llama.rope.scaling.factor' is 0, expected 0.001 to 1000000"},
      {"rope.scaling.attn_factor", -2.0f, "field 'llama.rope.scaling.attn_factor' is -2, expected 0.001 to 1000"},
      {"attention.scale", -1.0f, "field 'llama.attention.scale' is -1, expected 0 to 1000"},
      {"logit_scale", 0.0f, "field 'llama.logit_scale' is 0, expected 1e-06 to 1000000"},
  };
  for (const auto& c : cases) EXPECT_EQ(refusal_of_field(c.field, c.value), c.message);
}

TEST(LlamaConfig, FieldsOfTheWrongKindAndMissingOnes) {
  EXPECT_EQ(refusal_of_field("rope.scaling.type", std::string("cubic")),
            "field 'llama.rope.scaling.type' is 'cubic', expected none, linear, yarn or longrope");
  EXPECT_THAT(refusal_of_field("block_count", std::string("two")), HasSubstr("'llama.block_count'"));
  EXPECT_THAT(refusal_of_field("rope.freq_base", std::string("big")), HasSubstr("'llama.rope.freq_base'"));
  for (const char* field :
       {"block_count", "embedding_length", "attention.head_count", "context_length", "feed_forward_length"}) {
    TinyModel model = tiny_llama();
    model.fields.erase(field);
    EXPECT_THAT(refusal(model), HasSubstr(std::string("'llama.") + field + "'"));
  }
}

TEST(LlamaWeights, MissingOnesAndWrongShapesAreNamed) {
  for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.1.attn_q.weight", "blk.0.ffn_norm.weight",
                           "blk.1.ffn_down.weight"}) {
    TinyModel model = tiny_llama();
    model.tensors.erase(name);
    EXPECT_THAT(refusal(model), HasSubstr(std::string("'") + name + "'"));
  }
  TinyModel model = tiny_llama();
  model.tensors["blk.0.attn_k.weight"].shape = {64, 32};
  EXPECT_EQ(refusal(model), "tensor 'blk.0.attn_k.weight' has shape (64, 32), the model's sizes ask for (32, 64)");
  model = tiny_llama();
  model.tensors["token_embd.weight"].shape = {300 * 64};
  EXPECT_EQ(refusal(model), "tensor 'token_embd.weight' is not a matrix");
  model = tiny_llama({.bias = true});
  model.tensors["blk.0.attn_q.bias"].shape = {2, 32};
  EXPECT_EQ(refusal(model), "tensor 'blk.0.attn_q.bias' has shape (2, 32), the model's sizes ask for (64)");
}

// Vectors, and matrices that the device has in another layout than the file (Q8_0 on the CPU), are read while loading.
TEST(LlamaWeights, ValuesThatAreNotNumbersAreRefused) {
  for (const char* name : {"token_embd.weight", "blk.1.attn_norm.weight", "blk.0.ffn_up.weight"}) {
    TinyModel model = tiny_llama();
    model.weights = DType::q8_0;
    model.tensors[name].values.back() = INFINITY;  // in a block: that of its scale
    const Checkpoint file = Checkpoint::open(model.write("config"));
    llm::LoadModelOptions options{.context = TinyModel::kContext};
    try {
      llm::load_model(file, open_device("cpu"), options);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr(std::string("tensor '") + name + "' has values that are not numbers; the file is damaged"));
    }
    options.check_weights = false;
    EXPECT_NO_THROW(llm::load_model(file, open_device("cpu"), options));
  }
}

// Loading does not read them.
TEST(LlamaWeights, ThatAreUsedInTheFileAreNotChecked) {
  TinyModel model = tiny_llama();
  model.tensors["blk.0.ffn_up.weight"].values.back() = NAN;
  EXPECT_EQ(refusal(model), "");
}

TEST(LlamaWeights, RotaryFactorsAreDivisors) {
  for (const float value : {0.0f, -1.0f}) {
    TinyModel model = tiny_llama();
    model.tensors["rope_freqs.weight"] = {.shape = {16}, .values = std::vector<float>(16, 1)};
    EXPECT_EQ(refusal(model), "");
    model.tensors["rope_freqs.weight"].values[3] = value;
    EXPECT_THAT(refusal(model), HasSubstr("tensor 'rope_freqs.weight'"));
  }
  TinyModel model = tiny_llama();
  model.fields["rope.scaling.type"] = std::string("longrope");
  EXPECT_THAT(refusal(model), HasSubstr("'rope_factors_short.weight'"));
  model.tensors["rope_factors_short.weight"] = {.shape = {16}, .values = std::vector<float>(16, 1)};
  model.fields["rope.scaling.original_context_length"] = int64_t{256};
  EXPECT_EQ(refusal(model), "");  // no text in this context wants the other
  model.fields["rope.scaling.original_context_length"] = int64_t{64};
  EXPECT_THAT(refusal(model), HasSubstr("'rope_factors_long.weight'"));
}

TEST(Families, UnknownOnesAreNamedWithThoseThatWork) {
  TinyModel model = tiny_llama();
  model.architecture = "abacus";
  try {
    llm::load_model(Checkpoint::open(model.write("config")), open_device("null"), {.context = TinyModel::kContext});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("models of architecture 'abacus' are not supported"));
    EXPECT_THAT(error.hint(), HasSubstr("llama, mistral, "));
  }
}

TEST(Loading, TellsHowFarItIs) {
  std::vector<uint64_t> steps;
  uint64_t all = 0;
  const auto progress = [&](uint64_t done, uint64_t total) {
    steps.push_back(done);
    all = total;
  };
  llm::load_model(Checkpoint::open(tiny_llama().write("config")), open_device("null"),
                  {.context = TinyModel::kContext, .progress = progress});
  EXPECT_TRUE(std::ranges::is_sorted(steps));
  EXPECT_EQ(steps.back(), all);
}

}  // namespace
}  // namespace gabbro
