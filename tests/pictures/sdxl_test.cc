// SDXL: states of two text encoders, the pooled text and the picture's size, and whole pictures against diffusers.
#include <filesystem>

#include "gabbro/error.h"
#include "src/models/diffusion/unet.h"
#include "src/pictures/pipeline.h"
#include "src/pictures/pipeline_folder.h"
#include "src/pictures/prompt_encoder.h"
#include "tests/pictures/expected_tensors.h"
#include "tests/pictures/pipeline_copy.h"

namespace gabbro::pictures {
namespace {

constexpr const char* kXlPrompt = "a Red heart, 2 cats' eyes";
constexpr double kXlExact = 1e-5, kXlTenSteps = 1e-4;

std::shared_ptr<Pipeline> load_xl(const std::string& folder) {
  return Pipeline::load(folder, {.threads = 2, .precision = Precision::kF32});
}

PictureRequest xl_request(double guidance) {
  return {.prompt = kXlPrompt, .negative = "blurry", .width = 24, .height = 16, .steps = 10, .guidance = guidance};
}

TEST(TextStates, equal_those_of_both_encoders_of_sdxl) {
  const ExpectedTensors expected("sdxl");
  const PipelineFolder folder = read_pipeline_folder(picture_folder("sdxl"));
  ASSERT_EQ(folder.text_encoders.size(), 2u);
  EXPECT_TRUE(folder.zeros_for_empty);
  const Embeddings none;
  for (size_t i = 0; i < 2; ++i) {
    const auto& [encoder, tokenizer] = folder.text_encoders[i];
    const TextStates text(encoder, tokenizer, test_device(), true, TextLayer::kPenultimate);
    std::vector<int32_t> ids;
    const PromptTokens tokens = tokenize_prompt(kXlPrompt, PromptSyntax::kPlain, text.prompt_tokenizer(none));
    for (const PromptToken& token : tokens.chunks[0]) ids.push_back(token.id);
    EXPECT_EQ(ids, expected.integers(i == 0 ? "text.ids" : "text_2.ids"));
  }
  const PromptEncoder encoder(open_pipeline(picture_folder("sdxl")), test_device(), true, {});
  EXPECT_EQ(encoder.width(), 20);
  EXPECT_EQ(encoder.pooled_width(), 10);
  EXPECT_EQ(encoder.most_skipped(), 1);
  std::vector<std::string> notes;
  PromptPair pair{.prompt = kXlPrompt, .guides = false};
  const EncodedPrompts alone = encoder.encode(pair, notes);
  EXPECT_LE(relative_error(*alone.states, expected.values("text.states")), kXlExact);
  EXPECT_LE(relative_error(alone.pooled, expected.values("text.pooled")), kXlExact);
  pair.skipped = 1;
  EXPECT_LE(relative_error(*encoder.encode(pair, notes).states, expected.values("text.skipped")), kXlExact);
  pair.skipped = 2;
  EXPECT_THROW(encoder.encode(pair, notes), Error);
}

TEST(PromptEncoder, takes_zeros_for_an_empty_negative_prompt) {
  const PromptEncoder encoder(open_pipeline(picture_folder("sdxl")), test_device(), true, {});
  std::vector<std::string> notes;
  PromptPair pair{.prompt = kXlPrompt};
  const EncodedPrompts zeros = encoder.encode(pair, notes);
  ASSERT_EQ(zeros.states->size(), 2u * 77 * 20);
  ASSERT_EQ(zeros.pooled.size(), 20u);
  const auto is_zero = [](float value) { return value == 0; };
  EXPECT_TRUE(std::all_of(zeros.states->begin(), zeros.states->begin() + 77 * 20, is_zero));
  EXPECT_TRUE(std::all_of(zeros.pooled.begin(), zeros.pooled.begin() + 10, is_zero));
  pair.syntax = PromptSyntax::kComfyUi;
  const EncodedPrompts encoded = encoder.encode(pair, notes);
  EXPECT_FALSE(std::any_of(encoded.pooled.begin(), encoded.pooled.end(), is_zero));
  // Weights and chunks after the first one leave the pooled text alone.
  pair.guides = false;
  pair.prompt = "a cat BREAK dog";
  pair.syntax = PromptSyntax::kA1111;
  const EncodedPrompts chunks = encoder.encode(pair, notes);
  EXPECT_EQ(chunks.length, 2 * 77);
  pair.prompt = "a (cat:1.4)";
  const EncodedPrompts weighted = encoder.encode(pair, notes);
  EXPECT_EQ(weighted.pooled, chunks.pooled);
  EXPECT_EQ(notes, std::vector<std::string>());
}

TEST(AddedFeatures, are_the_pooled_text_and_six_numbers) {
  const ExpectedTensors expected("sdxl");
  const Json config = read_config(picture_folder("sdxl") + "/unet", "config.json");
  const diffusion::UNetConfig unet_config = diffusion::read_unet_config(JsonNode(config, "unet/config.json"));
  const diffusion::UNet unet(nn::Factory{.device = test_device()}, unet_config);
  EXPECT_EQ(unet.facts().added_features, 46);
  const std::vector<float> pooled = expected.values("unet.pooled");
  const std::vector<int32_t> stored = expected.integers("unet.ids");
  const std::vector<int64_t> ids(stored.begin(), stored.end());
  std::vector<float> features;
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<float> row = unet.added_features(std::span(pooled).subspan(10 * i, 10), ids);
    features.insert(features.end(), row.begin(), row.end());
  }
  EXPECT_LE(relative_error(features, expected.values("unet.added")), 1e-6);
}

TEST(Pictures, equal_those_of_diffusers_for_sdxl) {
  constexpr const char* kNoise = R"("beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear")";
  struct Case {
    const char *name, *scheduler;
    double guidance, rescale = 0;
    bool is_negative = true;
  };
  const Case cases[] = {
      {"euler", R"("EulerDiscreteScheduler", "timestep_spacing": "leading", "steps_offset": 1)", 5},
      {"velocity",
       R"("EulerDiscreteScheduler", "prediction_type": "v_prediction", "rescale_betas_zero_snr": true, )"
       R"("timestep_spacing": "trailing")",
       5, 0.7},
      {"zeros", R"("EulerDiscreteScheduler", "timestep_spacing": "leading", "steps_offset": 1)", 5, 0, false},
      {"karras", R"("DPMSolverMultistepScheduler", "use_karras_sigmas": true)", 5},
      {"turbo", R"("EulerAncestralDiscreteScheduler", "timestep_spacing": "trailing")", 0},
      {"lightning", R"("EulerDiscreteScheduler", "timestep_spacing": "trailing")", 1}};
  const ExpectedTensors expected("sdxl");
  const bool simulated = std::string(test_device()->facts().id).starts_with("sim");
  for (const Case& c : cases) {
    if (simulated && &c != &cases[0]) continue;
    const auto pipeline =
        load_xl(with_scheduler("sdxl", std::string("{") + kNoise + ", \"_class_name\": " + c.scheduler + "}"));
    PictureRequest request = xl_request(c.guidance);
    request.guidance_rescale = c.rescale;
    if (!c.is_negative) request.negative.clear();
    const PictureResult result = pipeline->generate(request);
    EXPECT_LE(relative_error(result.latent, expected.values(std::string(c.name) + ".latent")), kXlTenSteps) << c.name;
    if (&c != &cases[0]) continue;
    const std::vector<float> picture = expected.values("picture");
    ASSERT_EQ(result.picture.pixels.size(), picture.size());
    int worst = 0;
    for (size_t i = 0; i < picture.size(); ++i)
      worst = std::max(worst, std::abs(result.picture.pixels[i] - static_cast<int>(std::lround(picture[i] * 255))));
    EXPECT_LE(worst, 1);
    EXPECT_EQ(pipeline->facts().width, 128);
    EXPECT_EQ(pipeline->facts().class_name, "StableDiffusionXLPipeline");
  }
}

TEST(Pipelines, of_sdxl_with_wrong_files_are_refused) {
  namespace fs = std::filesystem;
  const auto refused = [](const char* part, const char* file, const char* what, const char* with) {
    const fs::path copy = with_scheduler("sdxl", R"({"_class_name": "EulerDiscreteScheduler"})");
    if (what == nullptr) {
      fs::remove_all(copy / file);
    } else {
      replace_in_file(copy / file, what, with);
    }
    try {
      load_xl(copy.string());
      ADD_FAILURE() << "accepts " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  constexpr const char *kIndex = "model_index.json", *kUnet = "unet/config.json";
  refused("refiner", kIndex, "\"force_zeros", "\"requires_aesthetics_score\": true, \"force_zeros");
  refused("text_encoder_2", kIndex, "\"text_encoder_2\"", "\"other\"");
  refused("'CLIPTextModel'", kIndex, "CLIPTextModelWithProjection", "CLIPTextModel");
  refused("text_encoder_2/", "text_encoder_2", nullptr, nullptr);
  refused("tokenizer_2/", "tokenizer_2", nullptr, nullptr);
  refused("a pooled text, the pipeline has none", kIndex, "StableDiffusionXLPipeline", "StableDiffusionPipeline");
  refused("addition_embed_type", kUnet, "\"text_time\"", "\"text\"");
  refused("no pooled text, the pipeline has one", kUnet, "\"text_time\"", "null");
  refused("refiner", kUnet, "\"projection_class_embeddings_input_dim\": 46",
          "\"projection_class_embeddings_input_dim\": 40");
  refused("47 added numbers", kUnet, "\"projection_class_embeddings_input_dim\": 46",
          "\"projection_class_embeddings_input_dim\": 47");
  refused("addition_time_embed_dim", kUnet, "\"addition_time_embed_dim\": 6", "\"addition_time_embed_dim\": 5");
  refused("projection_class_embeddings_input_dim", kUnet, "\"projection_class_embeddings_input_dim\": 46",
          "\"other\": 1");
}

}  // namespace
}  // namespace gabbro::pictures
