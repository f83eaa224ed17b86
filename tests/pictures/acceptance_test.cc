// Reports of users of other programs as tests, which have no better place.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "gabbro/error.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/pictures/pipeline.h"
#include "src/pictures/pipeline_conversion.h"
#include "src/pictures/prompt_encoder.h"
#include "src/pictures/request_schedule.h"
#include "tests/pictures/expected_tensors.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

std::string repeated(const std::string& words, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += words;
  return text;
}

// States of a row of EncodedPrompts, from chunk `first` on.
std::vector<float> states_of(const EncodedPrompts& prompts, size_t row, size_t first, size_t count, size_t chunk) {
  const size_t of_row = prompts.states->size() / 2;
  const auto at = prompts.states->begin() + static_cast<std::ptrdiff_t>(row * of_row + first * chunk);
  return {at, at + static_cast<std::ptrdiff_t>(count * chunk)};
}

// A file of textual inversion whose vectors are the rows of these tokens, in each of a pipeline's text encoders.
std::string inversion_of_tokens(const std::string& pipeline, const std::vector<int32_t>& ids) {
  std::vector<std::vector<float>> rows;
  std::vector<safetensors::TensorData> tensors;
  const char* const names[] = {"clip_l", "clip_g"};
  for (size_t i = 0; i < 2; ++i) {
    const std::string folder = picture_folder(pipeline) + (i == 0 ? "/text_encoder" : "/text_encoder_2");
    const Checkpoint checkpoint = Checkpoint::open(folder);
    const std::string name = "embeddings.token_embedding.weight";
    const CheckpointTensor* const prefixed = checkpoint.tensor("text_model." + name);
    const CheckpointTensor& table = prefixed != nullptr ? *prefixed : checkpoint.require_tensor(name);
    const auto width = static_cast<size_t>(table.shape[1]);
    const auto* const values = reinterpret_cast<const float*>(table.data.data());
    std::vector<float>& taken = rows.emplace_back();
    for (const int32_t id : ids) taken.insert(taken.end(), values + id * width, values + (id + 1) * width);
    tensors.push_back(
        {.name = names[i], .dtype = DType::f32, .shape = {std::ssize(ids), static_cast<int64_t>(width)}, .data = {}});
  }
  for (size_t i = 0; i < 2; ++i) tensors[i].data = std::as_bytes(std::span(rows[i]));
  const std::string path = testing::TempDir() + "/inverted.safetensors";
  safetensors::write(path, tensors);
  return path;
}

// Item 1: a negative prompt of one chunk next to a prompt of two.
TEST(AcceptanceList, short_prompts_get_chunks_of_an_empty_one) {
  const PromptEncoder encoder(open_pipeline(picture_folder("sdxl")), test_device(), true, {});
  std::vector<std::string> notes;
  const EncodedPrompts both = encoder.encode({.prompt = repeated("a red heart, ", 30), .negative = "blurry"}, notes);
  ASSERT_GT(both.length, 77);
  const auto chunk = static_cast<size_t>(77 * encoder.width());
  const EncodedPrompts shorter = encoder.encode({.prompt = " ", .negative = "blurry"}, notes);
  EXPECT_EQ(states_of(both, 0, 0, 1, chunk), states_of(shorter, 0, 0, 1, chunk));
  EXPECT_EQ(states_of(both, 0, 1, 1, chunk), states_of(shorter, 1, 0, 1, chunk));
  // The pooled text is that of the first chunk.
  const EncodedPrompts first = encoder.encode({.prompt = "a red heart, BREAK a cat", .negative = "blurry"}, notes);
  const EncodedPrompts alone = encoder.encode({.prompt = "a red heart, ", .negative = "blurry"}, notes);
  EXPECT_EQ(first.pooled, alone.pooled);
}

// Item 2: what is kept has no noise left at the end, whatever the seed.
TEST(AcceptanceList, the_last_step_adds_no_noise_to_what_is_kept) {
  const auto pipeline =
      Pipeline::load(picture_folder("sd15"), {.threads = 2, .encoder = true, .precision = Precision::kF32});
  images::Picture init{.width = 32, .height = 16}, mask{.width = 32, .height = 16, .channels = 1};
  for (size_t i = 0; i < 32 * 16; ++i) {
    for (size_t c = 0; c < 3; ++c) init.pixels.push_back(static_cast<uint8_t>(7 * i + 50 * c));
    mask.pixels.push_back(i % 32 < 16 ? 255 : 0);
  }
  for (const char* sampler : {"ddim", "euler", "euler_a", "dpmpp_2m", "lcm"}) {
    std::vector<Latent> latents;
    for (const uint64_t seed : {1, 2}) {
      PictureRequest request{.prompt = "a heart", .steps = 4, .seed = seed, .sampler = sampler};
      request.like = Program::kA1111;  // which takes the encoder's mean
      request.init = std::make_shared<images::Picture>(init);
      request.mask = std::make_shared<images::Picture>(mask);
      latents.push_back(pipeline->generate(request).latent);
    }
    constexpr size_t kHeight = 8, kWidth = 16;  // a latent's element is 2 x 2 pixels
    ASSERT_EQ(latents[0].size(), 4 * kHeight * kWidth);
    for (size_t c = 0; c < 4; ++c) {
      for (size_t y = 0; y < kHeight; ++y) {
        for (size_t x = kWidth / 2 + 1; x < kWidth; ++x) {
          const size_t at = (c * kHeight + y) * kWidth + x;
          ASSERT_EQ(latents[0][at], latents[1][at]) << sampler << " at " << c << ", " << y << ", " << x;
        }
      }
    }
  }
}

