#include "src/pictures/lora/adapters.h"

#include <algorithm>

#include "gabbro/graph/eval.h"
#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/ops/ops.h"
#include "src/pictures/lora/layer_names.h"

namespace gabbro::pictures {
namespace {

using diffusion::AdaptableConv2d;
using diffusion::AdaptableGroupNorm;
using diffusion::AdaptableLayerNorm;
using diffusion::AdaptableLinear;

std::string with_underscores(std::string path) {
  std::ranges::replace(path, '.', '_');
  return path;
}

std::vector<int64_t> lengths_of(const Tensor& tensor) {
  return {tensor.shape().lengths().begin(), tensor.shape().lengths().end()};
}

// The name of a text encoder's tensor: "encoder_layers_0_self_attn_q_proj" in transformers' spelling.
std::string text_tensor(std::string path) {
  constexpr std::pair<std::string_view, std::string_view> kParts[] = {
      {"encoder_layers_", "encoder.layers."}, {"_self_attn_", ".self_attn."}, {"_mlp_", ".mlp."}};
  for (const auto& [with, without] : kParts) {
    if (const size_t at = path.find(with); at != path.npos) path.replace(at, with.size(), without);
  }
  return path;
}

}  // namespace

Adapters::Adapters(AdaptedModel model) : model_(std::move(model)) { find_layers(*model_.unet, ""); }

void Adapters::find_layers(nn::Module& module, const std::string& path) {
  if (dynamic_cast<diffusion::Adaptable*>(&module) != nullptr) {
    layers_[with_underscores(path)] = {&module, path};
    for (const std::string& ldm : ldm_paths(path, model_.resnets)) layers_[with_underscores(ldm)] = {&module, path};
  }
  for (const nn::Module::Child& child : module.children())
    find_layers(*child.module, path.empty() ? child.name : path + "." + child.name);
}

Tensor Adapters::upload(Device& device, const std::vector<float>& values, const std::vector<int64_t>& shape) {
  return device.upload(DType::f32, Shape(shape), values.data());
}

void Adapters::add_to_unet(size_t adapter, const std::string& file, const LoraParts& parts, const Layer& layer) {
  LoraLayer facts{.weight = [&] { return model_.unet_weight(layer.path + ".weight"); },
                  .bias = [&] { return model_.unet_weight(layer.path + ".bias"); }};
  if (const auto* const linear = dynamic_cast<AdaptableLinear*>(layer.module)) {
    facts.shape = {linear->out_features(), linear->in_features()};
    facts.has_bias = linear->bias.defined();
  } else {
    facts.shape = lengths_of(*layer.module->own_tensor("weight"));
    if (const auto* const conv = dynamic_cast<AdaptableConv2d*>(layer.module)) {
      const nn::ConvModuleOptions& o = conv->options();
      facts.shape = {o.out_channels, o.in_channels, o.kernel_size[0], o.kernel_size[1]};
    }
    const Tensor* const bias = layer.module->own_tensor("bias");
    facts.has_bias = bias != nullptr && bias->defined();
  }
  const LoraDelta delta = make_delta(file, parts, facts);
  diffusion::AdapterDelta added;
  if (delta.rank > 0) {
    std::vector<int64_t> down = facts.shape, up{facts.shape[0], delta.rank};
    down[0] = delta.rank;
    up.insert(up.end(), facts.shape.size() - 2, 1);
    added.down = upload(*model_.device, delta.down, down);
    added.up = upload(*model_.device, delta.up, up);
  }
  if (!delta.weight.empty()) added.weight = upload(*model_.device, delta.weight, facts.shape);
  if (!delta.bias.empty()) added.bias = upload(*model_.device, delta.bias, {facts.shape[0]});
  dynamic_cast<diffusion::Adaptable&>(*layer.module).add(adapter, strengths_, std::move(added));
}

void Adapters::add_to_text(size_t adapter, const std::string& file, const LoraParts& parts, const AdaptedText& text,
                           const std::string& path) {
  Device& device = *text.states->device();
  nn::Linear& linear = *text.states->find_linear(path);
  const int64_t rows = linear.out_features(), columns = linear.in_features();
  const LoraLayer facts{.shape = {rows, columns}, .weight = [&] { return text.weight(text_tensor(path) + ".weight"); }};
  const LoraDelta delta = make_delta(file, parts, facts);
  TextTerm term{.adapter = adapter, .layer = &linear};
  if (delta.rank > 0) {
    term.a = upload(device, delta.down, {delta.rank, columns});
    term.b = upload(device, delta.up, {rows, delta.rank});
    text_terms_.push_back(term);
  }
  if (delta.weight.empty()) return;
  std::vector<float> identity(static_cast<size_t>(rows * rows));
  for (int64_t i = 0; i < rows; ++i) identity[static_cast<size_t>(i * rows + i)] = 1;
  term.a = upload(device, delta.weight, {rows, columns});
  term.b = upload(device, identity, {rows, rows});
  text_terms_.push_back(term);
}

std::pair<const AdaptedText*, std::string> Adapters::text_of(const std::string& layer) const {
  for (size_t i = 0; i < model_.texts.size(); ++i) {
    const std::string prefix = fmt::format("text{}_", i + 1);
    if (layer.starts_with(prefix)) return {&model_.texts[i], layer.substr(prefix.size())};
  }
  return {};
}

void Adapters::load(const std::vector<std::string>& paths) {
  std::vector<LoraFile> files;
  for (const std::string& path : paths) files.push_back(read_lora(path));
  // All names first: a file of another model changes nothing.
  for (const LoraFile& file : files) {
    for (const auto& [path, parts] : file.layers) {
      const auto [text, of_text] = text_of(path);
      const bool found = text != nullptr ? text->states->find_linear(of_text) != nullptr : layers_.contains(path);
      if (found) continue;
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{}: {}: the model has no such layer", file.path, parts.begin()->second.key),
                  "the adapter was made for another model");
    }
  }
  paths_.clear();
  for (const auto& [path, layer] : layers_) dynamic_cast<diffusion::Adaptable&>(*layer.module).remove_adapters();
  for (const TextTerm& term : text_terms_) term.layer->adapters.clear();
  text_terms_.clear();
  ++loads_;
  strengths_->active.assign(files.size(), false);
  for (size_t i = 0; i < files.size(); ++i) {
    for (const auto& [path, parts] : files[i].layers) {
      if (const auto [text, of_text] = text_of(path); text != nullptr) {
        add_to_text(i, files[i].path, parts, *text, of_text);
      } else {
        add_to_unet(i, files[i].path, parts, layers_.at(path));
      }
    }
  }
  paths_ = paths;
}

