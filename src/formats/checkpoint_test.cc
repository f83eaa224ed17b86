#include "src/formats/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "src/base/error.h"
#include "src/formats/gguf/gguf.h"
#include "src/formats/hugging_face/json_file.h"
#include "src/formats/hugging_face/safetensors.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 64, "rms_norm_eps": 1e-06, "pad": null,
  "rope_scaling": {"factor": 8, "rope_type": "llama3"}, "layer_types": ["full", "sliding"], "tied": true})";

class CheckpointFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "checkpoint-" + std::to_string(::getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void put(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  // A file with one f32 matrix [3, 4] of 0, 1, 2 ...
  void put_matrix(const std::string& file, const std::string& name) const {
    float values[12];
    for (int i = 0; i < 12; ++i) values[i] = static_cast<float>(i);
    const safetensors::TensorData tensor{name, DType::f32, {3, 4}, std::as_bytes(std::span(values))};
    safetensors::write(path(file), std::span(&tensor, 1));
  }

  std::string refusal(const std::string& file = "") const {
    try {
      Checkpoint::open(file.empty() ? folder_.string() : path(file));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return std::string(error.what()) + " | " + error.hint();
    }
    return "";
  }

  fs::path folder_;
};

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(CheckpointOfGguf, HasTheFieldsAndTensorsOfTheFile) {
  const std::string path = GABBRO_SOURCE_DIR "/tests/data/tiny/tiny-q8_0.gguf";
  const gguf::File file = gguf::File::open(path);
  const Checkpoint checkpoint = Checkpoint::open(path);
  EXPECT_EQ(checkpoint.path(), path);
  EXPECT_EQ(checkpoint.layout(), CheckpointLayout::kGguf);
  EXPECT_EQ(checkpoint.description(), "GGUF v3");
  EXPECT_EQ(checkpoint.file_bytes(), fs::file_size(path));
  EXPECT_EQ(checkpoint.metadata().fields().size(), file.fields().size());
  EXPECT_EQ(checkpoint.metadata().require_u32("llama.block_count"), file.require_u32("llama.block_count"));
  EXPECT_EQ(checkpoint.chat_template(), file.require_string("tokenizer.chat_template"));
  ASSERT_EQ(checkpoint.tensors().size(), file.tensors().size());
  for (const gguf::TensorInfo& info : file.tensors()) {
    const CheckpointTensor& tensor = checkpoint.require_tensor(info.name);
    EXPECT_EQ(tensor.shape, info.shape);
    EXPECT_EQ(tensor.dtype(), info.dtype());
    EXPECT_TRUE(std::ranges::equal(tensor.data, info.data));
    EXPECT_EQ(tensor.offset(), static_cast<uint64_t>(info.data.data() - info.file->bytes().data()));
  }
  EXPECT_EQ(checkpoint.tensor("none"), nullptr);
}

// Blocks of a row stay together; columns begin and end with blocks.
TEST(CheckpointOfGguf, RowsAndColumnsOfBlocks) {
  const Checkpoint checkpoint = Checkpoint::open(GABBRO_SOURCE_DIR "/tests/data/tiny/tiny-q8_0.gguf");
  const CheckpointTensor& matrix = checkpoint.require_tensor("token_embd.weight");
  ASSERT_EQ(matrix.dtype(), DType::q8_0);
  ASSERT_EQ(matrix.shape[1], 64);
  constexpr size_t kBlock = 34;
  const CheckpointTensor rows = matrix.rows(3, 2);
  EXPECT_THAT(rows.shape, ElementsAre(2, 64));
  EXPECT_EQ(rows.data.data(), matrix.data.data() + 3 * 2 * kBlock);
  EXPECT_EQ(rows.data.size(), 2 * 2 * kBlock);
  const std::vector<std::byte> columns = rows.columns(32, 32);
  ASSERT_EQ(columns.size(), 2 * kBlock);
  EXPECT_TRUE(std::equal(columns.begin(), columns.begin() + kBlock, rows.data.begin() + kBlock));
  EXPECT_TRUE(std::equal(columns.begin() + kBlock, columns.end(), rows.data.begin() + 3 * kBlock));
  EXPECT_THROW(matrix.columns(16, 32), Error);
  EXPECT_THROW(matrix.rows(matrix.shape[0], 1), Error);
  EXPECT_THROW(matrix.rows(-1, 1), Error);
  EXPECT_THROW(matrix.rows(0, INT64_MAX), Error);
  EXPECT_THROW(checkpoint.require_tensor("output_norm.weight").rows(0, 1), Error);
}

// Python writes them so, transformers 5 as objects.
TEST_F(CheckpointFolder, ReadsNumbersThatJsonHasNot) {
  put("config.json", R"({"model_type": "mamba2", "note": "\\\" Infinity", "limit": [0.0, Infinity], "least": -Infinity,
                         "new": [1, {"__float__": "Infinity"}], "wrong": NaN})");
  put_matrix("model.safetensors", "model.embed_tokens.weight");
  const Checkpoint checkpoint = Checkpoint::open(folder_.string());
  const Metadata& metadata = checkpoint.metadata();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(metadata.f32s("limit"), ElementsAre(0.0f, kInfinity));
  EXPECT_THAT(metadata.f32s("new"), ElementsAre(1.0f, kInfinity));
  EXPECT_EQ(metadata.require_f32("least"), -kInfinity);
  EXPECT_EQ(metadata.require_string("note"), "\\\" Infinity");
  EXPECT_THROW(metadata.require_f32("wrong"), Error);
}

