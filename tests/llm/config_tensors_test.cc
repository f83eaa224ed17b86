// Tensors of the files that config.json rules out or asks for: layers after the last one, and biases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gabbro/engine/session.h"
#include "src/base/error.h"
#include "src/convert/convert.h"
#include "src/formats/hugging_face/safetensors.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::HasSubstr;

class ConfigTensors : public testing::Test {
 protected:
  ConfigTensors() : file_(folder_ + "/model.safetensors"), copy_(with_config(folder_)) {
    std::ifstream(folder_ + "/config.json") >> config_;
    for (const safetensors::TensorInfo& tensor : file_.tensors())
      tensors_.push_back({tensor.name, tensor.dtype(), tensor.shape, tensor.data});
    write();
  }

  void write() {
    safetensors::write((copy_ / "model.safetensors").string(), tensors_);
    std::ofstream(copy_ / "config.json") << config_;
  }

  std::shared_ptr<Engine> load() const { return Engine::load(copy_.string(), {.threads = 2}); }

  std::vector<float> logits() const {
    Session session(load());
    const std::span<const float> found = session.append_all_logits(read_expected(folder_).ids);
    return {found.begin(), found.end()};
  }

  std::string refusal() const {
    try {
      load();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return error.what();
    }
  }

  const std::string folder_ = family_folder("llama");  // of three layers, without biases
  const safetensors::File file_;
  const fs::path copy_;
  Json config_;
  std::vector<safetensors::TensorData> tensors_;
};

TEST_F(ConfigTensors, LayersAfterTheLastAreNotUsedAndSaidInALine) {
  EXPECT_TRUE(load()->facts().warnings.empty());
  const std::vector<float> three = logits();
  config_["num_hidden_layers"] = 2;
  write();
  const std::vector<float> two = logits();
  EXPECT_NE(two, three);
  ASSERT_EQ(load()->facts().warnings.size(), 1U);
  EXPECT_THAT(load()->facts().warnings.front(), HasSubstr("2 layers by its config.json, the files hold 3"));
  const std::string path = testing::TempDir() + "layers-" + std::to_string(::getpid()) + ".gguf";
  const llm::Converted converted = llm::convert(Checkpoint::open(copy_.string()), path,
                                                {.type = find_file_type(std::string_view("bf16")), .threads = 1});
  fs::remove(path);
  EXPECT_THAT(converted.warnings, testing::Contains(HasSubstr("the files hold 3")));
  std::erase_if(tensors_,
                [](const safetensors::TensorData& tensor) { return tensor.name.starts_with("model.layers.2."); });
  write();
  EXPECT_EQ(logits(), two);
  EXPECT_TRUE(load()->facts().warnings.empty());
}

TEST_F(ConfigTensors, FewerLayersThanTheConfigAreRefused) {
  config_["num_hidden_layers"] = 4;
  write();
  EXPECT_THAT(refusal(), HasSubstr("field 'num_hidden_layers' is 4, the files hold 3 layers"));
}

TEST_F(ConfigTensors, BiasesCountWhereTheFieldSaysSo) {
  const std::vector<float> plain = logits();
  std::vector<uint16_t> values(32, 0x3f80);  // 1 in bf16
  for (const std::string layer : {"0", "1", "2"}) {
    tensors_.push_back(
        {"model.layers." + layer + ".self_attn.o_proj.bias", DType::bf16, {32}, std::as_bytes(std::span(values))});
  }
  write();
  EXPECT_EQ(logits(), plain);  // attention_bias is false
  config_["attention_bias"] = true;
  write();
  EXPECT_THAT(refusal(), HasSubstr("q_proj.bias"));  // the others' are missing
}

TEST_F(ConfigTensors, AHeadIsMissingWhereItIsNotTied) {
  std::erase_if(tensors_, [](const safetensors::TensorData& tensor) { return tensor.name == "lm_head.weight"; });
  write();
  EXPECT_THAT(refusal(), HasSubstr("'tie_word_embeddings' is false"));
  config_["tie_word_embeddings"] = true;
  write();
  EXPECT_EQ(refusal(), "");
}

TEST_F(ConfigTensors, TheVocabularyIsThatOfTheConfig) {
  config_["vocab_size"] = 95;
  write();
  EXPECT_THAT(refusal(), HasSubstr("field 'vocab_size' is 95, tensor 'model.embed_tokens.weight' has 96 rows"));
}

}  // namespace
}  // namespace gabbro
