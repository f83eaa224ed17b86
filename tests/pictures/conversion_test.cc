// Folders of pipelines in other formats: the format of each weight, and pictures that stay the same.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "gabbro/error.h"
#include "src/formats/checkpoint.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/quant/quant.h"
#include "src/pictures/pipeline.h"
#include "src/pictures/pipeline_conversion.h"
#include "tests/pictures/expected_tensors.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

class Conversion : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("conversion-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static ConvertedPipeline convert(const std::string& from, const std::string& to, std::string_view type) {
    return convert_pipeline(from, to, *find_file_type(type));
  }
  static Latent latent_of(const std::string& folder) {
    return Pipeline::load(folder, {.threads = 2})
        ->generate({.prompt = "a cat", .width = 48, .height = 32, .steps = 2})
        .latent;
  }

 private:
  fs::path folder_;
};

std::vector<float> values_of(const Checkpoint& checkpoint, const std::string& name) {
  const CheckpointTensor& tensor = checkpoint.require_tensor(name);
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  dequantize_row(tensor.dtype(), tensor.data.data(), values.data(), tensor.elements());
  return values;
}

TEST_F(Conversion, quantizes_matrices_whose_rows_are_whole_blocks) {
  const std::string source = picture_folder("sd21");
  const ConvertedPipeline result = convert(source, path("q8/"), "q8_0");
  EXPECT_GT(result.tensors, 200u);
  EXPECT_FALSE(fs::exists(path("q8.partial")));
  const Checkpoint before = Checkpoint::open(source + "/unet/diffusion_pytorch_model.safetensors");
  const Checkpoint after = Checkpoint::open(path("q8/unet/model.gguf"));
  ASSERT_EQ(after.tensors().size(), before.tensors().size());
  // Rows of 32 · 9 values; of 8 · 9; a vector.
  const std::pair<const char*, DType> formats[] = {{"up_blocks.0.resnets.0.conv1.weight", DType::q8_0},
                                                   {"down_blocks.0.resnets.0.conv1.weight", DType::f16},
                                                   {"time_embedding.linear_2.weight", DType::q8_0},
                                                   {"conv_in.bias", DType::f32}};
  for (const auto& [name, dtype] : formats) {
    EXPECT_EQ(after.require_tensor(name).dtype(), dtype) << name;
    EXPECT_EQ(after.require_tensor(name).shape, before.require_tensor(name).shape) << name;
    std::vector<float> expected = values_of(before, name);
    const float largest = std::abs(*std::ranges::max_element(expected, {}, [](float x) { return std::abs(x); }));
    const std::vector<float> actual = values_of(after, name);
    // Half a step of a block's scale, which is its largest value / 127, in f16.
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], largest / 253) << name << " " << i;
  }
}

TEST_F(Conversion, gives_the_same_pictures_in_another_container) {
  convert(picture_folder("sd21"), path("q8"), "q8_0");
  convert(path("q8"), path("f32"), "f32");
  const Latent quantized = latent_of(path("q8")), plain = latent_of(path("f32"));
  // Matrices in Q8_0 are multiplied with activations of 8 bits: each product is off by up to 1 / 254 of its largest.
  EXPECT_LE(relative_error(quantized, plain), 2e-2);
  EXPECT_TRUE(fs::exists(path("f32/unet/diffusion_pytorch_model.safetensors")));
  EXPECT_TRUE(fs::exists(path("f32/text_encoder/model.safetensors")));
  EXPECT_TRUE(fs::exists(path("f32/tokenizer/vocab.json")));
  // A copy in f32 is the same to the bit.
  convert(picture_folder("sd21"), path("copy"), "f32");
  EXPECT_EQ(latent_of(path("copy")), latent_of(picture_folder("sd21")));
}

TEST_F(Conversion, is_whole_or_not_at_all) {
  EXPECT_THROW(convert(picture_folder("taesd"), path("out"), "f16"), Error);
  fs::create_directories(path("there"));
  EXPECT_THROW(convert(picture_folder("sd15"), path("there"), "f16"), Error);
  EXPECT_THROW(convert(picture_folder("sd15"), "/proc/none/out", "f16"), Error);
  const std::atomic<bool> cancel = true;
  EXPECT_THROW(convert_pipeline(picture_folder("sd15"), path("out"), *find_file_type("f16"), {.cancel = &cancel}),
               Error);
  // A value that f16 does not have.
  fs::copy(picture_folder("sd15"), path("large"), fs::copy_options::recursive);
  const std::string weights = path("large/unet/diffusion_pytorch_model.safetensors");
  const Checkpoint checkpoint = Checkpoint::open(weights);
  std::vector<safetensors::TensorData> tensors;
  std::vector<float> large;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    tensors.push_back({std::string(tensor.name), tensor.dtype(), tensor.shape, tensor.data});
    if (tensor.name == "conv_in.bias") {
      large.assign(static_cast<size_t>(tensor.elements()), 1e6f);
      tensors.back().data = std::as_bytes(std::span(large));
    }
  }
  safetensors::write(path("large.safetensors"), tensors);
  fs::rename(path("large.safetensors"), weights);
  try {
    convert(path("large"), path("out"), "f16");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("conv_in.bias"), std::string::npos) << error.what();
  }
  convert(path("large"), path("wide"), "bf16");
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

TEST(GgufShapes, have_to_fit_the_values) {
  // Written here, since convert writes only shapes that fit.
  const std::string path = testing::TempDir() + "/shapes-" + std::to_string(::getpid()) + ".gguf";
  const std::vector<float> values(6, 1.0f);
  const auto write = [&](std::vector<int32_t> shape) {
    gguf::Writer writer;
    writer.add_string("general.architecture", "unet");
    writer.add_i32s("comfy.gguf.orig_shape.x", shape);
    writer.add_tensor("x", gguf::ggml_type_number(DType::f32), std::vector<int64_t>{2, 3},
                      std::as_bytes(std::span(values)));
    writer.write(path);
  };
  write({2, 1, 3, 1});
  EXPECT_EQ(Checkpoint::open(path).require_tensor("x").shape, (std::vector<int64_t>{2, 1, 3, 1}));
  for (const std::vector<int32_t>& shape :
       {std::vector<int32_t>{7}, {2, 4}, {0, 6}, {-2, -3}, {2147483647, 2147483647}}) {
    write(shape);
    EXPECT_THROW(Checkpoint::open(path), Error);
  }
  fs::remove(path);
}

}  // namespace
}  // namespace gabbro::pictures