TEST_F(CheckpointFolder, HasTheFieldsOfItsConfiguration) {
  put("config.json", kConfig);
  put("generation_config.json", R"({"temperature": 0.6, "eos_token_id": [1, 2]})");
  put_matrix("model.safetensors", "model.embed_tokens.weight");
  const Checkpoint checkpoint = Checkpoint::open(folder_.string());
  const Metadata& metadata = checkpoint.metadata();
  EXPECT_EQ(checkpoint.layout(), CheckpointLayout::kHuggingFace);
  EXPECT_EQ(metadata.require_string("model_type"), "llama");
  EXPECT_EQ(metadata.require_u32("hidden_size"), 64u);
  EXPECT_EQ(metadata.require_f32("hidden_size"), 64.0f);
  EXPECT_EQ(metadata.require_f32("rms_norm_eps"), 1e-6f);
  EXPECT_EQ(metadata.require_u32("rope_scaling.factor"), 8u);
  EXPECT_EQ(metadata.require_string("rope_scaling.rope_type"), "llama3");
  EXPECT_THAT(metadata.strings("layer_types"), ElementsAre("full", "sliding"));
  EXPECT_TRUE(metadata.require_bool("tied"));
  EXPECT_FALSE(metadata.has("pad"));  // null
  EXPECT_EQ(metadata.require_f32("generation_config.temperature"), 0.6f);
  EXPECT_THAT(metadata.u32s("generation_config.eos_token_id"), ElementsAre(1u, 2u));
  try {
    metadata.require_u32("model_type");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("metadata 'model_type': string is not u32"));
  }
}

