#include "src/hub/gguf_files.h"

#include <algorithm>
#include <array>
#include <map>

#include "src/formats/gguf/gguf_split.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

constexpr std::string_view kExtension = ".gguf";
constexpr std::string_view kDefaultLabel = "q4_k_m";

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_label(std::string_view word) {
  const std::string text = lower_case(word);
  constexpr std::array<std::string_view, 10> kPlain = {"f16",   "fp16",  "bf16",      "f32",   "fp32",
                                                       "mxfp4", "nvfp4", "mxfp4_moe", "tq1_0", "tq2_0"};
  if (std::ranges::find(kPlain, text) != kPlain.end()) return true;
  const size_t q = text.starts_with("iq") ? 1 : 0;
  return text.size() > q + 1 && text[q] == 'q' && is_digit(text[q + 1]);
}

}  // namespace

std::string quantization_label(std::string_view name) {
  const std::string_view file = file_name(name);
  const size_t cut = file.find_last_of("-.");
  const std::string_view last = file.substr(cut == std::string_view::npos ? 0 : cut + 1);
  if (is_label(last)) {
    const bool dynamic = cut != std::string_view::npos && cut >= 3 && file.substr(cut - 3, 3) == "-UD";
    return (dynamic ? "UD-" : "") + std::string(last);
  }
  if (name.size() == file.size()) return "";
  const std::string_view folder = file_name(name.substr(0, name.size() - file.size() - 1));
  const size_t folder_cut = folder.find_last_of("-.");
  const std::string_view word = folder.substr(folder_cut == std::string_view::npos ? 0 : folder_cut + 1);
  return is_label(word) ? std::string(word) : "";
}

std::vector<GgufModel> gguf_models(const std::vector<std::string>& paths) {
  std::map<std::string, GgufModel> models;
  std::map<std::string, uint32_t> counts;
  std::vector<std::string> sorted = paths;
  std::ranges::sort(sorted);
  for (const std::string& path : sorted) {
    const std::string file = lower_case(file_name(path));
    if (!file.ends_with(kExtension) || file.find("mmproj") != std::string::npos ||
        file.find("imatrix") != std::string::npos)
      continue;
    const auto split = gguf::parse_split_name(path);
    const std::string name = split ? split->prefix : path.substr(0, path.size() - kExtension.size());
    const std::string key = split ? name + "-of-" + std::to_string(split->count) : name;
    GgufModel& model = models.try_emplace(key, GgufModel{name, quantization_label(name), {}, true}).first->second;
    model.files.push_back(path);
    counts[key] = split ? split->count : 1;
  }
  std::vector<GgufModel> list;
  for (auto& [key, model] : models) {
    if (key != model.name && models.contains(model.name)) continue;  // the same model is there in one file
    model.is_complete = model.files.size() == counts[key];
    list.push_back(std::move(model));
  }
  return list;
}

std::vector<GgufModel> models_of_tag(const std::vector<GgufModel>& models, std::string_view tag) {
  const std::string wanted = lower_case(tag);
  std::vector<GgufModel> found;
  const auto add_where = [&](const auto& matches) {
    if (found.empty()) std::ranges::copy_if(models, std::back_inserter(found), matches);
  };
  add_where([&](const GgufModel& model) { return lower_case(model.label) == wanted; });
  add_where([&](const GgufModel& model) { return model.files.front() == tag || model.name == tag; });
  add_where(
      [&](const GgufModel& model) { return file_name(model.files.front()) == tag || file_name(model.name) == tag; });
  add_where([&](const GgufModel& model) {
    const std::string first = lower_case(model.files.front()), name = lower_case(model.name);
    return first == wanted || name == wanted || file_name(first) == wanted || file_name(name) == wanted;
  });
  add_where([&](const GgufModel& model) { return lower_case(model.label) == "ud-" + wanted; });
  return found;
}

const GgufModel* default_model(const std::vector<GgufModel>& models) {
  if (models.size() == 1) return &models.front();
  const auto is_default = [](const GgufModel& model) { return lower_case(model.label) == kDefaultLabel; };
  if (std::ranges::count_if(models, is_default) != 1) return nullptr;
  return &*std::ranges::find_if(models, is_default);
}

std::string tag_of(const GgufModel& model, const std::vector<GgufModel>& models) {
  const auto same = [&](const GgufModel& other) { return lower_case(other.label) == lower_case(model.label); };
  if (model.label.empty() || std::ranges::count_if(models, same) > 1) return model.files.front();
  return lower_case(model.label);
}

std::string known_tags(const std::vector<GgufModel>& models) {
  constexpr size_t kShown = 30;
  std::string text;
  for (size_t i = 0; i < std::min(models.size(), kShown); ++i) text += (i > 0 ? ", " : "") + tag_of(models[i], models);
  return models.size() > kShown ? text + ", ..." : text;
}

}  // namespace gabbro::hub
