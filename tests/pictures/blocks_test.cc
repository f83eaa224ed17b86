// Each block of a tiny U-Net and autoencoder against diffusers', from the input that diffusers gave it.
#include "gabbro/graph/eval.h"
#include "gabbro/ops/elementwise.h"
#include "src/models/diffusion/autoencoder.h"
#include "src/models/diffusion/autoencoder_tiny.h"
#include "src/models/diffusion/image_layout.h"
#include "src/models/diffusion/unet.h"
#include "src/models/weights/checkpoint_weights.h"
#include "src/models/weights/module_weights.h"
#include "src/pictures/pipeline_folder.h"
#include "tests/pictures/expected_tensors.h"
#include "tests/rounding.h"

namespace gabbro::pictures {
namespace {

// Activations of f16 and bf16 are rounded by each op; in f32 sums of some hundred products are, in each op.
double tolerance_after(int64_t roundings, DType dtype) {
  if (dtype == DType::f32) return test::kGrowth * test::rounding_deviation(128 * roundings, test::step_of(dtype));
  return test::rounding_deviation(roundings, test::step_of(dtype));
}
double tolerance_of(DType dtype) { return tolerance_after(75, dtype); }

// A whole U-Net: diffusers' own of "sdxl" is off by 2.9e-3 in f16 and 2.2e-2 in bf16.
double whole_tolerance_of(DType dtype) { return tolerance_after(150, dtype); }

// A pipeline, and what its networks compute in.
struct BlocksRow {
  const char* pipeline;
  DType dtype;
};

class Blocks : public testing::TestWithParam<BlocksRow> {
 protected:
  template <class M, class Config>
  std::shared_ptr<M> load(const char* part, const Config& config) {
    const std::string folder = picture_folder(GetParam().pipeline) + "/" + part;
    const Checkpoint checkpoint = Checkpoint::open(weights_of(folder));
    llm::CheckpointWeights weights(checkpoint, {}, test_device(), {});
    const nn::Factory make{.device = test_device(),
                           .dtype = GetParam().dtype,
                           .weights = std::make_shared<llm::SourcedModuleWeights>(weights)};
    return std::make_shared<M>(make, config);
  }
  std::shared_ptr<diffusion::UNet> load_unet() {
    const Json config = read_config(picture_folder(GetParam().pipeline) + "/unet", "config.json");
    return load<diffusion::UNet>("unet", diffusion::read_unet_config(JsonNode(config, "unet/config.json")));
  }
  std::shared_ptr<diffusion::Autoencoder> load_autoencoder() {
    const Json config = read_config(picture_folder(GetParam().pipeline) + "/vae", "config.json");
    return load<diffusion::Autoencoder>("vae", diffusion::read_autoencoder_config(JsonNode(config, "vae/config.json")));
  }
  // Runs the block of this name on its recorded input.
  Tensor run(nn::Module& block, const std::string& name) {
    const auto input = [&](int i) {
      const std::string key = name + ".in." + std::to_string(i);
      return expected.has(key) ? cast(expected.tensor(key), GetParam().dtype) : Tensor();
    };
    const auto time = [&] { return expected.has(name + ".in.1") ? expected.tensor(name + ".in.1") : Tensor(); };
    const auto image = [&] { return diffusion::image_in(expected.tensor(name + ".in.0"), GetParam().dtype); };
    if (auto* const resnet = dynamic_cast<diffusion::ResnetBlock*>(&block)) return (*resnet)(image(), time());
    if (auto* const transformer = dynamic_cast<diffusion::SpatialTransformer*>(&block))
      return (*transformer)(image(), input(1));
    if (auto* const down = dynamic_cast<diffusion::Downsample*>(&block)) return (*down)(image());
    if (auto* const middle = dynamic_cast<diffusion::AutoencoderMiddle*>(&block)) return (*middle)(image());
    if (auto* const up = dynamic_cast<diffusion::Upsample*>(&block)) {
      const Tensor x = image();
      const diffusion::ImageSides size = diffusion::sides_of(x);
      return (*up)(x, 2 * size.height, 2 * size.width);
    }
    return {};
  }
  void compare(nn::Module& module, const std::string& name, int& compared) {
    for (const nn::Module::Child& child : module.children()) {
      const std::string inside = name + "." + child.name;
      if (expected.has(inside + ".out")) {
        const Tensor y = run(*child.module, inside);
        ASSERT_TRUE(y.defined()) << inside;
        expect_close(diffusion::planes_of(y), expected.values(inside + ".out"), tolerance_of(GetParam().dtype), inside);
        ++compared;
      }
      compare(*child.module, inside, compared);
    }
  }

