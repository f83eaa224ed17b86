// Pipelines as folder, single safetensors file and GGUF file: the same pictures to the bit, and what is refused.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "gabbro/error.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/pictures/pipeline.h"
#include "src/pictures/pipeline_conversion.h"
#include "src/pictures/single_file/single_file.h"
#include "tests/pictures/expected_tensors.h"
#include "tests/pictures/single_file_writer.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

class SingleFileConversion : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("single-conversion-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static GivenParts tokenizers(const std::string& name) {
    GivenParts given{.tokenizers = {picture_folder(name) + "/tokenizer"}};
    if (name == "sdxl") given.tokenizers.push_back(picture_folder(name) + "/tokenizer_2");
    return given;
  }
  static PictureResult draw(const std::string& model, const std::string& name) {
    PipelineOptions options{.threads = 2};
    if (is_single_file(model)) options.tokenizers = tokenizers(name).tokenizers;
    return Pipeline::load(model, options)
        ->generate({.prompt = "a red heart", .negative = "blurry", .width = 24, .height = 16, .steps = 2});
  }
  static void refused(const std::string& model, const std::string& out, const char* type, const std::string& part,
                      const std::string& hint = "", const GivenParts& given = {}) {
    try {
      convert_pipeline(model, out, *find_file_type(type), {.given = given});
      ADD_FAILURE() << "accepts " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(error.hint().find(hint), std::string::npos) << error.hint();
    }
    EXPECT_FALSE(fs::exists(out + ".partial"));
  }

 private:
  fs::path folder_;
};

std::set<std::string> names_of(const std::string& file) {
  std::set<std::string> names;
  const Checkpoint checkpoint = Checkpoint::open(file);
  for (const CheckpointTensor& tensor : checkpoint.tensors()) names.insert(std::string(tensor.name));
  return names;
}

TEST_F(SingleFileConversion, f16_as_folder_single_file_and_gguf_draws_equal_bits) {
  for (const std::string name : {"sd15", "sd21", "sdxl"}) {
    const FileType& f16 = *find_file_type("f16");
    const std::string folder = path(name), single = path(name + ".safetensors"), gguf = path(name + ".gguf");
    convert_pipeline(picture_folder(name), folder, f16);
    convert_pipeline(folder, single, f16);
    convert_pipeline(folder, gguf, f16);
    const PictureResult expected = draw(folder, name);
    const auto expect_equal = [&](const std::string& model) {
      const PictureResult drawn = draw(model, name);
      EXPECT_EQ(drawn.latent, expected.latent) << model;
      EXPECT_EQ(drawn.picture.pixels, expected.picture.pixels) << model;
    };
    expect_equal(single);
    expect_equal(gguf);
    // And back.
    convert_pipeline(gguf, path(name + "-again.safetensors"), f16);
    expect_equal(path(name + "-again.safetensors"));
    convert_pipeline(single, path(name + "-folder"), f16, {.given = tokenizers(name)});
    expect_equal(path(name + "-folder"));
    // diffusers has confirmed the names. Published files of Stable Diffusion 2 have a further layer, which is not used.
    write_single_file(name, path("table.safetensors"));
    std::set<std::string> confirmed = names_of(path("table.safetensors"));
    if (name == "sd21")
      std::erase_if(confirmed, [](const std::string& x) { return x.find(".resblocks.2.") != x.npos; });
    EXPECT_EQ(names_of(single), confirmed) << name;
    EXPECT_EQ(names_of(gguf), names_of(single)) << name;
  }
}

