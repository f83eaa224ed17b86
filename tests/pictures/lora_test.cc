// Adapters in all forms and spellings against weights that they were merged into (make_lora_fixtures.py), and what a
// pipeline does with their strengths.
#include "src/pictures/lora/adapters.h"

#include <unistd.h>

#include <filesystem>

#include "gabbro/error.h"
#include "gabbro/graph/eval.h"
#include "src/models/weights/checkpoint_weights.h"
#include "src/models/weights/module_weights.h"
#include "src/pictures/pipeline.h"
#include "src/pictures/pipeline_folder.h"
#include "tests/pictures/expected_tensors.h"

namespace gabbro::pictures {
namespace {

constexpr const char* kForms[] = {"lora_kohya",   "lora_peft",    "lora_diffusers", "lora_onetrainer",
                                  "locon_ldm",    "locon_mid",    "loha",           "loha_tucker",
                                  "lokr",         "lokr_factors", "lokr_tucker",    "dora_rows",
                                  "dora_columns", "full",         "norms",          "text"};
// Sums of some thousand products in f32; the merge rounds each weight once.
constexpr double kMerged = 1e-5;

std::string adapter(const std::string& name) { return picture_folder("lora/" + name + ".safetensors"); }

std::vector<float> read_values(const std::string& path, const std::string& name) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  const CheckpointTensor* const tensor = checkpoint.tensor("text_model." + name);
  const CheckpointTensor& found = tensor != nullptr ? *tensor : checkpoint.require_tensor(name);
  const auto* const first = reinterpret_cast<const float*>(found.data.data());
  return {first, first + found.elements()};
}

// The tiny U-Net and text encoder with their adapters.
class AdaptedModels : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = picture_folder("sd15");
    const std::string weights = weights_of(folder + "/unet");
    const Json config = read_config(folder + "/unet", "config.json");
    const Checkpoint checkpoint = Checkpoint::open(weights);
    llm::CheckpointWeights source(checkpoint, {}, test_device(), {});
    const nn::Factory make{.device = test_device(), .weights = std::make_shared<llm::SourcedModuleWeights>(source)};
    unet_ = std::make_shared<diffusion::UNet>(make, diffusion::read_unet_config(JsonNode(config, "config.json")));
    const std::string text_weights = folder + "/text_encoder/model.safetensors";
    text_ = std::make_unique<TextStates>(folder + "/text_encoder", folder + "/tokenizer", test_device(), true);
    adapters_ = std::make_unique<Adapters>(AdaptedModel{
        .device = test_device(),
        .unet = unet_,
        .resnets = 1,
        .texts = {{text_.get(), [text_weights](const std::string& name) { return read_values(text_weights, name); }}},
        .unet_weight = [weights](const std::string& name) { return read_values(weights, name); }});
  }

  std::vector<float> run(const std::vector<LoraStrength>& loras) {
    adapters_->use(loras);
    const ExpectedTensors inputs("sd15");
    std::vector<float> times;
    for (int i = 0; i < 2; ++i) {
      const std::vector<float> features = unet_->time_features(981);
      times.insert(times.end(), features.begin(), features.end());
    }
    const Shape shape{2, unet_->facts().time_features};
    return to_host<float>(unet_->forward({.latent = inputs.tensor("unet.x"),
                                          .time = test_device()->upload(DType::f32, shape, times.data()),
                                          .context = inputs.tensor("unet.context")}));
  }
  std::vector<float> states(const std::vector<LoraStrength>& loras) {
    adapters_->use(loras);
    static const Embeddings kNone;
    const PromptSyntax syntax = PromptSyntax::kPlain;
    const PromptTokens tokens = tokenize_prompt("a Red heart, 2 cats' eyes", syntax, text_->prompt_tokenizer(kNone));
    return text_->states(tokens, syntax, 0, nullptr);
  }

  std::shared_ptr<diffusion::UNet> unet_;
  std::unique_ptr<TextStates> text_;
  std::unique_ptr<Adapters> adapters_;
  ExpectedTensors expected_{"lora"};
};

