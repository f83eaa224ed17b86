// Whole pictures of tiny pipelines against diffusers, sampler by sampler, and what a pipeline refuses.
#include "src/pictures/pipeline.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "gabbro/error.h"
#include "src/pictures/text_states.h"
#include "tests/pictures/expected_tensors.h"
#include "tests/pictures/pipeline_copy.h"
#include "tests/pictures/scheduler_copy.h"

namespace gabbro::pictures {
namespace {

constexpr const char* kPrompt = "a Red heart, 2 cats' eyes";
// Ten steps with guidance 7.5 multiply the rounding of a block, 1e-6 and less, by up to a hundred.
constexpr double kTenSteps = 1e-4;

PictureRequest request_of(const std::string& sampler, int64_t width, int64_t height) {
  return {.prompt = kPrompt, .negative = "blurry", .width = width, .height = height, .steps = 10, .sampler = sampler};
}

std::shared_ptr<Pipeline> load(const std::string& folder) {
  return Pipeline::load(folder, {.threads = 2, .precision = Precision::kF32});
}

TEST(TextStates, equal_those_of_transformers) {
  for (const char* name : {"sd15", "sd21"}) {
    const ExpectedTensors expected(name);
    const std::string folder = picture_folder(name);
    const TextStates text(folder + "/text_encoder", folder + "/tokenizer", test_device(), true);
    const Embeddings none;
    for (const PromptSyntax syntax : {PromptSyntax::kPlain, PromptSyntax::kA1111, PromptSyntax::kComfyUi}) {
      const PromptTokens tokens = tokenize_prompt(kPrompt, syntax, text.prompt_tokenizer(none));
      ASSERT_EQ(tokens.chunks.size(), 1u);
      std::vector<int32_t> ids;
      for (const PromptToken& token : tokens.chunks[0]) ids.push_back(token.id);
      EXPECT_EQ(ids, expected.integers("text.ids")) << name;
      EXPECT_LE(relative_error(text.states(tokens, syntax, 0, nullptr), expected.values("text.states")), 1e-5) << name;
      EXPECT_LE(relative_error(text.states(tokens, syntax, 1, nullptr), expected.values("text.skipped")), 1e-5) << name;
    }
  }
}

TEST(TextStates, of_long_and_weighted_prompts) {
  const std::string folder = picture_folder("sd15");
  const TextStates text(folder + "/text_encoder", folder + "/tokenizer", test_device(), true);
  auto word = std::make_shared<Embedding>(
      Embedding{.name = "style", .vectors = {std::vector<float>(8, 0.5f), std::vector<float>(8, -1.0f)}});
  const Embeddings embeddings{{"style", word}};
  const PromptTokenizer with = text.prompt_tokenizer(embeddings);
  std::string words;
  for (int i = 0; i < 100; ++i) words += "7 ";
  const PromptTokens cut = tokenize_prompt(words, PromptSyntax::kPlain, with);
  EXPECT_EQ(cut.chunks.size(), 1u);
  EXPECT_NE(cut.dropped.find('7'), std::string::npos);
  for (const PromptSyntax syntax : {PromptSyntax::kA1111, PromptSyntax::kComfyUi}) {
    const PromptTokens all = tokenize_prompt(words, syntax, with);
    EXPECT_EQ(all.chunks.size(), 2u);
    EXPECT_EQ(all.dropped, "");
    EXPECT_EQ(text.states(all, syntax, 0, nullptr).size(), 2u * 77 * 8);
  }
  // The comma's rest goes to the next chunk.
  std::string with_comma;
  for (int i = 0; i < 70; ++i) with_comma += "7 ";
  with_comma += ", 1 2 3 4 5 6";
  const PromptTokens moved = tokenize_prompt(with_comma, PromptSyntax::kA1111, with);
  ASSERT_EQ(moved.chunks.size(), 2u);
  EXPECT_EQ(moved.chunks[0][72].id, with.end);
  EXPECT_EQ(tokenize_prompt("a BREAK b", PromptSyntax::kA1111, with).chunks.size(), 2u);
  // A weight of 1 changes nothing, another does; an embedding has the place of two tokens.
  const auto states = [&](const char* prompt, PromptSyntax syntax) {
    return text.states(tokenize_prompt(prompt, syntax, with), syntax, 0, nullptr);
  };
  EXPECT_EQ(states("(a:1) cat", PromptSyntax::kA1111), states("a cat", PromptSyntax::kA1111));
  EXPECT_NE(states("(a:1.5) cat", PromptSyntax::kA1111), states("a cat", PromptSyntax::kA1111));
  EXPECT_NE(states("(a:1.5) cat", PromptSyntax::kComfyUi), states("(a:1.5) cat", PromptSyntax::kA1111));
  const PromptTokens named = tokenize_prompt("a style cat", PromptSyntax::kA1111, with);
  EXPECT_EQ(named.chunks[0][2].vector, &word->vectors[0]);
  EXPECT_EQ(named.chunks[0][3].vector, &word->vectors[1]);
  EXPECT_EQ(tokenize_prompt("a embedding:style, cat", PromptSyntax::kComfyUi, with).chunks[0][3].vector,
            &word->vectors[1]);
  EXPECT_EQ(tokenize_prompt("a <style> cat", PromptSyntax::kPlain, with).chunks[0][2].vector, &word->vectors[0]);
  EXPECT_EQ(tokenize_prompt("styles", PromptSyntax::kA1111, with).chunks[0][1].vector, nullptr);
  EXPECT_NE(states("a style cat", PromptSyntax::kA1111), states("a cat", PromptSyntax::kA1111));
  EXPECT_EQ(tokenize_prompt("embedding:other", PromptSyntax::kComfyUi, with).notes.size(), 1u);
}

TEST(Pictures, equal_those_of_diffusers) {
  const ExpectedTensors expected("sd15");
  // Samplers are the host's: on the slow simulator one that is called once a step, and one twice, are enough.
  const bool simulated = std::string(test_device()->facts().id).starts_with("sim");
  for (const SchedulerRow& row : scheduler_rows()) {
    const std::string name = row.name;
    if (simulated && name != "pndm" && name != "heun") continue;
    const auto pipeline = load(with_scheduler("sd15", row));
    PictureRequest request = request_of("", 24, 16);
    if (name == "tcd_noise") request.eta = 0.3;
    const PictureResult result = pipeline->generate(request);
    EXPECT_LE(relative_error(result.latent, expected.values(name + ".latent")), kTenSteps) << name;
    if (name != "pndm") continue;
    // The picture, which diffusers has in 0 .. 1.
    const std::vector<float> picture = expected.values("picture");
    ASSERT_EQ(result.picture.pixels.size(), picture.size());
    int worst = 0;
    for (size_t i = 0; i < picture.size(); ++i)
      worst = std::max(worst, std::abs(result.picture.pixels[i] - static_cast<int>(std::lround(picture[i] * 255))));
    EXPECT_LE(worst, 1);
    EXPECT_EQ(result.evaluations, 11);  // PNDM does its first step twice
  }
}

TEST(Pictures, of_velocities_begin_with_noise_alone) {
  const ExpectedTensors expected("sd21");
  const auto pipeline = load(picture_folder("sd21"));
  for (const char* sampler : {"ddim", "euler"}) {
    const PictureResult result = pipeline->generate(request_of(sampler, 48, 32));
    EXPECT_LE(relative_error(result.latent, expected.values(std::string(sampler) + ".latent")), kTenSteps) << sampler;
  }
}

TEST(Pictures, of_a_seed_are_always_the_same) {
  const auto pipeline = load(picture_folder("sd15"));
  PictureRequest request = request_of("euler_a", 24, 16);
  const Latent first = pipeline->generate(request).latent;
  request.seed = 1;
  EXPECT_NE(pipeline->generate(request).latent, first);
  request.width = 40;  // another plan between
  pipeline->generate(request);
  request.seed = 0;
  request.width = 24;
  EXPECT_EQ(pipeline->generate(request).latent, first);
  request.noise = NoiseKind::kNv;
  EXPECT_NE(pipeline->generate(request).latent, first);
}

TEST(Pictures, without_guidance_take_half_of_the_work) {
  const auto pipeline = load(picture_folder("sd15"));
  PictureRequest request = request_of("ddim", 24, 16);
  request.guidance = 1;
  const Latent with = pipeline->generate(request).latent;
  request.negative = "something else";
  EXPECT_EQ(pipeline->generate(request).latent, with);
  request.guidance = 7.5;
  request.guidance_rescale = 0.7;
  EXPECT_NE(pipeline->generate(request).latent, with);
}

// The host rescales, by a share that rounds to 1 here; without rescaling the device guides.
TEST(Pictures, have_the_same_bits_with_guidance_on_host_and_device) {
  const auto pipeline = load(picture_folder("sd15"));
  PictureRequest request = request_of("dpmpp_2m", 24, 16);
  request.steps = 3;
  for (const double guidance : {1.5, 7.5}) {
    request.guidance = guidance;
    request.guidance_rescale = 0;
    const Latent on_device = pipeline->generate(request).latent;
    request.guidance_rescale = 1e-300;
    EXPECT_EQ(pipeline->generate(request).latent, on_device) << guidance;
  }
}

TEST(Pictures, of_all_sizes_and_named_schedules) {
  const auto pipeline = load(picture_folder("sd15"));
  for (const auto& [width, height] : {std::pair<int64_t, int64_t>{2, 2}, {2, 40}, {26, 18}, {34, 6}}) {
    PictureRequest request = request_of("dpmpp_2m", width, height);
    request.steps = 2;
    for (const char* schedule : {"", "karras", "beta", "sgm_uniform"}) {
      request.schedule = schedule;
      const PictureResult result = pipeline->generate(request);
      EXPECT_EQ(result.picture.width, width);
      EXPECT_EQ(result.picture.height, height);
    }
  }
}

TEST(Pictures, are_canceled_within_a_step) {
  const auto pipeline = load(picture_folder("sd15"));
  std::atomic<bool> cancel{false};
  PictureRequest request = request_of("euler", 24, 16);
  request.cancel = &cancel;
  int steps = 0;
  request.on_step = [&](const PictureStep& step) {
    ++steps;
    if (step.step == 3) cancel = true;
  };
  try {
    pipeline->generate(request);
    ADD_FAILURE() << "was not canceled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
  }
  EXPECT_EQ(steps, 3);
  cancel = false;
  EXPECT_NO_THROW(pipeline->generate(request_of("euler", 24, 16)));
}

TEST(Previews, are_decoded_or_mapped) {
  std::vector<images::Picture> previews;
  for (const std::string& decoder : {std::string(), picture_folder("taesd")}) {
    const auto pipeline = Pipeline::load(picture_folder("sd15"), {.threads = 2, .preview_decoder = decoder});
    PictureRequest request = request_of("euler", 24, 16);
    request.on_step = [&](const PictureStep& step) {
      if (step.step == step.steps) previews.push_back(pipeline->preview(step));
    };
    pipeline->generate(request);
  }
  ASSERT_EQ(previews.size(), 2u);
  EXPECT_EQ(previews[0].width, 12);  // an element a pixel
  EXPECT_EQ(previews[0].height, 8);
  EXPECT_EQ(previews[1].width, 24);
  EXPECT_EQ(previews[1].height, 16);
}

TEST(Pictures, refuse_requests_that_cannot_be) {
  const auto pipeline = load(picture_folder("sd15"));
  const auto refused = [&](const char* part, auto change) {
    PictureRequest request = request_of("", 24, 16);
    change(request);
    try {
      pipeline->check(request);
      ADD_FAILURE() << "accepts " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused("--width 25", [](PictureRequest& r) { r.width = 25; });
  refused("--height 99999", [](PictureRequest& r) { r.height = 99999; });
  refused("--steps 0", [](PictureRequest& r) { r.steps = 0; });
  refused("--steps 1001", [](PictureRequest& r) { r.steps = 1001; });
  refused("--guidance -1", [](PictureRequest& r) { r.guidance = -1; });
  refused("--guidance nan", [](PictureRequest& r) { r.guidance = NAN; });
  refused("--guidance-rescale 2", [](PictureRequest& r) { r.guidance_rescale = 2; });
  refused("--eta 3", [](PictureRequest& r) { r.eta = 3; });
  refused("--clip-skip 3", [](PictureRequest& r) { r.clip_skip = 3; });
  refused("'other'", [](PictureRequest& r) { r.sampler = "other"; });
  refused("'other'", [](PictureRequest& r) { r.schedule = "other"; });
  refused("--schedule karras", [](PictureRequest& r) { r.schedule = "karras"; });  // PNDM's timesteps are its own
  refused("51 steps", [](PictureRequest& r) { r.sampler = "lcm", r.steps = 51; });
}

TEST(Pipelines, with_wrong_files_are_refused) {
  namespace fs = std::filesystem;
  const auto refused = [](const char* part, auto change) {
    const fs::path copy = with_scheduler("sd15", SchedulerRow{"", R"("EulerDiscreteScheduler")"});
    change(copy);
    try {
      load(copy.string());
      ADD_FAILURE() << "accepts " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const auto replace = replace_in_file;
  refused("no such folder", [](const fs::path& p) { fs::remove_all(p); });
  refused("model_index.json", [](const fs::path& p) { fs::remove(p / "model_index.json"); });
  refused("'FluxPipeline'",
          [&](const fs::path& p) { replace(p / "model_index.json", "StableDiffusionPipeline", "FluxPipeline"); });
  refused("vae/", [](const fs::path& p) { fs::remove_all(p / "vae"); });
  refused("'VQModel'", [&](const fs::path& p) { replace(p / "model_index.json", "AutoencoderKL", "VQModel"); });
  refused("unet", [](const fs::path& p) { fs::remove(p / "unet" / "diffusion_pytorch_model.safetensors"); });
  refused("pickle", [](const fs::path& p) {
    fs::rename(p / "unet" / "diffusion_pytorch_model.safetensors", p / "unet" / "diffusion_pytorch_model.bin");
  });
  refused("scheduler_config.json", [](const fs::path& p) { fs::remove(p / "scheduler" / "scheduler_config.json"); });
  refused("vocab.json", [](const fs::path& p) { fs::remove(p / "tokenizer" / "vocab.json"); });
  refused("merges.txt", [](const fs::path& p) { fs::remove(p / "tokenizer" / "merges.txt"); });
  refused("<|endoftext|>",
          [&](const fs::path& p) { replace(p / "tokenizer" / "vocab.json", "<|endoftext|>", "<|other|>"); });
  refused("block_out_channels",
          [&](const fs::path& p) { replace(p / "unet" / "config.json", "block_out_channels", "other"); });
  refused("8 channels",
          [&](const fs::path& p) { replace(p / "unet" / "config.json", "\"in_channels\": 4", "\"in_channels\": 8"); });
  refused("act_fn", [&](const fs::path& p) { replace(p / "unet" / "config.json", "\"silu\"", "\"gelu\""); });
  refused("'AttnDownBlock2D'",
          [&](const fs::path& p) { replace(p / "unet" / "config.json", "CrossAttnDownBlock2D", "AttnDownBlock2D"); });
  refused("latent_channels", [&](const fs::path& p) {
    replace(p / "vae" / "config.json", "\"latent_channels\": 4", "\"latent_channels\": \"a\"");
  });
  refused("scaling_factor", [&](const fs::path& p) { replace(p / "vae" / "config.json", "0.18215", "0"); });
}

}  // namespace
}  // namespace gabbro::pictures
