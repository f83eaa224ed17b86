// Decoding in bands of rows against decoding whole.
#include "src/models/diffusion/banded_decoder.h"

#include <unistd.h>

#include <cmath>

#include "gabbro/error.h"
#include "gabbro/graph/eval.h"
#include "gabbro/graph/history.h"
#include "src/base/seconds_since.h"
#include "src/models/weights/checkpoint_weights.h"
#include "src/models/weights/module_weights.h"
#include "src/pictures/picture_tensor.h"
#include "src/pictures/pipeline.h"
#include "src/pictures/pipeline_folder.h"
#include "tests/pictures/expected_tensors.h"

namespace gabbro::pictures {
namespace {

using diffusion::Autoencoder;
using diffusion::AutoencoderConfig;

std::shared_ptr<Autoencoder> tiny_autoencoder(const std::string& pipeline) {
  const std::string folder = picture_folder(pipeline) + "/vae";
  const Json config = read_config(folder, "config.json");
  const Checkpoint checkpoint = Checkpoint::open(weights_of(folder));
  llm::CheckpointWeights weights(checkpoint, {}, test_device(), {});
  const nn::Factory make{.device = test_device(), .weights = std::make_shared<llm::SourcedModuleWeights>(weights)};
  return std::make_shared<Autoencoder>(make, diffusion::read_autoencoder_config(JsonNode(config, "config.json")));
}

Tensor latent_of(int64_t channels, int64_t height, int64_t width) {
  std::vector<float> values;
  for (int64_t i = 0; i < channels * height * width; ++i)
    values.push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(i * i % 1009))));
  return test_device()->upload(DType::f32, Shape{1, channels, height, width}, values.data());
}

Tensor decode_whole(const Autoencoder& autoencoder, const Tensor& latent) {
  Tensor picture = autoencoder.decode(latent);
  eval(std::span(&picture, 1));
  return picture;
}

int worst_level(const Tensor& a, const Tensor& b) {
  const images::Picture first = picture_of(a, 0.5f, 0.5f), second = picture_of(b, 0.5f, 0.5f);
  int worst = first.pixels.size() == second.pixels.size() ? 0 : 256;
  for (size_t i = 0; worst < 256 && i < first.pixels.size(); ++i)
    worst = std::max(worst, std::abs(first.pixels[i] - second.pixels[i]));
  return worst;
}

TEST(Bands, decode_what_a_whole_decode_does) {
  for (const char* const pipeline : {"sd15", "sd21", "sdxl"}) {
    const auto autoencoder = tiny_autoencoder(pipeline);
    // One row, fewer rows than a band, sides that no band divides.
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {8, 12}, {13, 7}}) {
      const Tensor latent = latent_of(autoencoder->config().latent_channels, height, width);
      const Tensor whole = decode_whole(*autoencoder, latent);
      for (const int64_t elements : {1, 100, 700, 1 << 20}) {
        const Tensor banded = decode_in_bands(*autoencoder, latent, {.elements = elements});
        EXPECT_EQ(banded.shape(), whole.shape());
        EXPECT_LE(worst_level(banded, whole), 1) << pipeline << " " << height << " x " << width << ", " << elements;
      }
    }
  }
}

TEST(Bands, are_canceled) {
  const auto autoencoder = tiny_autoencoder("sd15");
  const std::atomic<bool> cancel = true;
  EXPECT_THROW(decode_in_bands(*autoencoder, latent_of(4, 8, 8), {.elements = 100, .cancel = &cancel}), Error);
}

TEST(Bands, of_a_request_are_used_when_asked_for) {
  const auto pipeline = Pipeline::load(picture_folder("sd15"), {.threads = 2});
  PictureRequest request{.prompt = "a", .width = 24, .height = 16, .steps = 2, .bands = DecodeBands::kOff};
  const PictureResult whole = pipeline->generate(request);
  request.bands = DecodeBands::kAuto;
  EXPECT_EQ(pipeline->generate(request).picture.pixels, whole.picture.pixels);
  request.bands = DecodeBands::kOn;
  const PictureResult banded = pipeline->generate(request);
  for (size_t i = 0; i < whole.picture.pixels.size(); ++i)
    ASSERT_LE(std::abs(banded.picture.pixels[i] - whole.picture.pixels[i]), 1) << i;
}

struct Measured {
  double seconds = 0;
  uint64_t bytes = 0;  // of the device, at the peak above what is there before
};

template <class Decode>
Measured measure(const Decode& decode, Tensor& picture) {
  Device& device = *test_device();
  device.trim(abi::MemoryKind::kDevice);
  const uint64_t before = device.memory(abi::MemoryKind::kDevice).in_use;
  device.reset_memory_facts(abi::MemoryKind::kDevice);
  const auto started = std::chrono::steady_clock::now();
  picture = decode();
  return {seconds_since(started), device.memory(abi::MemoryKind::kDevice).in_use_peak - before};
}

// The autoencoder of Stable Diffusion with random weights, at the side GABBRO_BANDS_SIDE. Takes minutes.
TEST(Bands, DISABLED_take_a_quarter_of_the_memory) {
  const char* const given = std::getenv("GABBRO_BANDS_SIDE");
  const int64_t side = given != nullptr ? std::atoll(given) : 512;
  const int64_t elements = std::min(side * side * 16, diffusion::BandOptions().elements);
  const NoGrad for_inference;
  const AutoencoderConfig config;
  const auto autoencoder = std::make_shared<Autoencoder>(nn::Factory{.device = test_device()}, config, false);
  const Tensor latent = latent_of(4, side / 8, side / 8);
  Tensor whole, banded;
  const Measured of_whole = measure([&] { return decode_whole(*autoencoder, latent); }, whole);
  const Measured of_bands =
      measure([&] { return decode_in_bands(*autoencoder, latent, {.elements = elements}); }, banded);
  std::printf("%lld x %lld: whole %.2f s, %.0f MiB; in bands %.2f s, %.0f MiB; difference %d\n",
              static_cast<long long>(side), static_cast<long long>(side), of_whole.seconds,
              static_cast<double>(of_whole.bytes) / (1 << 20), of_bands.seconds,
              static_cast<double>(of_bands.bytes) / (1 << 20), worst_level(whole, banded));
  EXPECT_LE(worst_level(whole, banded), 1);
  EXPECT_LE(of_bands.bytes, of_whole.bytes / 4);
  EXPECT_LE(of_bands.seconds, 1.15 * of_whole.seconds);
}

}  // namespace
}  // namespace gabbro::pictures