TEST_F(AdaptedModels, of_16_forms_equal_merged_weights) {
  const std::vector<float> none = run({});
  for (const char* const form : kForms) {
    const std::vector<float> wanted = expected_.values(std::string(form) + ".y");
    EXPECT_LE(relative_error(run({{adapter(form), 1}}), wanted), kMerged) << form;
    EXPECT_GT(relative_error(none, wanted), 100 * kMerged) << form;  // the form does something
  }
  EXPECT_LE(relative_error(states({{adapter("text"), 1}}), expected_.values("text.states")), kMerged);
}

TEST_F(AdaptedModels, of_several_adapters_and_strengths) {
  EXPECT_LE(relative_error(run({{adapter("lora_kohya"), 0.5}}), expected_.values("half.y")), kMerged);
  const std::vector<LoraStrength> both = {{adapter("lora_kohya"), 0.7}, {adapter("lokr"), -0.4}};
  EXPECT_LE(relative_error(run(both), expected_.values("both.y")), kMerged);
  EXPECT_LE(
      relative_error(run({{adapter("lora_kohya"), 0.3}, {adapter("lora_kohya"), 0.2}}), expected_.values("half.y")),
      kMerged);
}

TEST_F(AdaptedModels, at_strength_0_equal_none_to_the_bit) {
  const std::vector<float> none = run({}), plain = states({});
  for (const char* const form : kForms) {
    const std::string path = adapter(form);
    EXPECT_NE(run({{path, 0.8}}), none) << form;
    EXPECT_EQ(run({{path, 0}}), none) << form;
    EXPECT_EQ(run({{path, 0.8}, {path, -0.8}}), none) << form;
  }
  EXPECT_NE(states({{adapter("text"), 0.8}}), plain);
  EXPECT_EQ(states({{adapter("text"), 0}}), plain);
  EXPECT_EQ(states({}), plain);
  EXPECT_EQ(run({}), none);
}

TEST_F(AdaptedModels, keep_their_plan_when_a_strength_changes) {
  adapters_->use(std::vector<LoraStrength>{{adapter("lora_kohya"), 0.5}});
  const std::vector<int64_t> key = adapters_->plan_key();
  adapters_->use(std::vector<LoraStrength>{{adapter("lora_kohya"), -1.5}});
  EXPECT_EQ(adapters_->plan_key(), key);
  adapters_->use(std::vector<LoraStrength>{{adapter("lora_kohya"), 0}});
  EXPECT_EQ(adapters_->plan_key(), std::vector<int64_t>());
}

class AdapterFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("lora-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A file of zeros, as (name, shape).
  std::string write(const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors, float value = 0) const {
    const std::vector<float> values(4096, value);
    std::vector<safetensors::TensorData> all;
    for (const auto& [name, shape] : tensors) {
      size_t count = 1;
      for (const int64_t length : shape) count *= static_cast<size_t>(length);
      all.push_back({name, DType::f32, shape, std::as_bytes(std::span(values).first(count))});
    }
    const std::string path = (folder_ / "a.safetensors").string();
    safetensors::write(path, all);
    return path;
  }

  std::filesystem::path folder_;
};

