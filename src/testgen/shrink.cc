#include "src/testgen/shrink.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/base/error.h"
#include "src/testgen/shrink_rules.h"

namespace gabbro::testgen {
namespace {

constexpr int64_t kLargest = int64_t{1} << 40;  // of a number that a rule looks at
constexpr int64_t kWidth = 64, kHeads = 4, kHeadSize = 16, kLargestHead = 256, kStageWidth = 16, kStageImage = 64,
                  kVocabulary = 512;
constexpr size_t kMostLayers = 8;  // for lists that need many layers to hold every kind

class Shrinker {
 public:
  Shrinker(Size size, const std::string& name) : size_(size), name_(name) {}

  Shrunk run(const Json& config) {
    Json result = config;
    if (size_ != Size::kFull) object(result, "");
    return {std::move(result), std::move(changes_)};
  }

 private:
  // Facts about one object that its fields share.
  struct Scope {
    std::vector<size_t> layers;   // indices of the layers that stay; empty: no lists to cut
    std::set<size_t> old_layers;  // lengths of per-layer lists
    int64_t old_heads = 0, heads = 0;
    int64_t old_head_dim = 0, head_dim = 0;
    bool stages = false;  // lists of stages, which halve the image one by one
    int64_t patch = 0;
  };

  int64_t number(const Json& value, const std::string& path) const {
    if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(kLargest)) {
      throw bad_input("{}: field '{}': {} is out of range", name_, path, value.dump());
    }
    const int64_t result = value.get<int64_t>();
    if (result < -kLargest || result > kLargest) {
      throw bad_input("{}: field '{}': {} is out of range", name_, path, value.dump());
    }
    return result;
  }

  int64_t field(const Json& object, const char* name, const std::string& path) const {
    const auto found = object.find(name);
    return found != object.end() && found->is_number_integer() ? number(*found, path + name) : 0;
  }

  // Every per-layer list keeps the same layers: the shortest start that holds every kind of each list of names, or the
  // first layer of each kind where that is long.
  std::vector<size_t> choose_layers(const Json& object, const std::set<size_t>& lengths) const {
    size_t prefix = 2;
    std::set<size_t> firsts;
    for (const auto& [key, value] : object.items()) {
      if (!value.is_array() || !lengths.contains(value.size()) || value.size() < 3 || !value[0].is_string()) continue;
      std::set<std::string> kinds;
      for (size_t i = 0; i < value.size(); ++i) {
        if (!value[i].is_string() || !kinds.insert(value[i].get<std::string>()).second) continue;
        firsts.insert(i);
        prefix = std::max(prefix, i + 1);
      }
    }
    std::vector<size_t> layers;
    if (prefix <= kMostLayers) {
      for (size_t i = 0; i < prefix; ++i) layers.push_back(i);
      return layers;
    }
    layers.assign(firsts.begin(), firsts.end());
    if (layers.size() < 2) layers.push_back(layers.back() + 1);
    return layers;
  }

  Scope look(const Json& object, const std::string& path) const {
    Scope scope;
    for (const auto& [key, value] : object.items()) {
      const ShrinkRule* rule = find_shrink_rule(key);
      if (rule == nullptr) continue;
      if (rule->kind == Kind::kLayers && value.is_number_integer()) {
        const int64_t count = number(value, path + key);
        if (count > rule->to) scope.old_layers.insert(static_cast<size_t>(count));
      }
      if (rule->kind == Kind::kHeads && value.is_number_integer() && scope.old_heads == 0) {
        scope.old_heads = number(value, path + key);
      }
      if (rule->kind == Kind::kStages && value.is_array() && value.size() > 1) scope.stages = true;
      if (rule->kind == Kind::kWidths && value.is_array() && value.size() > 2) scope.stages = true;
    }
    if (scope.stages) scope.old_layers.clear();  // "num_layers" counts stages there, each with a list element
    scope.layers = choose_layers(object, scope.old_layers);
    scope.heads = is_small() ? small_heads(scope.old_heads) : scope.old_heads;
    int64_t width = std::max(field(object, "hidden_size", path), field(object, "d_model", path));
    if (width == 0 && size_ == Size::kHeads)
      width = std::max(field(object, "n_embd", path), field(object, "dim", path));
    scope.old_head_dim = field(object, "head_dim", path);
    if (scope.old_head_dim == 0 && scope.old_heads > 0) scope.old_head_dim = width / scope.old_heads;
    scope.head_dim = is_small() ? std::min(scope.old_head_dim, largest_head()) : scope.old_head_dim;
    scope.patch = field(object, "patch_size", path);
    if (!scope.stages && is_small()) scope.patch = std::min<int64_t>(scope.patch, 8);
    return scope;
  }

