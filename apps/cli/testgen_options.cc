#include "apps/cli/testgen_options.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <cctype>

#include <filesystem>
#include <sstream>

#include "apps/cli/text_files.h"
#include "apps/cli/usage.h"
#include "src/base/error.h"
#include "src/formats/hugging_face/json_file.h"
#include "src/hub/model_cache.h"
#include "src/models/llm/registry.h"
#include "src/testgen/shrink.h"

namespace gabbro::cli {
namespace {

constexpr size_t kLargestConfig = size_t{16} << 20;

void check_names(const std::vector<std::string>& names, const std::vector<std::string>& known, const char* option) {
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw bad_input("{}: '{}' is none of {}", option, name, fmt::join(known, ", "));
  }
}

std::vector<std::string> check_ids() {
  std::vector<std::string> ids;
  for (const auto& [id, title] : testgen::all_checks()) ids.push_back(id);
  return ids;
}

testgen::Source from_file(const std::string& path) {
  return {.config = read_json_file(path, kLargestConfig), .name = path};
}

// Whether a class has the name of a type: "LlamaForCausalLM", llama.
bool is_named_after(const std::string& class_name, const std::string& type) {
  std::string name;
  for (const char c : type) {
    if (c != '_' && c != '-') name += c;
  }
  return class_name.size() > name.size() &&
         std::ranges::equal(
             name, class_name.substr(0, name.size()), {}, [](char c) { return std::tolower(c); },
             [](char c) { return std::tolower(c); }) &&
         class_name.substr(name.size()).starts_with("For");
}

// "did you mean" for a name that is nearly a type's, or that is the name of a class.
std::string meant_by(const std::string& target) {
  const testgen::TypeTable& table = testgen::TypeTable::get();
  std::string of_class;  // several types may have one class: the one with its name is meant
  for (const std::string& type : table.types()) {
    const testgen::Json classes = table.find(type)->at("classes");
    for (const auto& [task, name] : classes.items()) {
      if (name != target || (!of_class.empty() && !is_named_after(target, type))) continue;
      of_class = fmt::format("did you mean {} --task {}?", type, task);
    }
  }
  if (!of_class.empty()) return of_class;
  const std::string meant = closest(target, table.types());
  return meant.empty() ? "gabbro testgen --list types" : fmt::format("did you mean {}?", meant);
}

}  // namespace

std::vector<std::string> engines_of(const TestgenOptions& o, const testgen::Source& source) {
  if (o.engines != "auto") return split_names(o.engines, "--engine");
  std::vector<std::string> engines = {"transformers"};
  const auto type = source.config.find("model_type");
  const bool is_named = type != source.config.end() && type->is_string();
  if (is_named && llm::find_family(type->get<std::string>()) != nullptr) engines.emplace_back("gabbro");
  return engines;
}

std::string command_of(const TestgenOptions& o, const testgen::Source& source) {
  std::string text = "gabbro testgen " + (source.is_default ? source.name : "config.json");
  const TestgenOptions usual;
  const auto add = [&](const char* name, const std::string& value, const std::string& default_value) {
    if (value != default_value) text += fmt::format(" {} {}", name, value);
  };
  add("--task", o.task, usual.task);
  add("--size", o.sizes, usual.sizes);
  add("--dtypes", o.dtypes, usual.dtypes);
  add("--devices", o.devices, usual.devices);
  add("--checks", o.checks, usual.checks);
  add("--without", o.without, usual.without);
  add("--engine", o.engines, usual.engines);
  if (o.lengths != usual.lengths) text += fmt::format(" --lengths {}", fmt::join(o.lengths, ","));
  if (o.seed != usual.seed) text += fmt::format(" --seed {}", o.seed);
  return text;
}

void check_devices(const std::string& devices) {
  for (const std::string& name : split_names(devices, "--devices")) {
    const std::string kind = name.substr(0, name.find(':'));
    const std::string number = kind.size() < name.size() ? name.substr(kind.size() + 1) : "0";
    const bool numbered = !number.empty() && number.size() < 4 &&
                          std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    const bool alone = kind == name && (kind == "auto" || kind == "all" || kind == "cpu");
    if (alone || (numbered && (kind == "rocm" || kind == "cuda"))) continue;
    throw bad_input("--devices: '{}' is none of auto, all, cpu, cuda:N, rocm:N", name);
  }
}

std::vector<std::string> split_names(const std::string& text, const char* option) {
  std::vector<std::string> names;
  std::istringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) {
    if (name.empty()) throw bad_input("{}: an empty name in '{}'", option, text);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

testgen::PackOptions pack_options(const TestgenOptions& o) {
  const bool is_auto = o.sizes == "auto";
  testgen::PackOptions options{.task = o.task,
                               .sizes = split_names(is_auto ? "tiny" : o.sizes, "--size"),
                               .card_sizes = split_names(is_auto ? "heads" : "", "--size"),
                               .dtypes = split_names(o.dtypes, "--dtypes"),
                               .devices = o.devices,
                               .checks = split_names(o.checks, "--checks"),
                               .without = split_names(o.without, "--without"),
                               .seed = o.seed,
                               .version = "gabbro " GABBRO_VERSION};
  if (!o.lengths.empty()) options.lengths = o.lengths;
  for (const std::string& size : options.sizes) testgen::parse_size(size);
  if (o.engines != "auto") check_names(split_names(o.engines, "--engine"), {"transformers", "gabbro"}, "--engine");
  check_names(options.dtypes, {"f32", "bf16", "f16"}, "--dtypes");
  check_names(options.checks, check_ids(), "--checks");
  check_names(options.without, check_ids(), "--without");
  check_devices(o.devices);
  if (!o.family.empty()) check_names({o.family}, testgen::all_families(), "--family");
  for (const int length : o.lengths) {
    if (length < 1 || length > 65536) throw bad_input("--lengths: {} is not between 1 and 65536", length);
  }
  return options;
}

testgen::Source read_source(const std::string& target) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool is_type = testgen::TypeTable::get().find(target).has_value();
  const bool is_model = fs::exists(fs::path(target) / "config.json", ignored);
  if (fs::is_directory(target, ignored) && (is_model || !is_type))
    return from_file((fs::path(target) / "config.json").string());
  if (fs::is_regular_file(target, ignored)) return from_file(target);
  if (is_type) return testgen::default_source(target);
  const auto model = find_model(target);
  if (!model) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("'{}' names neither a model type, a config.json, a folder nor a downloaded model", target),
                meant_by(target));
  }
  if (!fs::is_directory(*model, ignored)) throw bad_input("{}: has no config.json: give the original model's", *model);
  return from_file((fs::path(*model) / "config.json").string());
}

std::vector<std::string> all_targets(const TestgenOptions& o) {
  std::vector<std::string> targets = o.targets;
  if (!o.from.empty()) {
    std::istringstream lines(read_input(o.from));
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (!line.empty() && line[0] != '#') targets.push_back(line);
    }
  }
  if (o.all) {
    for (const std::string& type : testgen::TypeTable::get().types()) targets.push_back(type);
  }
  std::vector<std::string> unique;
  for (const std::string& target : targets) {
    if (std::ranges::find(unique, target) == unique.end()) unique.push_back(target);
  }
  return unique;
}

}  // namespace gabbro::cli
