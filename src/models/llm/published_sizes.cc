// The published sizes of the llama family, and sizes between them.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/models/llm/blueprint.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

constexpr double kLeastParameters = 1e7, kMostParameters = 2e12;

// Sizes in which the models of a generation differ.
struct LlamaSizes {
  int64_t layers, embedding, heads, kv_heads, feed_forward;
};

// Llama 1 and 2: no grouped keys and values below 34B, a vocabulary of 32,000.
Blueprint llama_2(const char* name, const LlamaSizes& s, int64_t context) {
  return {.name = name,
          .sizes = {.layers = s.layers,
                    .embedding = s.embedding,
                    .heads = s.heads,
                    .kv_heads = s.kv_heads,
                    .head_dimension = 128,
                    .feed_forward = s.feed_forward,
                    .vocabulary = 32000,
                    .context_trained = context}};
}

// Llama 3.1 and 3.2: eight heads of keys and values.
Blueprint llama_3(const char* name, const LlamaSizes& s, bool tied) {
  return {.name = name,
          .sizes = {.layers = s.layers,
                    .embedding = s.embedding,
                    .heads = s.heads,
                    .kv_heads = s.kv_heads,
                    .head_dimension = s.embedding / s.heads,
                    .feed_forward = s.feed_forward,
                    .vocabulary = 128256,
                    .context_trained = 131072},
          .tied = tied,
          .rope_base = 500000,
          .rope_factor = tied ? 32.0f : 8.0f};
}

int64_t parameters_of(const Blueprint& shape) {
  const ModelShape& s = shape.sizes;
  const int64_t queries = s.heads * s.head_dimension, keys = s.kv_heads * s.head_dimension;
  const int64_t layer = s.embedding * (2 * queries + 2 * keys + 3 * s.feed_forward + 2);
  return (shape.tied ? 1 : 2) * s.vocabulary * s.embedding + s.layers * layer + s.embedding;
}

// Depth and width of Llama 3, and below it of the small models of Karpathy's llama2.c.
struct Point {
  double parameters, layers, embedding;
};
constexpr Point kPoints[] = {{15e6, 6, 288},     {110e6, 12, 768},   {1.24e9, 16, 2048},   {3.21e9, 28, 3072},
                             {8.03e9, 32, 4096}, {70.6e9, 80, 8192}, {405.9e9, 126, 16384}};

// Linear in the logarithms; beyond the ends as between the last two points.
double interpolate(double parameters, double Point::*field) {
  const Point* after = std::ranges::upper_bound(kPoints, parameters, {}, &Point::parameters);
  after = std::clamp(after, kPoints + 1, std::end(kPoints) - 1);
  const Point &a = after[-1], &b = *after;
  const double t = std::log(parameters / a.parameters) / std::log(b.parameters / a.parameters);
  return a.*field * std::pow(b.*field / a.*field, t);
}

int64_t round_to(double value, int64_t step) {
  return std::max<int64_t>(1, std::llround(value / static_cast<double>(step))) * step;
}

std::string size_name(double parameters) {
  const auto [unit, letter] = parameters >= 1e12  ? std::pair(1e12, 't')
                              : parameters >= 1e9 ? std::pair(1e9, 'b')
                                                  : std::pair(1e6, 'm');
  return fmt::format("llama-{:.4g}{}", parameters / unit, letter);
}

std::span<const Blueprint> llama_blueprints() {
  static const Blueprint kShapes[] = {
      llama_3("llama-1b", {16, 2048, 32, 8, 8192}, true),         // Llama 3.2 1B
      llama_3("llama-3b", {28, 3072, 24, 8, 8192}, true),         // Llama 3.2 3B
      llama_2("llama-7b", {32, 4096, 32, 32, 11008}, 4096),       // Llama 2 7B
      llama_3("llama-8b", {32, 4096, 32, 8, 14336}, false),       // Llama 3.1 8B
      llama_2("llama-13b", {40, 5120, 40, 40, 13824}, 4096),      // Llama 2 13B
      llama_2("llama-30b", {60, 6656, 52, 52, 17920}, 2048),      // Llama 1 30B
      llama_2("llama-34b", {48, 8192, 64, 8, 22016}, 16384),      // Code Llama 34B
      llama_2("llama-65b", {80, 8192, 64, 64, 22016}, 2048),      // Llama 1 65B
      llama_3("llama-70b", {80, 8192, 64, 8, 28672}, false),      // Llama 3.1 and 3.3 70B
      llama_3("llama-405b", {126, 16384, 128, 8, 53248}, false),  // Llama 3.1 405B
  };
  return kShapes;
}

