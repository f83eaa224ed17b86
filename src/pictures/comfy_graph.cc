#include "src/pictures/comfy_graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/base/json_node.h"

namespace gabbro::pictures {
namespace {

constexpr std::string_view kNodeClasses[] = {
    "KSampler",    "CheckpointLoaderSimple", "CLIPTextEncode", "EmptyLatentImage", "VAEDecode", "SaveImage",
    "PreviewImage"};

// A number as A1111 writes it: "20", "7.5".
std::string number_text(const JsonNode& node) {
  const double value = node.number();
  constexpr double kExact = 9007199254740992;  // 2^53: whole numbers up to it are exact
  if (node.value().is_number_integer()) return node.value().dump();
  return value == std::floor(value) && std::fabs(value) < kExact ? fmt::format("{:.0f}", value)
                                                                 : fmt::format("{}", value);
}

class ComfyGraph {
 public:
  explicit ComfyGraph(const JsonNode& nodes) : nodes_(nodes) {
    if (!nodes.is_object()) nodes.refuse("object");
    for (const auto& [number, ignored] : nodes.value().items()) {
      const JsonNode type = nodes.at(number).at("class_type");
      if (std::ranges::find(kNodeClasses, type.string()) != std::end(kNodeClasses)) continue;
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{}: nodes of class '{}' are not understood", type.path(), type.string()),
                  fmt::format("understood: {}", fmt::join(kNodeClasses, ", ")));
    }
  }

  JsonNode sampler() const {
    std::optional<JsonNode> found;
    for (const auto& [number, ignored] : nodes_.value().items()) {
      const JsonNode node = nodes_.at(number);
      if (node.at("class_type").string() != "KSampler") continue;
      if (found) throw bad_input("{}: has several nodes of class KSampler", nodes_.path());
      found = node.at("inputs");
    }
    if (!found) throw bad_input("{}: has no node of class KSampler", nodes_.path());
    return *found;
  }

  // The inputs of the node that an input comes from: ["6", 0].
  JsonNode source(const JsonNode& inputs, const char* name, std::string_view wanted) const {
    const JsonNode link = inputs.at(name);
    const std::vector<JsonNode> both = link.elements();
    if (both.size() != 2) link.refuse("a link to a node");
    const JsonNode node = nodes_.at(both[0].string());
    if (node.at("class_type").string() != wanted)
      throw bad_input("{}: comes from a node of class {}, not {}", link.path(), node.at("class_type").string(), wanted);
    return node.at("inputs");
  }

 private:
  JsonNode nodes_;
};

}  // namespace

PictureText read_comfy_graph(std::string_view text, const std::string& name) {
  const Json document = parse_sorted_json(text, name);
  const ComfyGraph graph(JsonNode(document, name));
  const JsonNode sampler = graph.sampler();
  const JsonNode model = graph.source(sampler, "model", "CheckpointLoaderSimple");
  const JsonNode size = graph.source(sampler, "latent_image", "EmptyLatentImage");
  PictureText result{.prompt = graph.source(sampler, "positive", "CLIPTextEncode").at("text").string(),
                     .negative = graph.source(sampler, "negative", "CLIPTextEncode").at("text").string()};
  result.settings = {{"Steps", number_text(sampler.at("steps"))},
                     {"Sampler", sampler.at("sampler_name").string()},
                     {"Schedule type", sampler.at("scheduler").string()},
                     {"CFG scale", number_text(sampler.at("cfg"))},
                     {"Seed", number_text(sampler.at("seed"))},
                     {"Size", number_text(size.at("width")) + "x" + number_text(size.at("height"))},
                     {"Model", model.at("ckpt_name").string()}};
  const auto denoise = sampler.find("denoise"), batch = size.find("batch_size");
  if (denoise && denoise->number() != 1)
    throw bad_input("{}: {} of an empty latent is not understood", denoise->path(), denoise->number());
  // The picture does not say which of the batch it is.
  if (batch && batch->number() != 1) result.settings.emplace_back("Batch size", number_text(*batch));
  return result;
}

}  // namespace gabbro::pictures
