// Names of adapters: in files, in prompts, and of the layers that they belong to.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gabbro/error.h"
#include "src/pictures/lora/layer_names.h"
#include "src/pictures/lora/lora_file.h"
#include "src/pictures/lora/prompt_loras.h"

namespace gabbro::pictures {
namespace {

TEST(LoraKeys, of_all_spellings_name_one_layer) {
  const std::string layer = "down_blocks_0_attentions_1_transformer_blocks_0_attn1_to_q";
  const std::string dotted = "down_blocks.0.attentions.1.transformer_blocks.0.attn1.to_q";
  for (const std::string& key :
       {"lora_unet_" + layer + ".lora_down.weight", "unet." + dotted + ".lora_A.weight", dotted + ".lora.down.weight",
        "base_model.model." + dotted + ".lora_A.default.weight", "diffusion_model." + dotted + ".lora_A.weight",
        "lora_transformer_" + layer + ".lora_down.weight", "lycoris_" + layer + ".lora_down.weight",
        std::string("unet.down_blocks.0.attentions.1.transformer_blocks.0.attn1.processor.to_q_lora.down.weight")}) {
    EXPECT_EQ(parse_lora_key(key).layer, layer) << key;
    EXPECT_EQ(parse_lora_key(key).part, "down") << key;
  }
  const std::string text = "text1_encoder_layers_3_mlp_fc1";
  for (const char* key :
       {"lora_te_text_model_encoder_layers_3_mlp_fc1.alpha", "lora_te1_text_model_encoder_layers_3_mlp_fc1.alpha",
        "text_encoder.text_model.encoder.layers.3.mlp.fc1.alpha",
        "text_encoders.clip_l.transformer.text_model.encoder.layers.3.mlp.fc1.alpha"}) {
    EXPECT_EQ(parse_lora_key(key).layer, text) << key;
    EXPECT_EQ(parse_lora_key(key).part, "alpha") << key;
  }
  EXPECT_EQ(parse_lora_key("model.weight").part, "");
  EXPECT_EQ(parse_lora_key("unet.a.attn1.processor.to_out_lora.up.weight").layer, "a_attn1_to_out_0");
}

TEST(LdmPaths, of_layers_of_a_unet) {
  const std::pair<const char*, std::vector<std::string>> rows[] = {
      {"conv_in", {"input_blocks.0.0"}},
      {"conv_norm_out", {"out.0"}},
      {"time_embedding.linear_2", {"time_embed.2"}},
      {"down_blocks.0.resnets.1.conv1", {"input_blocks.2.0.in_layers.2"}},
      {"down_blocks.1.attentions.0.proj_in", {"input_blocks.4.1.proj_in"}},
      {"down_blocks.2.downsamplers.0.conv", {"input_blocks.9.0.op"}},
      {"mid_block.attentions.0.norm", {"middle_block.1.norm"}},
      {"mid_block.resnets.1.conv_shortcut", {"middle_block.2.skip_connection"}},
      {"up_blocks.1.resnets.2.time_emb_proj", {"output_blocks.5.0.emb_layers.1"}},
      {"up_blocks.3.attentions.2.proj_out", {"output_blocks.11.1.proj_out"}},
      {"up_blocks.0.upsamplers.0.conv", {"output_blocks.2.1.conv", "output_blocks.2.2.conv"}},
      {"other.0.resnets.0.conv1", {}},
      {"other", {}}};
  for (const auto& [ours, theirs] : rows) EXPECT_EQ(ldm_paths(ours, 2), theirs) << ours;
}

TEST(PromptLoras, are_taken_out_of_the_prompt) {
  const PromptLoras both = read_prompt_loras("a <lora:one:0.5>cat<lora:two words>, <lora:one:-1:-1> (red:1.2)");
  EXPECT_EQ(both.prompt, "a cat,  (red:1.2)");
  ASSERT_EQ(both.loras.size(), 3u);
  EXPECT_EQ(both.loras[0].name, "one");
  EXPECT_EQ(both.loras[0].strength, 0.5);
  EXPECT_EQ(both.loras[1].name, "two words");
  EXPECT_EQ(both.loras[1].strength, 1);
  EXPECT_EQ(both.loras[2].strength, -1);
  EXPECT_EQ(read_prompt_loras("a < b, <lora:x").prompt, "a < b, <lora:x");
  for (const char* words : {"<lora:>", "<lora:a:x>", "<lora:a:nan>", "<lora:a:1:2>", "<lora:a:1:1:1>", "<lora:a:>"})
    EXPECT_THROW(read_prompt_loras(words), Error) << words;
}

TEST(PromptLoras, are_found_in_a_folder) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / ("loras-" + std::to_string(::getpid()));
  fs::create_directories(folder / "inside");
  std::ofstream(folder / "inside" / "style.safetensors") << "x";
  EXPECT_EQ(find_lora(folder.string(), "style"), (folder / "inside" / "style.safetensors").string());
  for (const char* name : {"other", "../style", ".", "inside/style"})
    EXPECT_THROW(find_lora(folder.string(), name), Error) << name;
  EXPECT_THROW(find_lora((folder / "none").string(), "style"), Error);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace gabbro::pictures