std::string architecture_in_config(const Blueprint& shape) {
  return std::string(Checkpoint::of_config(shape.name, shape.config, {}).metadata().require_string("model_type"));
}

}  // namespace

std::span<const Blueprint> published_blueprints() {
  static const std::vector<Blueprint> kShapes = [] {
    const auto llama = llama_blueprints(), configs = published_configs();
    std::vector<Blueprint> shapes(llama.begin(), llama.end());
    shapes.insert(shapes.end(), configs.begin(), configs.end());
    return shapes;
  }();
  return kShapes;
}

const Blueprint* published_of_size(std::string_view architecture, double parameters) {
  constexpr double kMostAway = 0.05;  // gpt-oss-20b has 20.9 billion
  const Family* const family = find_family(architecture);
  const Blueprint* nearest = nullptr;
  const auto away = [&](const Blueprint& shape) { return std::abs(shape.parameters / parameters - 1); };
  for (const Blueprint& shape : published_configs()) {
    const std::string own = architecture_in_config(shape);
    // Mixtral has the architecture llama in GGUF, whose name stands for dense models here.
    const bool same = own == architecture || (architecture != "llama" && find_family(own) == family);
    if (same && away(shape) <= kMostAway && (nearest == nullptr || away(shape) < away(*nearest))) nearest = &shape;
  }
  return nearest;
}

std::optional<double> parse_parameter_count(std::string_view text) {
  if (text.size() < 2) return {};
  const char unit = text.back();
  const double factor = unit == 'M' || unit == 'm'   ? 1e6
                        : unit == 'B' || unit == 'b' ? 1e9
                        : unit == 'T' || unit == 't' ? 1e12
                                                     : 0;
  double value = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc() || stop != end || !(value * factor >= kLeastParameters) || value * factor > kMostParameters)
    return {};
  return value * factor;
}

Blueprint blueprint_of_size(double parameters) {
  Blueprint shape{.name = size_name(parameters)};
  for (const Blueprint& published : llama_blueprints()) {
    if (published.name == shape.name) return published;
  }
  const bool large = parameters >= 1e9;  // as Llama 3; the smaller ones as llama2.c
  ModelShape& s = shape.sizes;
  shape.tied = parameters < 4e9;
  shape.rope_base = large ? 500000 : 10000;
  s.layers = round_to(interpolate(parameters, &Point::layers), 1);
  s.head_dimension = large ? 128 : 64;
  const int64_t step = large ? 8 * s.head_dimension : s.head_dimension;
  s.embedding = round_to(interpolate(parameters, &Point::embedding), step);
  s.vocabulary = large ? 128256 : 32000;
  s.context_trained = large ? 131072 : 2048;
  const int64_t multiple = large ? 256 : 32;  // of the feed-forward size
  // The feed-forward layers take what the rest leaves; the width gives way where that is out of proportion.
  while (true) {
    s.heads = s.embedding / s.head_dimension;
    s.kv_heads = large ? 8 : s.heads;
    s.feed_forward = 0;
    const double left = parameters - static_cast<double>(parameters_of(shape));
    const double per_unit = 3.0 * static_cast<double>(s.layers * s.embedding);
    s.feed_forward = round_to(std::max(0.0, left) / per_unit, multiple);
    if (s.feed_forward >= 2 * s.embedding || s.embedding == step) return shape;
    s.embedding -= step;
  }
}

}  // namespace gabbro::llm