TEST_F(CheckpointFolder, ReadsItsFilesByTheIndexOrWithoutOne) {
  put("config.json", kConfig);
  put_matrix("a.safetensors", "x");
  put_matrix("b.safetensors", "y");
  const auto names = [](const Checkpoint& checkpoint) {
    std::vector<std::string> all;
    for (const CheckpointTensor& tensor : checkpoint.tensors()) all.emplace_back(tensor.name);
    return all;
  };
  EXPECT_THAT(names(Checkpoint::open(folder_.string())), ElementsAre("x", "y"));
  EXPECT_THAT(names(Checkpoint::open(path("b.safetensors"))), ElementsAre("y"));
  put("model.safetensors.index.json", R"({"metadata": {}, "weight_map": {"y": "b.safetensors"}})");
  const Checkpoint checkpoint = Checkpoint::open(folder_.string());
  EXPECT_THAT(names(checkpoint), ElementsAre("y"));
  EXPECT_THAT(names(Checkpoint::open(path("model.safetensors.index.json"))), ElementsAre("y"));
  const CheckpointTensor& matrix = checkpoint.require_tensor("y");
  EXPECT_THAT(floats(matrix.rows(1, 1).data), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(floats(matrix.columns(1, 2)), ElementsAre(1, 2, 5, 6, 9, 10));
}

TEST_F(CheckpointFolder, TheChatTemplateIsInOneOfThreePlaces) {
  put("config.json", kConfig);
  put_matrix("model.safetensors", "x");
  const auto source = [&] { return Checkpoint::open(folder_.string()).chat_template(); };
  EXPECT_EQ(source(), std::nullopt);
  put("tokenizer_config.json", R"({"chat_template": "one"})");
  EXPECT_EQ(source(), "one");
  put("tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}, {"name": 3}]})");
  EXPECT_EQ(source(), "b");
  put("tokenizer_config.json", R"({"chat_template": [{"name": 1, "template": "a"}]})");
  EXPECT_EQ(source(), "a");
  put("tokenizer_config.json", "[]");
  EXPECT_EQ(source(), std::nullopt);
  put("chat_template.jinja", "file");
  EXPECT_EQ(source(), "file");
}

TEST_F(CheckpointFolder, NamesWhatIsWrong) {
  put("config.json", kConfig);
  EXPECT_THAT(refusal(), HasSubstr("the folder holds no safetensors files"));
  put_matrix("model.safetensors", "x");
  EXPECT_EQ(refusal(), "");
  const auto index = [&](const char* text) {
    put("model.safetensors.index.json", text);
    return refusal();
  };
  EXPECT_THAT(index("[]"), HasSubstr("has no weight_map"));
  EXPECT_THAT(index("{"), HasSubstr("model.safetensors.index.json: no JSON at byte"));
  EXPECT_THAT(index(R"({"weight_map": {}})"), HasSubstr("names no file"));
  EXPECT_THAT(index(R"({"weight_map": {"x": 1}})"), HasSubstr("'x' is not the name of a file"));
  EXPECT_THAT(index(R"({"weight_map": {"x": "../x.safetensors"}})"), HasSubstr("is not a file of the folder"));
  EXPECT_THAT(index(R"({"weight_map": {"x": "/etc/passwd"}})"), HasSubstr("is not a file of the folder"));
  EXPECT_THAT(index(R"({"weight_map": {"x": "model.safetensors", "y": "b.safetensors"}})"),
              HasSubstr("b.safetensors: is missing"));
  put_matrix("b.safetensors", "x");
  EXPECT_THAT(index(R"({"weight_map": {"x": "model.safetensors", "y": "b.safetensors"}})"),
              HasSubstr("tensor 'x' is in"));
  fs::remove(folder_ / "model.safetensors.index.json");
  put("config.json", "3");
  EXPECT_THAT(refusal(), HasSubstr("config.json: is not an object"));
  put("config.json", R"({"a": 1, "a": 2})");
  EXPECT_THAT(refusal(), HasSubstr("config.json: key 'a' is there twice"));
  put("config.json", R"({"a": 1e999})");
  EXPECT_THAT(refusal(), HasSubstr("config.json: a number is out of range"));
  put("config.json", std::string(5000, '[') + std::string(5000, ']'));
  EXPECT_THAT(refusal(), HasSubstr("is nested deeper than 100"));
  fs::remove(folder_ / "config.json");
  EXPECT_THAT(refusal(), HasSubstr("its config.json is missing"));
}

}  // namespace
}  // namespace gabbro