  bool is_small() const { return size_ == Size::kTiny || size_ == Size::kHeads; }

  int64_t largest_head() const { return size_ == Size::kHeads ? kLargestHead : kHeadSize; }

  // 0 without heads. In Size::kTiny it is at most kWidth.
  static int64_t width_of_heads(const Scope& scope) {
    return scope.heads > 0 && scope.head_dim > 0 ? scope.heads * scope.head_dim : 0;
  }

  static int64_t small_heads(int64_t heads) { return heads <= 2 ? heads : heads == 3 ? 2 : std::min(heads, kHeads); }

  void change(Json& value, int64_t to, const std::string& path) {
    if (value == to) return;
    changes_.push_back(fmt::format("{}: {} -> {}", path, value.dump(), to));
    value = to;
  }

  void at_most(Json& value, int64_t most, const std::string& path) {
    if (value.is_number_integer()) {
      if (number(value, path) > most) change(value, most, path);
    } else if (value.is_array() || value.is_object()) {
      for (auto& item : value) at_most(item, most, path);
    }
  }

  void cut_list(Json& list, const Scope& scope, const std::string& path) {
    Json cut = Json::array();
    for (const size_t layer : scope.layers) cut.push_back(list[std::min(layer, list.size() - 1)]);
    changes_.push_back(fmt::format("{}: {} elements -> {}", path, list.size(), cut.size()));
    list = std::move(cut);
  }

  // Lists of widths keep their relations: the smallest becomes `smallest`.
  void scale_list(Json& list, int64_t smallest, int64_t multiple, const std::string& path) {
    int64_t least = kLargest;
    for (const Json& item : list) {
      if (!item.is_number_integer()) return;
      least = std::min(least, number(item, path));
    }
    if (least <= smallest) return;
    for (Json& item : list) {
      const int64_t scaled = number(item, path) * smallest / least;
      change(item, std::max(multiple, scaled / multiple * multiple), path);
    }
  }

  void move_token(Json& value, const std::string& path) {
    if (value.is_array()) {
      for (Json& item : value) move_token(item, path);
    } else if (value.is_number_integer() && number(value, path) >= kVocabulary) {
      const int64_t old = number(value, path);
      const auto [place, added] =
          tokens_.try_emplace(old, kVocabulary - 1 - static_cast<int64_t>(tokens_.size() % 256));
      change(value, place->second, path);
    }
  }

  void widths(Json& value, const Scope& scope, int64_t to, const std::string& path) {
    if (value.is_array()) {
      scale_list(value, kStageWidth, 8, path);
    } else {
      at_most(value, scope.stages ? kStageWidth : std::max(to, width_of_heads(scope)), path);
    }
  }

  void make_small(Json& value, const Scope& scope, const ShrinkRule& rule, const std::string& path) {
    switch (rule.kind) {
      case Kind::kKeep:
      case Kind::kLayers:
        break;
      case Kind::kToken:
        move_token(value, path);
        break;
      case Kind::kHeads:
        if (value.is_array()) scale_list(value, 1, 1, path);
        if (value.is_number_integer()) change(value, small_heads(number(value, path)), path);
        break;
      case Kind::kHeadSize:
        at_most(value, size_ == Size::kHeads ? kLargestHead : rule.to, path);
        break;
      case Kind::kKvHeads:
        if (!value.is_number_integer()) break;
        if (number(value, path) == scope.old_heads) {
          change(value, scope.heads, path);
        } else {
          at_most(value, std::min(rule.to, std::max<int64_t>(scope.heads, 1)), path);
        }
        break;
      case Kind::kImage:
        at_most(value, scope.stages || scope.patch == 0 ? kStageImage : rule.to * scope.patch, path);
        break;
      case Kind::kPatch:
        if (!scope.stages) at_most(value, rule.to, path);
        break;
      case Kind::kWidths:
        widths(value, scope, rule.to, path);
        break;
      case Kind::kMin:
      case Kind::kVocabulary:
      case Kind::kStages:
        at_most(value, rule.to, path);
    }
  }

