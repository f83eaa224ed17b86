#include "src/formats/foreign_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "src/base/error.h"

namespace gabbro {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class ForeignFolder : public testing::Test {
 protected:
  ForeignFolder() {
    std::string name = testing::TempDir() + "folder.XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~ForeignFolder() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& text = "") const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  std::string adapter_error() const {
    try {
      refuse_adapter_folder(folder_);
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "";
  }

  std::string folder_;
};

TEST_F(ForeignFolder, HintsNameWhatIsThere) {
  EXPECT_THAT(folder_hint(folder_), HasSubstr("neither a .gguf"));
  put("pytorch_model.bin");
  EXPECT_THAT(folder_hint(folder_), HasSubstr("not read (pytorch_model.bin)"));
  put("model.safetensors.incomplete");
  EXPECT_THAT(folder_hint(folder_), HasSubstr("unfinished: model.safetensors.incomplete"));
  EXPECT_EQ(find_unfinished(folder_, "model.safetensors"), "model.safetensors.incomplete");
  EXPECT_EQ(find_unfinished(folder_, "other"), std::nullopt);
  put("model.safetensors");
  EXPECT_THAT(folder_hint(folder_), HasSubstr("config.json is missing"));
  put("B.GGUF");
  EXPECT_THAT(folder_hint(folder_), HasSubstr("B.GGUF"));
}

TEST_F(ForeignFolder, AnAdapterIsOne) {
  EXPECT_EQ(adapter_error(), "");
  put("adapter_config.json", R"({"base_model_name_or_path": "someone/base"})");
  put("adapter_model.safetensors");
  EXPECT_EQ(adapter_error(), folder_ +
                                 ": is a LoRA adapter of someone/base, not a model | name that model, and the "
                                 "adapter by --lora " +
                                 folder_);
  put("adapter_config.json", R"({"base_model_name_or_path": null})");
  EXPECT_THAT(adapter_error(), HasSubstr("is a LoRA adapter, not a model"));
  put("adapter_config.json", "half {");
  EXPECT_THAT(adapter_error(), HasSubstr("is a LoRA adapter, not a model"));
  put("optimizer.safetensors");
  EXPECT_THAT(adapter_error(), HasSubstr("is a LoRA adapter, not a model"));
  put("config.json");  // a model is there too
  EXPECT_EQ(adapter_error(), "");
}

}  // namespace
}  // namespace gabbro