// Item 3: states of zeros, and of an empty text, give finite pictures that differ.
TEST(AcceptanceList, empty_negative_prompts_of_sdxl_are_zeros_or_an_empty_text) {
  const auto pipeline = Pipeline::load(picture_folder("sdxl"), {.threads = 2, .precision = Precision::kF32});
  const auto drawn = [&](PromptSyntax syntax) {
    const Latent latent =
        pipeline
            ->generate(
                {.prompt = "a heart", .width = 24, .height = 16, .steps = 2, .syntax = syntax, .sampler = "ddim"})
            .latent;
    EXPECT_TRUE(all_finite(latent));
    return latent;
  };
  EXPECT_EQ(drawn(PromptSyntax::kPlain), drawn(PromptSyntax::kA1111));
  EXPECT_NE(drawn(PromptSyntax::kPlain), drawn(PromptSyntax::kComfyUi));
}

// Item 12: the last step of DPM++ 2M with Karras' levels ends at the picture that the model sees.
TEST(AcceptanceList, the_last_step_leaves_no_noise) {
  for (const char* name : {"dpmpp_2m", "euler", "heun", "unipc", "dpmpp_2m_sde", "dpmpp_sde", "euler_a"}) {
    const Sampler& sampler = find_sampler(name);
    SchedulerConfig config;
    config.sampler = &sampler;
    config.schedule.style = sampler.style;
    const Schedule schedule = schedule_of({.steps = 20, .schedule = "karras"}, config);
    ASSERT_EQ(schedule.targets.back().ratio, 0) << name;
    class Ones : public NoiseSource {
      std::vector<float> normal(size_t count) override { return std::vector<float>(count, 1.0f); }
    } noise;
    SamplerModel model{.prediction = Prediction::kSample};
    model.call = [](const Latent& x, double) { return Latent(x.size(), 0.25f); };
    const SamplerRun run{.schedule = schedule, .model = model, .noise = noise, .options = config.options};
    const Latent start(16, static_cast<float>(schedule.start_scale));
    for (const float value : sampler.run(start, run)) EXPECT_NEAR(value, 0.25f, 1e-6) << name;
  }
}

// Item 13: vectors that stand for a token have its states and its pooled text.
TEST(AcceptanceList, the_pooled_text_is_at_the_first_end_token_with_embeddings_too) {
  const PipelineParts parts = open_pipeline(picture_folder("sdxl"));
  std::vector<std::string> notes;
  const PromptEncoder plain(parts, test_device(), true, {});
  static const Embeddings kNone;
  const PromptTokens tokens = tokenize_prompt("cat", PromptSyntax::kA1111, plain.encoder(0).prompt_tokenizer(kNone));
  std::vector<int32_t> ids;
  const int32_t end = plain.encoder(0).prompt_tokenizer(kNone).end;
  for (const PromptToken& token : std::span(tokens.chunks[0]).subspan(1)) {
    if (token.id == end) break;
    ids.push_back(token.id);
  }
  const PromptEncoder inverted(parts, test_device(), true, {"zz=" + inversion_of_tokens("sdxl", ids)});
  const EncodedPrompts expected = plain.encode({.prompt = "a cat", .guides = false}, notes);
  const EncodedPrompts actual = inverted.encode({.prompt = "a zz", .guides = false}, notes);
  EXPECT_EQ(notes, std::vector<std::string>());
  EXPECT_LE(relative_error(*actual.states, *expected.states), 1e-6);
  EXPECT_LE(relative_error(actual.pooled, expected.pooled), 1e-6);
}

// Item 17: a seed's noise does not depend on the format that a pipeline computes in.
TEST(AcceptanceList, the_first_noise_is_one_of_the_seed_in_each_precision) {
  std::vector<Latent> first;
  for (const Precision precision : {Precision::kF32, Precision::kF16, Precision::kBf16}) {
    const auto pipeline = Pipeline::load(picture_folder("sd15"), {.threads = 2, .precision = precision});
    // At the first step of DDIM the picture that is seen is the noise less the prediction, which is small next to it.
    PictureRequest request{
        .prompt = "a", .width = 24, .height = 16, .steps = 2, .guidance = 1, .seed = 7, .sampler = "ddim"};
    request.on_step = [&](const PictureStep& step) {
      if (step.step == 1) first.push_back(step.latent);
    };
    pipeline->generate(request);
  }
  ASSERT_EQ(first.size(), 3u);
  EXPECT_LE(relative_error(first[1], first[0]), 1e-2);
  EXPECT_LE(relative_error(first[2], first[0]), 1e-1);
}

