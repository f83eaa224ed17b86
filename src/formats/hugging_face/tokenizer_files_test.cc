#include "src/formats/hugging_face/tokenizer_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "src/base/error.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;

class TokenizerFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("gabbro-tokenizer-files-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& content) { std::ofstream(folder_ / name) << content; }
  std::string path(const std::string& name = "") const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST_F(TokenizerFilesTest, TakesTokenizerJsonBeforeTheModelFile) {
  EXPECT_FALSE(is_tokenizer_path(path()));
  EXPECT_TRUE(read_tokenizer_files(path()).empty());
  write("spiece.model", "pieces");
  EXPECT_TRUE(is_tokenizer_path(path()));
  EXPECT_EQ(read_tokenizer_files(path()).sentencepiece_model, "pieces");
  write("tokenizer.json", "{}");
  write("added_tokens.json", "{\"a\": 1}");
  const TokenizerFiles files = read_tokenizer_files(path());
  EXPECT_EQ(files.tokenizer_json, "{}");
  EXPECT_EQ(files.added_tokens, "{\"a\": 1}");
  EXPECT_FALSE(files.sentencepiece_model.has_value());
  EXPECT_FALSE(files.tokenizer_config.has_value());
  EXPECT_EQ(read_tokenizer_files(path("spiece.model")).sentencepiece_model, "pieces");
  EXPECT_FALSE(read_tokenizer_files(path("spiece.model")).tokenizer_json.has_value());
  EXPECT_TRUE(is_tokenizer_path(path("tokenizer.json")));
  EXPECT_FALSE(is_tokenizer_path(path("missing.json")));
  EXPECT_FALSE(is_tokenizer_path(path("model.safetensors.index.json")));
}

TEST_F(TokenizerFilesTest, FindsTheChatTemplate) {
  EXPECT_FALSE(read_chat_template(path()).has_value());
  write("tokenizer_config.json", R"({"chat_template": "text"})");
  EXPECT_EQ(read_chat_template(path()), "text");
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "rag", "template": "x"}, 7, {"name": "default", "template": "y"}]})");
  EXPECT_EQ(read_chat_template(path()), "y");
  write("chat_template.jinja", "file");
  EXPECT_EQ(read_chat_template(path()), "file");
  write("tokenizer_config.json", "{");
  fs::remove(folder_ / "chat_template.jinja");
  EXPECT_THROW(read_chat_template(path()), Error);
}

}  // namespace
}  // namespace gabbro
