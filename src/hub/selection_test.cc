#include "src/hub/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/hub/gguf_files.h"

namespace gabbro::hub {
namespace {

using testing::ElementsAre;

std::vector<RepoFile> repo_of(const std::vector<std::string>& paths) {
  std::vector<RepoFile> files;
  for (const std::string& path : paths) files.push_back({path, 1, "", false});
  return files;
}

// The paths that are chosen, or the message and the hint.
std::vector<std::string> chosen(const std::vector<std::string>& paths, const std::string& tag = "",
                                const std::vector<std::string>& include = {}) {
  std::vector<std::string> found;
  try {
    for (const RepoFile& file : select_files(repo_of(paths), {"own/m", "", tag}, include, {}).files)
      found.push_back(file.path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return {error.what(), error.hint()};
  }
  return found;
}

TEST(Quantizations, AreTheEndOfNames) {
  EXPECT_EQ(quantization_label("Qwen3-8B-Q4_K_M"), "Q4_K_M");
  EXPECT_EQ(quantization_label("qwen2.5-7b-instruct-q5_0"), "q5_0");
  EXPECT_EQ(quantization_label("Llama-3.2-3B-Instruct.IQ3_XXS"), "IQ3_XXS");
  EXPECT_EQ(quantization_label("m-UD-Q4_K_XL"), "UD-Q4_K_XL");
  EXPECT_EQ(quantization_label("gpt-oss-20b-mxfp4"), "mxfp4");
  EXPECT_EQ(quantization_label("m-BF16"), "BF16");
  EXPECT_EQ(quantization_label("Q8_0/model"), "Q8_0");
  EXPECT_EQ(quantization_label("model"), "");
  EXPECT_EQ(quantization_label("m-Quill"), "");
  EXPECT_EQ(quantization_label(""), "");
}

TEST(Quantizations, PartsAndOneFile) {
  const auto models =
      gguf_models({"m-q4_k_m-00002-of-00002.gguf", "m-q4_k_m-00001-of-00002.gguf", "m-q8_0.gguf",
                   "m-q8_0-00001-of-00003.gguf", "mmproj-f16.gguf", "m.imatrix.gguf", "x.txt", "n.GGUF"});
  ASSERT_EQ(models.size(), 3u);  // where a model is in one file and in parts, the one file counts
  EXPECT_THAT(models[0].files, ElementsAre("m-q4_k_m-00001-of-00002.gguf", "m-q4_k_m-00002-of-00002.gguf"));
  EXPECT_THAT(models[1].files, ElementsAre("m-q8_0.gguf"));
  EXPECT_EQ(models[2].label, "");
  EXPECT_EQ(known_tags(models), "q4_k_m, q8_0, n.GGUF");
  EXPECT_FALSE(gguf_models({"m-00001-of-00002.gguf"}).front().is_complete);
}

TEST(Selections, ATagIsAQuantizationOrAFile) {
  const std::vector<std::string> paths = {"a-Q4_K_M.gguf", "a-UD-Q4_K_M.gguf", "a-UD-Q2_K.gguf", "d/b-Q4_0.gguf",
                                          "e/c-Q4_0.gguf"};
  EXPECT_THAT(chosen(paths), ElementsAre("a-Q4_K_M.gguf"));
  EXPECT_THAT(chosen(paths, "ud-q4_k_m"), ElementsAre("a-UD-Q4_K_M.gguf"));
  EXPECT_THAT(chosen(paths, "q2_k"), ElementsAre("a-UD-Q2_K.gguf"));
  EXPECT_THAT(chosen(paths, "b-Q4_0.gguf"), ElementsAre("d/b-Q4_0.gguf"));
  EXPECT_THAT(chosen(paths, "e/c-Q4_0"), ElementsAre("e/c-Q4_0.gguf"));
  EXPECT_THAT(chosen(paths, "q4_0"), ElementsAre("own/m has no model 'q4_0'",
                                                 "give one of these after a colon: d/b-Q4_0.gguf, e/c-Q4_0.gguf"));
  EXPECT_THAT(chosen({"a-Q4_0.gguf", "a-Q8_0.gguf"}),
              ElementsAre("own/m has 2 models", "give one of these after a colon: q4_0, q8_0"));
  EXPECT_THAT(chosen({"x"}, "q4_0"), ElementsAre("own/m has no GGUF files", ""));
}

TEST(Selections, AFolderIsAModelWithItsTokenizer) {
  EXPECT_THAT(chosen({"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                      "pytorch_model.bin", "original/x.safetensors", "tokenizer.model", "m-Q8_0.gguf", ".hidden.json"}),
              ElementsAre("config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "tokenizer.model"));
  EXPECT_THAT(chosen({"config.json", "m-Q8_0.gguf"}), ElementsAre("m-Q8_0.gguf"));
  EXPECT_THAT(chosen({"config.json", "consolidated.safetensors"}),
              ElementsAre("config.json", "consolidated.safetensors"));
}

TEST(Selections, PatternsAreThoseOfPython) {
  const std::vector<std::string> paths = {"a.json", "d/b.json", "d/e/c.txt"};
  EXPECT_THAT(chosen(paths, "", {"*.json"}), ElementsAre("a.json", "d/b.json"));  // '*' matches '/' too
  EXPECT_THAT(chosen(paths, "", {"d/"}), ElementsAre("d/b.json", "d/e/c.txt"));
  EXPECT_THAT(chosen(paths, "", {"[!d]*", "d/?/*"}), ElementsAre("a.json", "d/e/c.txt"));
  EXPECT_EQ(chosen(paths, "", {"x"}).front(), "own/m has no file that matches x");
}

}  // namespace
}  // namespace gabbro::hub