TEST_F(AdapterFiles, that_do_not_fit_are_refused_by_the_name_of_a_tensor) {
  const auto pipeline = Pipeline::load(picture_folder("sd15"), {.threads = 2});
  const std::string q = "lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn1_to_q";
  const auto refused = [&](const std::string& part, const std::string& path) {
    try {
      pipeline->generate({.prompt = "a", .width = 16, .height = 16, .steps = 1, .loras = {{path, 1}}});
      ADD_FAILURE() << "accepts " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;
  const std::string down = q + ".lora_down.weight", up = q + ".lora_up.weight";
  refused("none.safetensors", (folder_ / "none.safetensors").string());
  refused("pickle", (folder_ / "a.ckpt").string());
  refused("has no tensors", write({}));
  refused("odd.weight", write({{"odd.weight", {2}}}));
  refused("lora_unet_other.lora_down.weight",
          write({{"lora_unet_other.lora_down.weight", {2, 8}}, {"lora_unet_other.lora_up.weight", {8, 2}}}));
  refused("lora_te2_text_model_encoder_layers_0_mlp_fc1.alpha",
          write({{"lora_te2_text_model_encoder_layers_0_mlp_fc1.alpha", {}}}));
  refused("text_model.encoder.layers.9.mlp.fc1.lora_A.weight",
          write({{"text_encoder.text_model.encoder.layers.9.mlp.fc1.lora_A.weight", {2, 8}}}));
  refused("no tensor 'up'", write({{down, {2, 8}}}));
  refused("no tensor 'down'", write({{up, {8, 2}}}));
  refused(down, write({{down, {2, 9}}, {up, {8, 2}}}));
  refused(up, write({{down, {2, 8}}, {up, {8, 3}}}));
  refused("[7, 2] does not fit the model's weight [8, 8]", write({{down, {2, 8}}, {up, {7, 2}}}));
  refused("not one number", write({{down, {2, 8}}, {up, {8, 2}}, {q + ".alpha", {2}}}));
  refused("has no place", write({{down, {2, 8}}, {up, {8, 2}}, {q + ".hada_t1", {2, 2, 1, 1}}}));
  refused("no tensor 'hada_w1_b'", write({{q + ".hada_w1_a", {8, 2}}}));
  refused("lokr_w1", write({{q + ".lokr_w1", {3, 3}}, {q + ".lokr_w2", {2, 2}}}));
  refused("no bias", write({{q + ".diff_b", {8}}}));
  refused("no other difference", write({{q + ".dora_scale", {8, 1}}}));
  refused("dora_scale", write({{down, {2, 8}}, {up, {8, 2}}, {q + ".dora_scale", {3}}}));
  refused(".diff", write({{q + ".diff", {8, 7}}}));
  refused("twice", write({{down, {2, 8}}, {q + ".lora_A.weight", {2, 8}}, {up, {8, 2}}}));
  refused("not numbers", write(Shapes{{down, {2, 8}}, {up, {8, 2}}}, NAN));
  // The pipeline draws as before.
  EXPECT_NO_THROW(pipeline->generate({.prompt = "a", .width = 16, .height = 16, .steps = 1}));
}

TEST(AdaptedPictures, follow_the_strength_of_each_request) {
  const auto pipeline = Pipeline::load(picture_folder("sd15"), {.threads = 2});
  const auto draw = [&](std::vector<LoraStrength> loras) {
    return pipeline->generate({.prompt = "a cat", .width = 24, .height = 16, .steps = 2, .loras = std::move(loras)})
        .latent;
  };
  const Latent none = draw({}), whole = draw({{adapter("text"), 1}}), half = draw({{adapter("text"), 0.5}});
  EXPECT_NE(whole, none);
  EXPECT_NE(half, whole);
  EXPECT_EQ(draw({{adapter("text"), 0}}), none);
  EXPECT_EQ(draw({{adapter("text"), 1}}), whole);
  EXPECT_EQ(draw({{adapter("loha"), 1}, {adapter("text"), 0.5}, {adapter("loha"), -1}}), half);
  EXPECT_EQ(draw({}), none);
  // Adapters of layers whose results the steps of a picture share.
  const Latent strong = draw({{adapter("lora_kohya"), 1}}), weak = draw({{adapter("lora_kohya"), 0.25}});
  EXPECT_NE(strong, none);
  EXPECT_NE(strong, weak);
  EXPECT_EQ(draw({{adapter("lora_kohya"), 1}}), strong);
  // As in a fresh process.
  const auto fresh = Pipeline::load(picture_folder("sd15"), {.threads = 2});
  EXPECT_EQ(
      fresh->generate({.prompt = "a cat", .width = 24, .height = 16, .steps = 2, .loras = {{adapter("text"), 0.5}}})
          .latent,
      half);
  EXPECT_EQ(
      fresh
          ->generate(
              {.prompt = "a cat", .width = 24, .height = 16, .steps = 2, .loras = {{adapter("lora_kohya"), 0.25}}})
          .latent,
      weak);
}

}  // namespace
}  // namespace gabbro::pictures
