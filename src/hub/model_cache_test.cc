#include "src/hub/model_cache.h"

#include <cstdlib>
#include <fstream>

#include "src/formats/gguf/gguf_test_support.h"

namespace gabbro {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class ModelCache : public testing::Test {
 protected:
  ModelCache() {
    setenv("GABBRO_HOME", home_.path().c_str(), 1);
    std::filesystem::create_directory(models());
  }
  ~ModelCache() override { unsetenv("GABBRO_HOME"); }

  std::string models() const { return home_ / "models"; }
  std::string path(const std::string& name) const { return fmt::format("{}/{}", models(), name); }
  void put(const std::string& name, size_t bytes) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << std::string(bytes, 'x');
  }
  // Message and hint.
  static std::string error_of(const std::string& model) {
    try {
      return resolve_model(model);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return fmt::format("{} | {}", error.what(), error.hint());
    }
  }

  gguf::TemporaryFolder home_;
};

TEST_F(ModelCache, ANameMeansAFileOfTheCacheInWhateverCase) {
  put("SmolLM2-135M.Q4_1.gguf", 1);
  put("big.GGUF", 1);
  EXPECT_EQ(resolve_model("SmolLM2-135M.Q4_1"), path("SmolLM2-135M.Q4_1.gguf"));
  EXPECT_EQ(resolve_model("smollm2-135m.q4_1"), path("SmolLM2-135M.Q4_1.gguf"));
  EXPECT_EQ(resolve_model("smollm2-135m.q4_1.gguf"), path("SmolLM2-135M.Q4_1.gguf"));
  EXPECT_EQ(resolve_model("big"), path("big.GGUF"));
}

TEST_F(ModelCache, TheExactNameWinsAndOtherwiseTwoAreOneTooMany) {
  put("Model.gguf", 1);
  put("model.gguf", 1);
  EXPECT_EQ(resolve_model("model"), path("model.gguf"));
  EXPECT_EQ(resolve_model("Model"), path("Model.gguf"));
  EXPECT_EQ(error_of("MODEL"), "model 'MODEL' could be Model or model: write it in full | ");
}

TEST_F(ModelCache, AFileAndAFolderOfOneNameAreTwoModels) {
  put("x/config.json", 3);
  put("x.gguf", 5);
  EXPECT_EQ(list_models().size(), 2u);
  EXPECT_EQ(resolve_model("x"), path("x"));
  EXPECT_EQ(resolve_model("x.gguf"), path("x.gguf"));
}

TEST_F(ModelCache, AFolderThatHappensToBearTheNameDoesNotHideTheModel) {
  put("tests.gguf", 1);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directory(home_ / "tests");
  std::filesystem::current_path(home_.path());
  EXPECT_EQ(resolve_model("tests"), path("tests.gguf"));
  std::filesystem::current_path(before);
}

TEST_F(ModelCache, APathComesFirst) {
  put("a.gguf", 1);
  EXPECT_EQ(resolve_model(path("a.gguf")), path("a.gguf"));
  EXPECT_EQ(resolve_model("/dev/null"), "/dev/null");  // the reader of the file judges it
}

TEST_F(ModelCache, AFolderIsAModelWhenItHasAConfiguration) {
  put("llama/config.json", 10);
  put("llama/model.safetensors", 100);
  put("llama/deep/er.json", 5);
  put("picture/model_index.json", 1);
  put("junk/a.gguf", 1);
  EXPECT_EQ(resolve_model("llama"), path("llama"));
  EXPECT_EQ(resolve_model(path("picture")), path("picture"));
  EXPECT_THAT(
      error_of(path("junk")),
      StartsWith(path("junk") + ": is a folder, but holds no model | name one of the GGUF files in it: a.gguf"));
  const std::vector<CachedModel> list = list_models();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "llama");
  EXPECT_EQ(list[0].bytes, 115u);
}

TEST_F(ModelCache, PartsAreOneModel) {
  put("m-00002-of-00002.gguf", 20);
  put("m-00001-of-00002.gguf", 10);
  put("readme.txt", 7);
  put("b.gguf", 1);
  const std::vector<CachedModel> list = list_models();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "b");
  EXPECT_EQ(list[1].name, "m");
  EXPECT_EQ(list[1].bytes, 30u);
  EXPECT_EQ(resolve_model("m"), path("m-00001-of-00002.gguf"));
}

TEST_F(ModelCache, WhatIsNotThereIsNamedWithWhatIs) {
  EXPECT_EQ(error_of("qwen"),
            "no model 'qwen': neither a file nor in the cache | give the path of a .gguf file, or put "
            "one into " +
                models());
  put("a.gguf", 1);
  put("b.gguf", 1);
  EXPECT_THAT(error_of("q\nwen"), StartsWith("no model 'q?wen': neither"));
  EXPECT_THAT(error_of("qwen"), HasSubstr(models() + " holds a, b"));
  EXPECT_THAT(error_of(""), StartsWith("no model ''"));
  for (char c = 'c'; c < 'p'; ++c) put(std::string(1, c) + ".gguf", 1);
  EXPECT_THAT(error_of("qwen"), HasSubstr("a, b, c, d, e, f, g, h, i, j and 5 more"));
}

TEST_F(ModelCache, TheFolderFollowsTheEnvironment) {
  EXPECT_EQ(models_folder(), models());
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  unsetenv("GABBRO_HOME");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/nowhere", 1);
  EXPECT_EQ(models_folder(), "/nowhere/.cache/gabbro/models");
  EXPECT_TRUE(list_models().empty());
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(models_folder(), "/cache/gabbro/models");
  setenv("XDG_CACHE_HOME", "not/absolute", 1);  // the XDG specification: then it is ignored
  EXPECT_EQ(models_folder(), "/nowhere/.cache/gabbro/models");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(models_folder(), "");
  EXPECT_TRUE(list_models().empty());
  EXPECT_THAT(error_of("qwen"), HasSubstr("put one into $GABBRO_HOME/models"));
  setenv("HOME", home.c_str(), 1);
}

TEST_F(ModelCache, AFolderThatCannotBeReadIsNamed) {
  std::filesystem::remove(models());
  std::ofstream(models()) << "a file";
  EXPECT_THAT(error_of("qwen"), StartsWith(models() + ": the model cache cannot be read: Not a directory"));
  EXPECT_EQ(resolve_model("/dev/null"), "/dev/null");  // a path does not need it
}

}  // namespace
}  // namespace gabbro
