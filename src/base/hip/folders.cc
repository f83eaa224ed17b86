#include "src/base/hip/folders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

namespace gabbro::hip_search {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCore = "_rocm_sdk_core";  // the folder of TheRock's wheel

// The numbers of "core-10.0" or "rocm-7.2.4": they order installed trees, and say nothing else.
std::vector<int> numbers_of(const std::string& name) {
  std::vector<int> numbers;
  for (size_t at = name.find('-'); at < name.size(); ++at) {
    if (std::isdigit(static_cast<unsigned char>(name[at])) == 0) continue;
    size_t end = at;
    int number = 0;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0 && number < 100000000) {
      number = number * 10 + (name[end++] - '0');
    }
    numbers.push_back(number);
    at = end;
  }
  return numbers;
}

std::vector<std::string> numbered_trees(const Settings& settings) {
  std::vector<std::pair<std::vector<int>, std::string>> found;
  for (const auto& [parent, prefix] : {std::pair("/opt/rocm", "core-"), std::pair("/opt", "rocm-")}) {
    std::error_code error;
    for (fs::directory_iterator at(settings.root + parent, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename();
      if (name.starts_with(prefix)) found.emplace_back(numbers_of(name), at->path());
    }
  }
  std::ranges::sort(found, std::greater<>());
  std::vector<std::string> trees;
  for (auto& [numbers, path] : found) trees.push_back(std::move(path));
  return trees;
}

void append_folders(std::vector<std::string>& folders, std::string_view list) {
  while (!list.empty()) {
    const std::string_view folder = list.substr(0, list.find_first_of(":;"));
    if (!folder.empty()) folders.emplace_back(folder);
    list.remove_prefix(std::min(list.size(), folder.size() + 1));
  }
}

// The cache is a table and its texts, each ended by a zero: the texts are enough.
void append_cached_folders(std::vector<std::string>& folders) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  const std::string cache((std::istreambuf_iterator<char>(file)), {});
  const std::string wanted = "/" + std::string(kLibrary) + ".so";
  for (size_t at = cache.find(wanted); at != std::string::npos; at = cache.find(wanted, at + 1)) {
    const size_t begin = cache.rfind('\0', at) + 1;  // npos + 1 is the start
    if (cache[begin] == '/') folders.push_back(cache.substr(begin, at - begin));
  }
}

}  // namespace

std::vector<std::string> rocm_trees(const Settings& settings) {
  std::vector<std::string> trees;
  for (const std::string& tree : {settings.rocm_path, settings.hip_root}) {
    if (!tree.empty()) trees.push_back(tree);
  }
  for (const char* tree : {"/opt/rocm", "/opt/rocm/core"}) trees.push_back(settings.root + tree);
  for (std::string& tree : numbered_trees(settings)) trees.push_back(std::move(tree));
  std::error_code ignored;
  std::erase_if(trees, [&](const std::string& tree) { return !fs::exists(fs::symlink_status(tree, ignored)); });
  return trees;
}

std::vector<std::string> library_folders(const std::string& folder) {
  return {folder + "/lib", folder + "/lib64", folder + "/" + kCore + "/lib"};
}

std::vector<Step> search_steps(const Settings& settings) {
  std::vector<Step> steps;
  const auto append = [&](const std::string& folder) { steps.push_back({folder}); };
  const auto append_tree = [&](const std::string& tree) {
    append(tree + "/lib");
    append(tree + "/lib64");
  };
  const std::vector<std::string> trees = rocm_trees(settings);
  const auto is_named = [&](const std::string& tree) {
    return tree == settings.rocm_path || tree == settings.hip_root;
  };
  for (const std::string& tree : trees) {
    if (is_named(tree)) append_tree(tree);
  }
  steps.push_back({});
  for (const std::string& tree : trees) {
    if (!is_named(tree)) append_tree(tree);
  }
  for (const std::string& packages : settings.packages) append(packages + "/" + kCore + "/lib");
  if (!settings.program_folder.empty()) {
    for (const std::string& folder : library_folders(settings.program_folder + "/rocm")) append(folder);
  }
  append(settings.root + "/run/opengl-driver/lib");
  append(settings.root + "/usr/lib/wsl/lib");
  return steps;
}

std::vector<std::string> loader_folders(const Settings& settings) {
  std::vector<std::string> folders;
  append_folders(folders, settings.library_path);
  if (settings.root.empty()) append_cached_folders(folders);
  for (const char* folder : {"/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu",
                             "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/lib"}) {
    folders.push_back(settings.root + folder);
  }
  return folders;
}

std::string describe_search(const Settings& settings) {
  std::vector<std::string> words;
  if (!settings.rocm_path.empty()) words.push_back("ROCM_PATH=" + settings.rocm_path);
  if (!settings.hip_root.empty()) words.push_back("HIP_PATH=" + settings.hip_root);
  words.emplace_back("the loader's path");
  if (!settings.library_path.empty()) words.back() += fmt::format(" (LD_LIBRARY_PATH={})", settings.library_path);
  words.insert(words.end(), {"/opt/rocm/lib", "/opt/rocm/core*/lib", "/opt/rocm-*/lib"});
  for (const std::string& packages : settings.packages) words.push_back(fmt::format("{}/{}/lib", packages, kCore));
  if (!settings.program_folder.empty()) words.push_back(settings.program_folder + "/rocm");
  words.insert(words.end(), {"/run/opengl-driver/lib", "/usr/lib/wsl/lib"});
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace gabbro::hip_search
