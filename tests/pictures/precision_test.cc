// Pictures in f16 and bf16: near to f32 and to diffusers, with adapters, and after an overflow.
#include "src/pictures/precision.h"

#include <cmath>
#include <filesystem>
#include <numeric>

#include "gabbro/error.h"
#include "src/pictures/pipeline.h"
#include "src/pictures/random_pipeline.h"
#include "tests/pictures/expected_tensors.h"
#include "tests/pictures/pipeline_copy.h"
#include "tests/pictures/scheduler_copy.h"

namespace gabbro::pictures {
namespace {

std::shared_ptr<Pipeline> load_in(const std::string& folder, Precision precision, bool encoder = false) {
  return Pipeline::load(folder, {.threads = 2, .encoder = encoder, .precision = precision});
}

PictureRequest small_request() {
  return {.prompt = "a Red heart, 2 cats' eyes",
          .negative = "blurry",
          .width = 24,
          .height = 16,
          .steps = 10,
          .sampler = "ddim"};
}

// The ratio of peak and noise of pictures with values 0 to 255, in dB.
double psnr(const std::vector<uint8_t>& actual, const std::vector<uint8_t>& expected) {
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) sum += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(expected.size()) / std::max(sum, 1e-9));
}

// A pipeline whose decoder and encoder leave the range of f16 in their first layers, and come back by the norms.
std::string overflowing_pipeline() {
  const std::filesystem::path copy = with_scheduler("sd15", scheduler_rows().front());
  const std::filesystem::path weights = copy / "vae" / "diffusion_pytorch_model.safetensors";
  for (const char* name : {"decoder.conv_in.weight", "encoder.conv_in.weight"}) scale_tensor(weights, name, 1e5f);
  return copy.string();
}

TEST(Precision, has_torch_names_and_refuses_others) {
  EXPECT_EQ(parse_precision("float16"), Precision::kF16);
  EXPECT_EQ(parse_precision("bf16"), Precision::kBf16);
  const abi::DeviceFacts cpu{.wave_size = 1}, gpu{.wave_size = 32};
  EXPECT_EQ(dtype_of(parse_precision("auto"), cpu), DType::f32);
  EXPECT_EQ(dtype_of(parse_precision("auto"), gpu), DType::f16);
  EXPECT_EQ(dtype_of(parse_precision("f32"), gpu), DType::f32);
  EXPECT_THROW(parse_precision("f8"), Error);
}

TEST(Precision, of_pictures_is_near_to_f32) {
  for (const char* name : {"sd15", "sd21", "sdxl"}) {
    const PictureRequest request = small_request();
    const PictureResult wide = load_in(picture_folder(name), Precision::kF32)->generate(request);
    EXPECT_EQ(load_in(picture_folder(name), Precision::kAuto)->generate(request).latent, wide.latent) << name;
    const PictureResult half = load_in(picture_folder(name), Precision::kF16)->generate(request);
    // Ten steps with guidance 7.5 multiply the rounding of a block by up to ten.
    EXPECT_LE(relative_error(half.latent, wide.latent), 2e-2) << name;
    EXPECT_GE(psnr(half.picture.pixels, wide.picture.pixels), 30) << name;
    const PictureResult brain = load_in(picture_folder(name), Precision::kBf16)->generate(request);
    EXPECT_LE(relative_error(brain.latent, wide.latent), 1.5e-1) << name;
    EXPECT_TRUE(half.notes.empty());
  }
}

TEST(Precision, of_pictures_with_adapters) {
  for (const char* name : {"lora_kohya", "locon_mid", "loha", "dora_rows", "full", "norms"}) {
    PictureRequest request = small_request();
    request.steps = 3;
    const auto wide = load_in(picture_folder("sd15"), Precision::kF32);
    const auto half = load_in(picture_folder("sd15"), Precision::kF16);
    const Latent without = half->generate(request).latent;
    request.loras = {{picture_folder(std::string("lora/") + name + ".safetensors"), 0.7}};
    const Latent adapted = half->generate(request).latent, expected = wide->generate(request).latent;
    EXPECT_LE(relative_error(adapted, expected), 2e-2) << name;
    EXPECT_NE(adapted, without) << name;
    request.loras[0].strength = 0;
    EXPECT_EQ(half->generate(request).latent, without) << name;
  }
}

TEST(Precision, decodes_once_more_in_f32_after_an_overflow) {
  const std::string folder = overflowing_pipeline();
  PictureRequest request = small_request();
  request.steps = 2;
  const auto half = load_in(folder, Precision::kF16), wide = load_in(folder, Precision::kF32);
  const PictureResult first = half->generate(request);
  ASSERT_EQ(first.notes.size(), 1u);
  EXPECT_EQ(first.notes[0], "the decoder exceeds the range of f16 and works in f32");
  // The decoder's weights are loaded in f32: the same latent gives the same picture.
  request.latent = std::make_shared<Latent>(first.latent);
  EXPECT_EQ(first.picture.pixels, wide->generate(request).picture.pixels);
  EXPECT_TRUE(half->generate(request).notes.empty());  // noted once
}

TEST(Precision, encodes_once_more_in_f32_after_an_overflow) {
  const std::string folder = overflowing_pipeline();
  PictureRequest request = small_request();
  request.steps = 2;
  auto init = std::make_shared<images::Picture>(images::Picture{.width = 24, .height = 16});
  init->pixels.resize(init->size());
  std::iota(init->pixels.begin(), init->pixels.end(), uint8_t{0});
  request.init = init;
  const PictureResult half = load_in(folder, Precision::kF16, true)->generate(request);
  ASSERT_EQ(half.notes.size(), 1u);
  EXPECT_EQ(half.notes[0], "the encoder exceeds the range of f16 and works in f32");
  const PictureResult wide = load_in(folder, Precision::kF32, true)->generate(request);
  EXPECT_LE(relative_error(half.latent, wide.latent), 2e-2);
}

// Numbers of parameters as the models' cards and papers give them.
TEST(RandomPipelines, have_the_published_shapes) {
  const auto parameters = [](const Checkpoint& checkpoint) {
    int64_t sum = 0;
    for (const CheckpointTensor& tensor : checkpoint.tensors()) sum += tensor.elements();
    return sum;
  };
  const PipelineParts sd15 = random_pipeline("sd15", DType::f16), sd21 = random_pipeline("sd21", DType::bf16),
                      sdxl = random_pipeline("sdxl", DType::f16);
  EXPECT_EQ(parameters(sd15.unet.checkpoint), 859'520'964);
  EXPECT_EQ(parameters(sd15.autoencoder.checkpoint), 83'653'863);
  EXPECT_EQ(parameters(sd15.text_encoders[0].checkpoint), 123'060'480);
  EXPECT_EQ(parameters(sd21.unet.checkpoint), 865'910'724);
  EXPECT_EQ(parameters(sd21.text_encoders[0].checkpoint), 340'387'840);
  EXPECT_EQ(parameters(sdxl.unet.checkpoint), 2'567'463'684);
  EXPECT_EQ(parameters(sdxl.text_encoders[1].checkpoint), 694'659'840);
  EXPECT_THROW(random_pipeline("sd3", DType::f16), Error);
}

}  // namespace
}  // namespace gabbro::pictures