TEST_F(SingleFileConversion, quantizes_as_a_folder_does) {
  const FileType& type = *find_file_type("q8_0");
  const std::string source = picture_folder("sd21");
  const ConvertedPipeline result = convert_pipeline(source, path("small.gguf"), type);
  EXPECT_GT(result.tensors, 200u);
  const Checkpoint file = Checkpoint::open(path("small.gguf"));
  const std::string unet = "model.diffusion_model.";
  EXPECT_EQ(file.require_tensor(unet + "output_blocks.0.0.in_layers.2.weight").dtype(), DType::q8_0);
  EXPECT_EQ(file.require_tensor(unet + "output_blocks.0.0.in_layers.2.weight").shape.size(), 4u);
  EXPECT_EQ(file.require_tensor(unet + "input_blocks.0.0.weight").dtype(), DType::f16);  // rows of 4 · 9 values
  EXPECT_EQ(file.require_tensor(unet + "out.2.bias").dtype(), DType::f32);
  convert_pipeline(source, path("small"), type);
  EXPECT_EQ(draw(path("small.gguf"), "sd21").latent, draw(path("small"), "sd21").latent);
  // A single file of blocks becomes a folder in f16 that draws nearly the same.
  convert_pipeline(path("small.gguf"), path("wide"), *find_file_type("f16"), {.given = tokenizers("sd21")});
  EXPECT_LE(relative_error(draw(path("wide"), "sd21").latent, draw(path("small"), "sd21").latent), 2e-2);
}

TEST_F(SingleFileConversion, of_a_folder_with_one_tokenizer_pads_as_the_file_says) {
  convert_pipeline(picture_folder("sdxl"), path("xl.safetensors"), *find_file_type("f32"));
  GivenParts given = tokenizers("sdxl");
  given.tokenizers.pop_back();
  convert_pipeline(path("xl.safetensors"), path("xl"), *find_file_type("f32"), {.given = given});
  EXPECT_EQ(draw(path("xl"), "sdxl").latent, draw(picture_folder("sdxl"), "sdxl").latent);
  for (const char* file : {"model_index.json", "unet/config.json", "vae/config.json", "text_encoder_2/config.json",
                           "scheduler/scheduler_config.json", "tokenizer_2/vocab.json"})
    EXPECT_TRUE(fs::exists(path("xl/") + file)) << file;
}

TEST_F(SingleFileConversion, marks_models_that_predict_velocity) {
  fs::copy(picture_folder("sdxl"), path("v"), fs::copy_options::recursive);
  std::ofstream(path("v/scheduler/scheduler_config.json"))
      << R"({"_class_name": "EulerDiscreteScheduler", "prediction_type": "v_prediction", "beta_start": 0.00085, )"
      << R"("beta_end": 0.012, "beta_schedule": "scaled_linear", "rescale_betas_zero_snr": true, )"
      << R"("timestep_spacing": "trailing"})";
  convert_pipeline(path("v"), path("v.safetensors"), *find_file_type("f32"));
  const Signature signature = recognize_single_file(Checkpoint::open(path("v.safetensors")));
  EXPECT_TRUE(signature.predicts_velocity);
  EXPECT_TRUE(signature.zero_terminal_snr);
  EXPECT_EQ(draw(path("v.safetensors"), "sdxl").latent, draw(path("v"), "sdxl").latent);
}

TEST_F(SingleFileConversion, refuses_what_cannot_be_written) {
  const std::string folder = picture_folder("sd15");
  refused(folder, path("a.safetensors"), "q8_0", "f32, f16 or bf16, not q8_0", ".gguf");
  std::ofstream(path("there.gguf")) << "x";
  refused(folder, path("there.gguf"), "f16", "is there already");
  refused(folder, "/proc/none/a.gguf", "f16", "/proc/none");
  refused(path("none.safetensors"), path("b"), "f16", "no such file");
  write_single_file("sd15", path("whole.safetensors"));
  refused(path("whole.safetensors"), path("b"), "f16", "holds no tokenizer", "--tokenizer");
  write_single_file("sd15", path("bare.safetensors"), {.left_out = {"vae"}});
  refused(path("bare.safetensors"), path("b.gguf"), "f16", "holds no autoencoder (VAE)", "--vae");
  convert_pipeline(path("bare.safetensors"), path("b.gguf"), *find_file_type("f16"),
                   {.given = {.autoencoder = folder + "/vae"}});
  std::ofstream(path("old.ckpt")) << "x";
  refused(path("old.ckpt"), path("c"), "f16", "is a pickle", "safetensors");
  EXPECT_FALSE(fs::exists(path("b")));
  EXPECT_FALSE(fs::exists(path("c")));
}

}  // namespace
}  // namespace gabbro::pictures