  // An object by layer numbers, as "per_layer_config" has them: of the layers that stay, with their new numbers.
  void cut_layers(Json& table, const Scope& scope, const std::string& path) {
    Json cut = Json::object();
    for (size_t i = 0; i < scope.layers.size(); ++i) {
      const auto row = table.find(std::to_string(scope.layers[i]));
      if (row != table.end()) cut[std::to_string(i)] = *row;
    }
    changes_.push_back(fmt::format("{}: {} layers -> {}", path, table.size(), cut.size()));
    table = std::move(cut);
  }

  static bool is_layer_table(const Json& value) {
    if (!value.is_object() || value.empty()) return false;
    return std::ranges::all_of(value.items(), [](const auto& item) {
      return item.key().size() < 5 && item.key().find_first_not_of("0123456789") == std::string::npos;
    });
  }

  // Names of stages depend on the number of layers: without them the class makes its own.
  void forget_stages(Json& config, const std::string& path) {
    for (const char* key : {"stage_names", "out_features", "out_indices", "_out_features", "_out_indices"}) {
      if (!config.contains(key)) continue;
      changes_.push_back(fmt::format("{}{}: left out", path, key));
      config.erase(key);
    }
  }

  // Lists about the rotated pairs of a head: their lengths, or their sum, follow the head's dimension.
  void rope(const std::string& key, Json& value, const Scope& scope, const std::string& path) {
    if (!is_small() || scope.old_head_dim <= scope.head_dim || scope.head_dim == 0 || !value.is_array()) return;
    if (key == "short_factor" || key == "long_factor") {
      const auto length = value.size() * static_cast<size_t>(scope.head_dim) / static_cast<size_t>(scope.old_head_dim);
      while (value.size() > std::max<size_t>(length, 1)) value.erase(value.size() - 1);
    } else if (key == "mrope_section" && !value.empty() && value[0].is_number_integer()) {
      int64_t left = scope.head_dim / 2;
      for (size_t i = value.size(); i-- > 1;) {
        const int64_t part = std::max<int64_t>(1, number(value[i], path) * scope.head_dim / scope.old_head_dim);
        change(value[i], part, path);
        left -= part;
      }
      change(value[0], std::max<int64_t>(left, 1), path);
    }
  }

  void object(Json& config, const std::string& path, const Scope* outer = nullptr) {
    Scope scope = look(config, path);
    if (!scope.old_layers.empty()) forget_stages(config, path);
    if (outer != nullptr && scope.old_head_dim == 0) {
      scope.old_head_dim = outer->old_head_dim;
      scope.head_dim = outer->head_dim;
    }
    for (auto& [key, value] : config.items()) {
      const std::string here = path + key;
      const ShrinkRule* rule = find_shrink_rule(key);
      if (value.is_array() && scope.old_layers.contains(value.size()) && value.size() > 2) {
        cut_list(value, scope, here);
      }
      if (rule != nullptr && rule->kind == Kind::kLayers && value.is_number_integer()) {
        const int64_t count = number(value, here);
        if (count > rule->to && !scope.stages)
          change(value, std::min(count, static_cast<int64_t>(scope.layers.size())), here);
      } else if (!scope.old_layers.empty() && is_layer_table(value)) {
        cut_layers(value, scope, here);
      } else if (value.is_object() && (rule == nullptr || rule->kind != Kind::kImage)) {
        object(value, here + ".", &scope);
      } else if (rule != nullptr && is_small()) {
        make_small(value, scope, *rule, here);
      }
      rope(key, value, scope, here);
      if (is_small() && key == "head_dim" && value.is_null() && scope.heads > 0)
        change(value, size_ == Size::kHeads ? std::max(scope.head_dim, kHeadSize) : kHeadSize, here);
    }
  }

  Size size_;
  const std::string& name_;
  std::vector<std::string> changes_;
  std::map<int64_t, int64_t> tokens_;  // ids beyond the small vocabulary, and where they moved
};

}  // namespace

Size parse_size(const std::string& name) {
  if (name == "tiny") return Size::kTiny;
  if (name == "heads") return Size::kHeads;
  if (name == "true") return Size::kTrue;
  if (name == "full") return Size::kFull;
  throw bad_input("--size: '{}' is none of tiny, heads, true, full", name);
}

Shrunk shrink(const Json& config, Size size, const std::string& name) { return Shrinker(size, name).run(config); }

}  // namespace gabbro::testgen
