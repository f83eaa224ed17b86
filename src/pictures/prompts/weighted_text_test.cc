// Prompts with weights.
#include <gtest/gtest.h>

#include "gabbro/error.h"
#include "src/pictures/comfy_graph.h"
#include "src/pictures/picture_text.h"
#include "src/pictures/prompts/weighted_text.h"

namespace gabbro::pictures {
namespace {

using Parts = std::vector<std::pair<std::string, double>>;

Parts parts_of(const char* prompt, PromptSyntax syntax) {
  Parts parts;
  for (const WeightedText& part : parse_prompt(prompt, syntax))
    parts.emplace_back((part.begins_chunk ? "|" : "") + part.text, std::round(part.weight * 1e5) / 1e5);
  return parts;
}

TEST(PromptWeights, of_a1111) {
  const auto a1111 = [](const char* prompt) { return parts_of(prompt, PromptSyntax::kA1111); };
  EXPECT_EQ(a1111(""), (Parts{}));
  EXPECT_EQ(a1111("a cat"), (Parts{{"a cat", 1}}));
  EXPECT_EQ(a1111("a (cat) here"), (Parts{{"a ", 1}, {"cat", 1.1}, {" here", 1}}));
  EXPECT_EQ(a1111("((a))"), (Parts{{"a", 1.21}}));
  EXPECT_EQ(a1111("[a]"), (Parts{{"a", 0.90909}}));
  EXPECT_EQ(a1111("(a:1.3)b"), (Parts{{"a", 1.3}, {"b", 1}}));
  EXPECT_EQ(a1111("((a:1.2):1.3)"), (Parts{{"a", 1.56}}));
  EXPECT_EQ(a1111("(a:0)"), (Parts{{"a", 0}}));
  EXPECT_EQ(a1111("(a:-1)"), (Parts{{"a", -1}}));
  EXPECT_EQ(a1111("\\(a\\) \\[b\\]"), (Parts{{"(a) [b]", 1}}));
  EXPECT_EQ(a1111("a) b"), (Parts{{"a) b", 1}}));
  EXPECT_EQ(a1111("(a"), (Parts{{"a", 1.1}}));
  EXPECT_EQ(a1111("(a:b)"), (Parts{{"a:b", 1.1}}));
  EXPECT_EQ(a1111("a BREAK b"), (Parts{{"a ", 1}, {"| b", 1}}));
  EXPECT_EQ(a1111("BREAKS"), (Parts{{"BREAKS", 1}}));
  EXPECT_EQ(a1111("a (b c:1.5) d [e]"), (Parts{{"a ", 1}, {"b c", 1.5}, {" d ", 1}, {"e", 0.90909}}));
}

TEST(PromptWeights, of_comfyui) {
  const auto comfy = [](const char* prompt) { return parts_of(prompt, PromptSyntax::kComfyUi); };
  EXPECT_EQ(comfy("a (cat) [b]"), (Parts{{"a ", 1}, {"cat", 1.1}, {" [b]", 1}}));
  EXPECT_EQ(comfy("(a (b) c:2)"), (Parts{{"a ", 2}, {"b", 2.2}, {" c", 2}}));
  EXPECT_EQ(comfy("((a:1.2):1.3)"), (Parts{{"a", 1.2}}));
  EXPECT_EQ(comfy("\\(a\\)"), (Parts{{"(a)", 1}}));
  EXPECT_EQ(comfy("(a"), (Parts{{"(a", 1}}));
  EXPECT_EQ(comfy("a)"), (Parts{{"a)", 1}}));
}

TEST(PromptWeights, none_in_a_plain_prompt) {
  EXPECT_EQ(parts_of("(a:1.3) [b]", PromptSyntax::kPlain), (Parts{{"(a:1.3) [b]", 1}}));
}

TEST(PictureText, is_read_as_it_is_written) {
  const PictureText text{
      .prompt = "a cat,\nwith: a hat",
      .negative = "blurry\nsecond line",
      .settings = {{"Steps", "20"}, {"Sampler", "DPM++ 2M"}, {"Model", "a, \"b\": c"}, {"Size", "64x32"}}};
  const std::string written = write_picture_text(text);
  const PictureText read = read_picture_text(written);
  EXPECT_EQ(read.prompt, text.prompt);
  EXPECT_EQ(read.negative, text.negative);
  EXPECT_EQ(read.settings, text.settings);
  EXPECT_EQ(*read.setting("Size"), "64x32");
  EXPECT_EQ(read.setting("Other"), nullptr);
}

std::string comfy_graph(const std::string& more = "") {
  return R"({"3": {"class_type": "KSampler", "inputs": {"seed": 156680208700286, "steps": 20, "cfg": 7.5,
    "sampler_name": "euler", "scheduler": "normal", "denoise": 1, "model": ["4", 0], "positive": ["6", 0],
    "negative": ["7", 0], "latent_image": ["5", 0]}},
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "a.safetensors"}},
    "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 512, "height": 768, "batch_size": 1}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat", "clip": ["4", 1]}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry", "clip": ["4", 1]}})" +
         more + "}";
}

TEST(ComfyGraph, of_a_plain_chain_is_read) {
  const PictureText read = read_comfy_graph(comfy_graph(), "a.png");
  EXPECT_EQ(read.prompt, "a cat");
  EXPECT_EQ(read.negative, "blurry");
  EXPECT_EQ(*read.setting("Seed"), "156680208700286");
  EXPECT_EQ(*read.setting("CFG scale"), "7.5");
  EXPECT_EQ(*read.setting("Size"), "512x768");
  EXPECT_EQ(*read.setting("Model"), "a.safetensors");
}

TEST(ComfyGraph, of_other_nodes_is_refused_by_name) {
  const std::pair<std::string, const char*> rows[] = {
      {comfy_graph(R"(, "8": {"class_type": "ControlNetApply", "inputs": {}})"), "'ControlNetApply'"},
      {comfy_graph(R"(, "8": {"class_type": "KSampler", "inputs": {}})"), "several"},
      {"{}", "KSampler"},
      {"[]", "object"},
      {"{", "a.png"},
      {R"({"3": {"class_type": "KSampler", "inputs": {"model": ["3", 0]}}})", "model"}};
  for (const auto& [text, part] : rows) {
    try {
      read_comfy_graph(text, "a.png");
      ADD_FAILURE() << "accepts " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(PictureText, needs_three_settings) {
  EXPECT_EQ(read_picture_text("a cat\nSteps: 20, Seed: 1").prompt, "a cat\nSteps: 20, Seed: 1");
  EXPECT_EQ(read_picture_text("a cat\nSteps: 20, Seed: 1, Size: 1x1").prompt, "a cat");
  EXPECT_EQ(read_picture_text("Negative prompt: b\nSteps: 20, Seed: 1, Size: 1x1").negative, "b");
  EXPECT_EQ(read_picture_text("").prompt, "");
}

}  // namespace
}  // namespace gabbro::pictures