void Adapters::set_text_terms(std::span<const double> strengths) {
  static const auto kOne = std::make_shared<const float>(1.0f);
  for (const TextTerm& term : text_terms_) term.layer->adapters.clear();
  for (const TextTerm& term : text_terms_) {
    const auto strength = static_cast<float>(strengths[term.adapter]);
    if (strength == 0) continue;
    // Scaled here, so that the encoder's plan does not depend on the strength.
    Tensor scaled = term.b * upload(*term.b.device(), {strength}, {1});
    eval(std::span(&scaled, 1));
    term.layer->adapters.push_back({.a = term.a, .b = scaled, .scale = kOne});
  }
}

void Adapters::use(std::span<const LoraStrength> loras) {
  std::vector<std::string> paths;
  std::vector<double> strengths;
  for (const LoraStrength& lora : loras) {
    const auto found = std::ranges::find(paths, lora.path);
    const auto at = static_cast<size_t>(found - paths.begin());
    if (found == paths.end()) {
      paths.push_back(lora.path);
      strengths.push_back(0);
    }
    strengths[at] += lora.strength;
  }
  if (paths != paths_) load(paths);
  std::vector<float> values;
  for (size_t i = 0; i < strengths.size(); ++i) {
    values.push_back(static_cast<float>(strengths[i]));
    strengths_->active[i] = values[i] != 0;
  }
  const bool any = std::ranges::any_of(values, [](float value) { return value != 0; });
  strengths_->values = any ? upload(*model_.device, values, {std::ssize(values)}) : Tensor();
  set_text_terms(strengths);
}

std::vector<int64_t> Adapters::plan_key() const {
  if (!strengths_->values.defined()) return {};
  std::vector<int64_t> key{loads_};
  key.insert(key.end(), strengths_->active.begin(), strengths_->active.end());
  return key;
}

}  // namespace gabbro::pictures