// Item 24: of a schedule with equal timesteps, the steps of a strength begin by their number.
TEST(AcceptanceList, steps_of_a_strength_begin_by_index) {
  SchedulerConfig config;
  config.sampler = &find_sampler("euler");
  config.schedule.style = config.sampler->style;
  const auto rounded = [](const Schedule& schedule) {
    std::vector<double> all;
    for (const NoiseLevel& level : schedule.levels) all.push_back(std::nearbyint(level.timestep));
    return all;
  };
  const Schedule whole = schedule_of({.steps = 600, .schedule = "karras"}, config);
  const std::vector<double> timesteps = rounded(whole);
  ASSERT_NE(std::ranges::adjacent_find(timesteps), timesteps.end());  // some are equal
  const Schedule part = schedule_of({.steps = 600, .schedule = "karras", .strength = 0.25}, config);
  ASSERT_EQ(part.steps(), 150u);
  for (size_t i = 0; i < part.steps(); ++i) {
    EXPECT_EQ(part.levels[i].ratio, whole.levels[450 + i].ratio);
    EXPECT_EQ(part.levels[i].timestep, whole.levels[450 + i].timestep);
  }
}

// A LoRA of the internal pipeline, of rank 2.
std::string lora_of_emoji(float value) {
  constexpr int64_t kRank = 2, kWidth = 64;  // of the first level
  const std::string layer = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_";
  std::vector<std::vector<float>> values;
  std::vector<safetensors::TensorData> tensors;
  std::vector<std::string> names;
  for (const char* part : {"q", "v"}) {
    for (const bool is_down : {true, false}) {
      names.push_back(layer + part + (is_down ? ".lora_down.weight" : ".lora_up.weight"));
      std::vector<float>& numbers = values.emplace_back();
      for (int64_t i = 0; i < kRank * kWidth; ++i)
        numbers.push_back(value * static_cast<float>(std::sin(0.7 * static_cast<double>(i) + (is_down ? 0 : 1))));
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_down = i % 2 == 0;
    tensors.push_back({.name = names[i],
                       .dtype = DType::f32,
                       .shape = is_down ? std::vector{kRank, kWidth} : std::vector{kWidth, kRank},
                       .data = std::as_bytes(std::span(values[i]))});
  }
  const std::string path = testing::TempDir() + "/emoji_lora.safetensors";
  safetensors::write(path, tensors);
  return path;
}

// Item 26: weights of q8_0, sizes and adapters that change. Item 8: strength 0, and back to none, to the bit.
TEST(AcceptanceList, quantized_pictures_equal_those_of_fresh_pipelines_whatever_came_before) {
  const std::string lora = lora_of_emoji(0.3f);
  const auto load = [] { return Pipeline::load("emoji", {.threads = 2, .precision = Precision::kF32}); };
  std::vector<PictureRequest> requests;
  for (const double strength : {0.0, 1.0, -0.5}) {
    for (const int64_t side : {64, 96}) {
      PictureRequest& request = requests.emplace_back(PictureRequest{
          .prompt = "a red heart", .width = side, .height = 64, .steps = 2, .seed = 3, .sampler = "ddim"});
      if (strength != 0) request.loras = {{lora, strength}};
    }
  }
  requests.push_back(requests[0]);
  requests.back().loras = {{lora, 0}};
  const auto kept = load();
  std::vector<Latent> drawn;
  for (const PictureRequest& request : requests) {
    drawn.push_back(kept->generate(request).latent);
    EXPECT_EQ(drawn.back(), load()->generate(request).latent);
  }
  EXPECT_EQ(kept->generate(requests[1]).latent, drawn[1]);
  EXPECT_EQ(drawn.back(), drawn[0]);
  EXPECT_NE(drawn[2], drawn[0]);
  EXPECT_NE(drawn[4], drawn[0]);
}

// Item 8: an adapter adds the same to weights of q8_0 as to the numbers that these stand for.
TEST(AcceptanceList, adapters_of_quantized_weights_are_those_of_their_numbers) {
  const fs::path folder = fs::path(testing::TempDir()) / "emoji_f32";
  fs::remove_all(folder);
  convert_pipeline("emoji", folder.string(), *find_file_type(std::string_view("f32")));
  PictureRequest request{.prompt = "a red heart", .width = 64, .height = 64, .steps = 2, .seed = 3, .sampler = "ddim"};
  const auto latent = [&](const std::string& model) {
    return Pipeline::load(model, {.threads = 2, .precision = Precision::kF32})->generate(request).latent;
  };
  const Latent without = latent("emoji");
  request.loras = {{lora_of_emoji(0.3f), 1}};
  const Latent quantized = latent("emoji"), wide = latent(folder.string());
  EXPECT_GT(relative_error(quantized, without), 0.05);
  EXPECT_LE(relative_error(quantized, wide), 0.01);  // activations are rounded to q8 in products
  fs::remove_all(folder);
}

}  // namespace
}  // namespace gabbro::pictures
