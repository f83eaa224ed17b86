// Files that a model's folder lacks: blobs that links lead to, and the shards of an index.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "src/base/error.h"
#include "src/formats/hugging_face/json_file.h"
#include "src/hub/model_folders.h"

namespace gabbro::hub {
namespace {

// The files that an index of weights names, relative to the index's folder. A damaged index names none: its reader says
// what is wrong.
std::set<std::string> shards_of(const std::string& path) {
  std::set<std::string> shards;
  try {
    const nlohmann::ordered_json index = read_json_file(path);
    const auto map = index.is_object() ? index.find("weight_map") : index.end();
    if (!index.is_object() || map == index.end() || !map->is_object()) return shards;
    for (const auto& [tensor, file] : map->items()) {
      if (file.is_string()) shards.insert(file.get<std::string>());
    }
  } catch (const Error&) {
  }
  return shards;
}

}  // namespace

std::string problem_of_folder(const std::string& folder, const std::vector<std::string>& files,
                              const std::vector<std::string>& dangling) {
  const auto is_gguf = [](const std::string& file) { return file.ends_with(".gguf"); };
  std::set<std::string> missing;
  std::ranges::copy_if(dangling, std::inserter(missing, missing.end()), std::not_fn(is_gguf));
  for (const std::string& file : files) {
    // The usual index of a folder counts; indices of other variants do not. A pipeline's folders have one each.
    const std::string parent = std::filesystem::path(file).parent_path().string();
    if (!file.ends_with(kWeightIndexSuffix) || (parent.empty() && file != "model" + std::string(kWeightIndexSuffix)))
      continue;
    for (const std::string& shard : shards_of(folder + "/" + file)) {
      const std::string path = parent.empty() ? shard : parent + "/" + shard;
      if (std::ranges::find(files, path) == files.end()) missing.insert(path);
    }
  }
  if (missing.empty()) return "";
  return missing.size() == 1 ? *missing.begin() + " is missing"
                             : fmt::format("{} and {} more are missing", *missing.begin(), missing.size() - 1);
}

}  // namespace gabbro::hub
