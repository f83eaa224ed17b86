#include "src/models/llm/blueprint.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>

#include "src/base/error.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

// The sizes that a text may give: name, where they go, and the most that is taken (decoder_config.cc's).
struct Size {
  const char* name;
  int64_t ModelShape::*field;
  int64_t most;
};
constexpr Size kSizes[] = {
    {"layers", &ModelShape::layers, 4096},
    {"embedding", &ModelShape::embedding, 1 << 20},
    {"heads", &ModelShape::heads, 1 << 14},
    {"kv-heads", &ModelShape::kv_heads, 1 << 14},
    {"head-dimension", &ModelShape::head_dimension, 1 << 12},
    {"feed-forward", &ModelShape::feed_forward, 1 << 22},
    {"experts", &ModelShape::experts, 1 << 16},
    {"experts-used", &ModelShape::experts_used, 1 << 16},
    {"expert-feed-forward", &ModelShape::expert_feed_forward, 1 << 22},
    {"vocabulary", &ModelShape::vocabulary, 1 << 24},
    {"context", &ModelShape::context_trained, 1 << 30},
};

int64_t parse_size(const std::string& name, const std::string& text, int64_t most) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < (name == "tied" ? 0 : 1) || value > most)
    throw bad_input("--shape: {} is '{}', expected a number up to {}", name, text, most);
  return value;
}

std::string known_names() {
  std::string names;
  for (const Blueprint& shape : published_blueprints()) names += (names.empty() ? "" : ", ") + shape.name;
  return names;
}

// "layers=2,embedding=64" as a map.
std::map<std::string, std::string> parse_assignments(const std::string& text) {
  std::map<std::string, std::string> values;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const size_t equals = part.find('=');
    if (equals == std::string::npos) {
      throw Error(ErrorCode::kBadInput, fmt::format("--shape: '{}' is neither a known shape nor sizes", text),
                  fmt::format("known: {}; or layers=2,embedding=64,heads=4", known_names()));
    }
    if (!values.emplace(part.substr(0, equals), part.substr(equals + 1)).second)
      throw bad_input("--shape: {} is there twice", part.substr(0, equals));
    at = end + 1;
  }
  return values;
}

void fill_defaults(ModelShape& s) {
  if (s.layers == 0 || s.embedding == 0 || s.heads == 0)
    throw bad_input("--shape: layers, embedding and heads are needed");
  if (s.kv_heads == 0) s.kv_heads = s.heads;
  if (s.heads % s.kv_heads != 0)
    throw bad_input("--shape: {} kv-heads do not divide the {} heads", s.kv_heads, s.heads);
  if (s.head_dimension == 0 && s.embedding % s.heads != 0)
    throw bad_input("--shape: {} heads do not divide the embedding of {}", s.heads, s.embedding);
  if (s.head_dimension == 0) s.head_dimension = s.embedding / s.heads;
  if (s.head_dimension % 2 != 0) throw bad_input("--shape: a head-dimension of {} is not even", s.head_dimension);
  if (s.feed_forward == 0) s.feed_forward = 4 * s.embedding;
  if (s.experts == 0 && (s.experts_used > 0 || s.expert_feed_forward > 0))
    throw bad_input("--shape: experts-used and expert-feed-forward are of a model with experts");
  if (s.experts > 0 && s.experts_used == 0) s.experts_used = std::min<int64_t>(2, s.experts);
  if (s.experts_used > s.experts)
    throw bad_input("--shape: {} experts-used are more than the {} experts", s.experts_used, s.experts);
  if (s.experts > 0 && s.expert_feed_forward == 0) s.expert_feed_forward = s.feed_forward;
  if (s.vocabulary == 0) s.vocabulary = 32000;
  if (s.context_trained == 0) s.context_trained = 4096;
}

}  // namespace

Blueprint parse_blueprint(const std::string& text) {
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Blueprint& shape : published_blueprints()) {
    if (shape.name == lower) return shape;
  }
  Blueprint shape{.name = text};
  for (const auto& [name, value] : parse_assignments(text)) {
    const auto size = std::ranges::find(kSizes, std::string_view(name), &Size::name);
    if (size != std::end(kSizes)) {
      shape.sizes.*size->field = parse_size(name, value, size->most);
    } else if (name == "architecture") {
      if (find_family(value) == nullptr) throw bad_input("--shape: the architecture '{}' is not supported", value);
      shape.architecture = value;
    } else if (name == "tied") {
      shape.tied = parse_size(name, value, 1) == 1;
    } else {
      throw bad_input("--shape: there is no size '{}'", name);
    }
  }
  fill_defaults(shape.sizes);
  return shape;
}

}  // namespace gabbro::llm
