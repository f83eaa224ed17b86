// Turbo, Lightning, velocity and zero terminal SNR of SDXL against diffusers, from folders and from a single file's
// marks.
#include <unistd.h>

#include <filesystem>

#include "src/pictures/pipeline.h"
#include "tests/pictures/expected_tensors.h"
#include "tests/pictures/pipeline_copy.h"
#include "tests/pictures/single_file_writer.h"

namespace gabbro::pictures {
namespace {

constexpr double kVariantExact = 1e-4;

PictureRequest variant_request(int64_t steps, double guidance) {
  return {.prompt = "a Red heart, 2 cats' eyes",
          .negative = "blurry",
          .width = 24,
          .height = 16,
          .steps = steps,
          .guidance = guidance};
}

TEST(SdxlVariants, equal_those_of_diffusers) {
  constexpr const char* kNoise = R"({"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", )";
  constexpr const char* kZero =
      R"(, "prediction_type": "v_prediction", "rescale_betas_zero_snr": true, "timestep_spacing": "trailing")";
  constexpr const char* kTrailing = R"(, "timestep_spacing": "trailing")";
  constexpr const char* kVelocity = R"(, "prediction_type": "v_prediction")";
  struct Case {
    const char *name, *class_name;
    std::string options;
    int64_t steps;
    double guidance, rescale = 0;
  };
  const Case cases[] = {
      {"turbo_1", "EulerAncestralDiscreteScheduler", kTrailing, 1, 0},
      {"turbo_4", "EulerAncestralDiscreteScheduler", kTrailing, 4, 0},
      {"lightning_1", "EulerDiscreteScheduler", std::string(kTrailing) + R"(, "prediction_type": "sample")", 1, 0},
      {"lightning_2", "EulerDiscreteScheduler", kTrailing, 2, 1},
      {"lightning_4", "EulerDiscreteScheduler", kTrailing, 4, 0},
      {"lightning_8", "EulerDiscreteScheduler", kTrailing, 8, 1},
      {"velocity_leading", "EulerDiscreteScheduler",
       std::string(kVelocity) + R"(, "timestep_spacing": "leading", "steps_offset": 1)", 10, 5},
      {"velocity_dpmpp", "DPMSolverMultistepScheduler", kVelocity, 10, 5},
      {"velocity_unipc", "UniPCMultistepScheduler", kVelocity, 10, 5},
      {"zero_4", "EulerDiscreteScheduler", kZero, 4, 5},
      {"zero_ddim", "DDIMScheduler", std::string(kZero) + R"(, "clip_sample": false)", 10, 5, 0.7}};
  const ExpectedTensors expected("sdxl_variants");
  EXPECT_EQ(expected.names().size(), std::size(cases));
  for (const Case& c : cases) {
    const std::string scheduler = std::string(kNoise) + "\"_class_name\": \"" + c.class_name + "\"" + c.options + "}";
    const auto pipeline = Pipeline::load(with_scheduler("sdxl", scheduler), {.threads = 2});
    PictureRequest request = variant_request(c.steps, c.guidance);
    request.guidance_rescale = static_cast<float>(c.rescale);
    const PictureResult result = pipeline->generate(request);
    EXPECT_LE(relative_error(result.latent, expected.values(std::string(c.name) + ".latent")), kVariantExact) << c.name;
    EXPECT_EQ(result.evaluations, c.steps) << c.name;
  }
}

// The file has no scheduler: its marks tell it.
TEST(SdxlVariants, of_single_files_are_known_by_their_marks) {
  const std::string path = testing::TempDir() + "/marks-" + std::to_string(::getpid()) + ".safetensors";
  const std::string tokenizer = picture_folder("sdxl") + "/tokenizer";
  struct Case {
    const char *fixture, *name;
    std::vector<std::string> marks;
    std::string prediction{};
    int64_t steps = 10;
  };
  const Case cases[] = {{"sdxl", "euler", {}},
                        {"sdxl", "euler", {}, "epsilon"},
                        {"sdxl_variants", "velocity_leading", {"v_pred"}},
                        {"sdxl_variants", "velocity_leading", {}, "v"},
                        {"sdxl_variants", "zero_4", {"v_pred", "ztsnr"}, "epsilon", 4},
                        {"sdxl_variants", "zero_4", {"ztsnr"}, "v", 4}};
  for (const Case& c : cases) {
    write_single_file("sdxl", path, {.more = c.marks, .stores_scheduler = false, .prediction = c.prediction});
    const auto pipeline =
        Pipeline::load(path, {.threads = 2, .tokenizers = {tokenizer, picture_folder("sdxl") + "/tokenizer_2"}});
    const PictureResult result = pipeline->generate(variant_request(c.steps, 5));
    const std::vector<float> expected = ExpectedTensors(c.fixture).values(std::string(c.name) + ".latent");
    EXPECT_LE(relative_error(result.latent, expected), kVariantExact) << c.name << " " << c.prediction;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace gabbro::pictures
