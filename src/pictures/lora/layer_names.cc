#include "src/pictures/lora/layer_names.h"

#include <charconv>
#include <vector>

#include <fmt/format.h>

namespace gabbro::pictures {
namespace {

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('.', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

int64_t number(const std::string& text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string rest_of(const std::vector<std::string>& parts, size_t first) {
  std::string rest;
  for (size_t i = first; i < parts.size(); ++i) rest += "." + parts[i];
  return rest;
}

// ".conv1" of a resnet block.
std::string resnet_layer(const std::string& rest) {
  constexpr std::pair<std::string_view, std::string_view> kLayers[] = {
      {".norm1", ".in_layers.0"},  {".conv1", ".in_layers.2"},  {".time_emb_proj", ".emb_layers.1"},
      {".norm2", ".out_layers.0"}, {".conv2", ".out_layers.3"}, {".conv_shortcut", ".skip_connection"}};
  for (const auto& [ours, theirs] : kLayers) {
    if (rest == ours) return std::string(theirs);
  }
  return rest;
}

}  // namespace

std::vector<std::string> ldm_paths(const std::string& path, int64_t resnets) {
  constexpr std::pair<std::string_view, std::string_view> kWhole[] = {{"conv_in", "input_blocks.0.0"},
                                                                      {"conv_norm_out", "out.0"},
                                                                      {"conv_out", "out.2"},
                                                                      {"time_embedding.linear_1", "time_embed.0"},
                                                                      {"time_embedding.linear_2", "time_embed.2"},
                                                                      {"add_embedding.linear_1", "label_emb.0.0"},
                                                                      {"add_embedding.linear_2", "label_emb.0.2"}};
  for (const auto& [ours, theirs] : kWhole) {
    if (path == ours) return {std::string(theirs)};
  }
  const std::vector<std::string> parts = split_path(path);
  if (parts.size() < 4) return {};
  if (parts[0] == "mid_block") {
    const std::string rest = rest_of(parts, 3);
    if (parts[1] == "attentions") return {"middle_block.1" + rest};
    return {fmt::format("middle_block.{}{}", 2 * number(parts[2]), resnet_layer(rest))};
  }
  const bool down = parts[0] == "down_blocks";
  if (!down && parts[0] != "up_blocks") return {};
  const int64_t level = number(parts[1]), index = number(parts[3]), per_level = resnets + 1;
  const std::string rest = rest_of(parts, 4);
  const int64_t block = per_level * level + index + (down ? 1 : 0);
  const char* const side = down ? "input_blocks" : "output_blocks";
  if (parts[2] == "resnets") return {fmt::format("{}.{}.0{}", side, block, resnet_layer(rest))};
  if (parts[2] == "attentions") return {fmt::format("{}.{}.1{}", side, block, rest)};
  if (parts[2] == "downsamplers") return {fmt::format("input_blocks.{}.0.op", per_level * (level + 1))};
  if (parts[2] != "upsamplers") return {};
  const int64_t last = per_level * level + resnets;
  return {fmt::format("output_blocks.{}.1.conv", last), fmt::format("output_blocks.{}.2.conv", last)};
}

}  // namespace gabbro::pictures
