#include "src/pictures/single_file/name_table.h"

#include <fmt/format.h>

namespace gabbro::pictures {

void NameTable::add(const std::string& original, const std::string& diffusers) {
  diffusers_.emplace(original, diffusers);
  original_.emplace(diffusers, original);
}

void NameTable::add_resnet(const std::string& original, const std::string& diffusers) {
  constexpr std::pair<const char*, const char*> kLayers[] = {
      {"in_layers.0", "norm1"},  {"in_layers.2", "conv1"},  {"emb_layers.1", "time_emb_proj"},
      {"out_layers.0", "norm2"}, {"out_layers.3", "conv2"}, {"skip_connection", "conv_shortcut"}};
  for (const auto& [theirs, ours] : kLayers)
    add(fmt::format("{}.{}", original, theirs), fmt::format("{}.{}", diffusers, ours));
}

std::optional<std::string> NameTable::translated(const Paths& paths, std::string_view name) {
  for (size_t end = name.size(); end != name.npos && end > 0; end = name.rfind('.', end - 1)) {
    const auto found = paths.find(name.substr(0, end));
    if (found != paths.end()) return found->second + std::string(name.substr(end));
  }
  return std::nullopt;
}

NameTable NameTable::of_unet(const UNetLayout& layout) {
  NameTable table;
  constexpr std::pair<const char*, const char*> kOnce[] = {{"input_blocks.0.0", "conv_in"},
                                                           {"time_embed.0", "time_embedding.linear_1"},
                                                           {"time_embed.2", "time_embedding.linear_2"},
                                                           {"time_embed.cond_proj", "time_embedding.cond_proj"},
                                                           {"label_emb.0.0", "add_embedding.linear_1"},
                                                           {"label_emb.0.2", "add_embedding.linear_2"},
                                                           {"middle_block.1", "mid_block.attentions.0"},
                                                           {"out.0", "conv_norm_out"},
                                                           {"out.2", "conv_out"}};
  for (const auto& [original, diffusers] : kOnce) table.add(original, diffusers);
  table.add_resnet("middle_block.0", "mid_block.resnets.0");
  table.add_resnet("middle_block.2", "mid_block.resnets.1");
  const int64_t levels = std::ssize(layout.levels), blocks = layout.resnets + 1;
  for (int64_t x = 0; x < levels; ++x) {
    const std::string down = fmt::format("down_blocks.{}", x), up = fmt::format("up_blocks.{}", x);
    for (int64_t i = 0; i < layout.resnets; ++i) {
      const std::string block = fmt::format("input_blocks.{}", blocks * x + i + 1);
      table.add_resnet(block + ".0", fmt::format("{}.resnets.{}", down, i));
      table.add(block + ".1", fmt::format("{}.attentions.{}", down, i));
    }
    if (x + 1 < levels) {
      table.add(fmt::format("input_blocks.{}.0.op", blocks * (x + 1)), down + ".downsamplers.0.conv");
      // The convolution comes after a transformer, if there is one.
      const bool attends = layout.levels[static_cast<size_t>(levels - 1 - x)].attends_up;
      table.add(fmt::format("output_blocks.{}.{}.conv", blocks * x + layout.resnets, attends ? 2 : 1),
                up + ".upsamplers.0.conv");
    }
    for (int64_t i = 0; i < blocks; ++i) {
      const std::string block = fmt::format("output_blocks.{}", blocks * x + i);
      table.add_resnet(block + ".0", fmt::format("{}.resnets.{}", up, i));
      table.add(block + ".1", fmt::format("{}.attentions.{}", up, i));
    }
  }
  return table;
}

NameTable NameTable::of_autoencoder(int64_t levels) {
  NameTable table;
  table.add("quant_conv", "quant_conv");
  table.add("post_quant_conv", "post_quant_conv");
  for (const std::string side : {"encoder", "decoder"}) {
    const auto add = [&](const std::string& original, const std::string& diffusers) {
      table.add(side + "." + original, side + "." + diffusers);
    };
    const auto add_resnet = [&](const std::string& original, const std::string& diffusers) {
      for (const char* same : {"norm1", "norm2", "conv1", "conv2"})
        add(fmt::format("{}.{}", original, same), fmt::format("{}.{}", diffusers, same));
      add(original + ".nin_shortcut", diffusers + ".conv_shortcut");
    };
    add("conv_in", "conv_in");
    add("conv_out", "conv_out");
    add("norm_out", "conv_norm_out");
    add_resnet("mid.block_1", "mid_block.resnets.0");
    add_resnet("mid.block_2", "mid_block.resnets.1");
    for (const auto& [original, diffusers] :
         {std::pair("norm", "group_norm"), {"q", "to_q"}, {"k", "to_k"}, {"v", "to_v"}, {"proj_out", "to_out.0"}})
      add(fmt::format("mid.attn_1.{}", original), fmt::format("mid_block.attentions.0.{}", diffusers));
    const bool down = side == "encoder";
    for (int64_t x = 0; x < levels; ++x) {
      // The original layout counts the decoder's levels from the finest.
      const std::string original = fmt::format("{}.{}", down ? "down" : "up", down ? x : levels - 1 - x);
      const std::string diffusers = fmt::format("{}.{}", down ? "down_blocks" : "up_blocks", x);
      constexpr int64_t kMostResnets = 8;
      for (int64_t i = 0; i < kMostResnets; ++i)
        add_resnet(fmt::format("{}.block.{}", original, i), fmt::format("{}.resnets.{}", diffusers, i));
      add(original + (down ? ".downsample.conv" : ".upsample.conv"),
          diffusers + (down ? ".downsamplers.0.conv" : ".upsamplers.0.conv"));
    }
  }
  return table;
}

NameTable NameTable::of_open_clip(int64_t layers) {
  NameTable table;
  table.add("token_embedding", "text_model.embeddings.token_embedding");
  table.add("positional_embedding", "text_model.embeddings.position_embedding.weight");
  table.add("ln_final", "text_model.final_layer_norm");
  table.add("text_projection", "text_projection.weight");
  constexpr std::pair<const char*, const char*> kLayers[] = {{"ln_1", "layer_norm1"},
                                                             {"ln_2", "layer_norm2"},
                                                             {"attn.out_proj", "self_attn.out_proj"},
                                                             {"mlp.c_fc", "mlp.fc1"},
                                                             {"mlp.c_proj", "mlp.fc2"}};
  for (int64_t i = 0; i < layers; ++i) {
    for (const auto& [original, diffusers] : kLayers) {
      table.add(fmt::format("transformer.resblocks.{}.{}", i, original),
                fmt::format("text_model.encoder.layers.{}.{}", i, diffusers));
    }
  }
  return table;
}

}  // namespace gabbro::pictures