  ExpectedTensors expected{GetParam().pipeline};
};

TEST_P(Blocks, of_the_unet) {
  const auto unet = load_unet();
  int compared = 0;
  compare(*unet, "unet", compared);
  EXPECT_GE(compared, 12);
}

TEST_P(Blocks, of_the_autoencoder) {
  const auto autoencoder = load_autoencoder();
  int compared = 0;
  compare(*autoencoder, "vae", compared);
  EXPECT_GE(compared, 14);
}

TEST_P(Blocks, make_the_whole_unet) {
  const auto unet = load_unet();
  std::vector<float> times;
  for (int i = 0; i < 2; ++i) {
    const std::vector<float> features = unet->time_features(981);
    times.insert(times.end(), features.begin(), features.end());
  }
  const Tensor y =
      unet->forward({.latent = expected.tensor("unet.x"),
                     .time = test_device()->upload(DType::f32, Shape{2, unet->facts().time_features}, times.data()),
                     .context = expected.tensor("unet.context"),
                     .added = expected.has("unet.added") ? expected.tensor("unet.added") : Tensor()});
  expect_close(y, expected.values("unet.y"), whole_tolerance_of(GetParam().dtype), "unet");
}

TEST_P(Blocks, make_the_whole_autoencoder) {
  const auto autoencoder = load_autoencoder();
  const double tolerance = tolerance_of(GetParam().dtype);
  expect_close(autoencoder->decode(expected.tensor("vae.latent")), expected.values("vae.decoded"), tolerance,
               "decoder");
  expect_close(autoencoder->encode(expected.tensor("vae.picture")), expected.values("vae.moments"), tolerance,
               "encoder");
}

std::string row_name(const testing::TestParamInfo<BlocksRow>& row) {
  const std::string pipeline = row.param.pipeline;
  return row.param.dtype == DType::f32 ? pipeline : fmt::format("{}_{}", pipeline, dtype_name(row.param.dtype));
}

INSTANTIATE_TEST_SUITE_P(Pipelines, Blocks,
                         testing::Values(BlocksRow{"sd15", DType::f32}, BlocksRow{"sd21", DType::f32},
                                         BlocksRow{"sdxl", DType::f32}, BlocksRow{"sd15", DType::f16},
                                         BlocksRow{"sd21", DType::f16}, BlocksRow{"sdxl", DType::f16},
                                         BlocksRow{"sd15", DType::bf16}, BlocksRow{"sd21", DType::bf16},
                                         BlocksRow{"sdxl", DType::bf16}),
                         row_name);

TEST(TinyDecoder, equals_that_of_diffusers) {
  const std::string folder = picture_folder("taesd");
  const Json config = read_config(folder, "config.json");
  const Checkpoint checkpoint = Checkpoint::open(weights_of(folder));
  llm::CheckpointWeights weights(checkpoint, {}, test_device(), {});
  const nn::Factory make{.device = test_device(), .weights = std::make_shared<llm::SourcedModuleWeights>(weights)};
  const diffusion::TinyDecoder decoder(make, diffusion::read_tiny_decoder_config(JsonNode(config, "config.json")));
  const ExpectedTensors expected("taesd");
  // diffusers has -1 .. 1.
  expect_close(decoder(expected.tensor("latent")) * 2.0 - 1.0, expected.values("decoded"), tolerance_of(DType::f32),
               "decoder");
}

TEST(TimeFeatures, are_cosines_and_sines) {
  const std::vector<double> of_981 = {.679957, -.757953, -.926715, .556192, .733252, -.652310, -.375765, .831054};
  const std::vector<double> of_1 = {.540302, .995004, .999950, 1, .841471, .099833, .01, .001};
  const std::vector<float> first = diffusion::sinusoid_features(981, {.width = 8});
  const std::vector<float> second = diffusion::sinusoid_features(1, {.width = 8});
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(first[i], of_981[i], 2e-5);  // angles of up to 981 in f32
    EXPECT_NEAR(second[i], of_1[i], 1e-6);
  }
}

}  // namespace
}  // namespace gabbro::pictures
