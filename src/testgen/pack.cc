#include "src/testgen/pack.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/testgen/embedded.h"
#include "src/testgen/model_choice.h"
#include "src/testgen/recipe.h"
#include "src/testgen/shrink.h"
#include "src/testgen/shrink_rules.h"
#include "src/testgen/test_files.h"

namespace gabbro::testgen {
namespace {

// The code that all packs share, in kSharedFolder.
constexpr const char* kSharedFiles[] = {
    "attention.py", "caches.py",  "calls.py",       "cards.py",    "choices.py",    "draws.py",
    "endpoints.py", "forms.py",   "generation.py",  "helpers.py",  "kinks.py",      "known.py",
    "layers.py",    "locate.py",  "losses.py",      "mixed.py",    "operations.py", "parity.py",
    "plugin.py",    "probe.py",   "properties.py",  "recorded.py", "reproduce.py",  "saving.py",
    "sizes.py",     "support.py", "pyproject.toml", "training.py", "versions.py"};
constexpr const char* kTestFiles[] = {"test_detect.py", "test_probe.py",    "test_layers.py",   "test_properties.py",
                                      "test_forms.py",  "test_generate.py", "test_training.py", "test_memory.py",
                                      "test_speed.py",  "test_devices.py",  "test_parity.py"};

const Json& checks_document() {
  static const Json document = Json::parse(embedded_file("data/checks.json"));
  return document;
}

bool contains(const std::vector<std::string>& list, const std::string& value) {
  return std::ranges::find(list, value) != list.end();
}

bool has_window(const Json& config) {
  const auto found = config.find("sliding_window");
  const bool off = config.contains("use_sliding_window") && config.at("use_sliding_window") == false;
  return found != config.end() && found->is_number_integer() && *found > 0 && !off;
}

// Whether `names`, separated by '|', has the task.
bool is_task(const std::string& names, const std::string& task) {
  return ("|" + names + "|").find("|" + task + "|") != std::string::npos;
}

bool applies(const Json& check, const PackOptions& options, const ModelChoice& model, const Recipe& recipe,
             const Json& config) {
  if (!check.contains("needs")) return true;
  return std::ranges::all_of(check.at("needs"), [&](const Json& need) {
    const std::string name = need;
    if (name.starts_with("task:")) return is_task(name.substr(5), model.task);
    if (name.starts_with("engine:")) return contains(options.engines, name.substr(7));
    if (name == "cache") return model.signature.takes("use_cache");
    if (name == "mask") return model.signature.takes("attention_mask");
    if (name == "positions") return model.signature.takes("position_ids");
    if (name == "window") return has_window(config);
    if (name == "attention") return model.signature.takes("attention_mask") || recipe.has("pixels");
    return recipe.has(name);
  });
}

std::vector<std::string> choose_checks(const PackOptions& options, const ModelChoice& model, const Recipe& recipe,
                                       const Json& config) {
  std::vector<std::string> chosen;
  for (const Json& check : checks_document().at("checks")) {
    const std::string id = check.at("id");
    if (!options.checks.empty() && !contains(options.checks, id)) continue;
    if (!contains(options.without, id) && applies(check, options, model, recipe, config)) chosen.push_back(id);
  }
  return chosen;
}

// The row of data/overrides.json for a type: paths of fields, "gain" and "why".
const Json& overrides_of(const std::string& type) {
  static const Json document = Json::parse(embedded_file("data/overrides.json"));
  static const Json none = Json::object();
  const auto found = document.find(type);
  return found == document.end() ? none : *found;
}

// Whether a field is a width, which follows the size of the heads.
bool is_width(const std::string& field) {
  const ShrinkRule* rule = find_shrink_rule(field);
  return rule != nullptr && (rule->kind == Kind::kWidths || rule->kind == Kind::kHeadSize);
}

// Values of data/overrides.json for the tiny configuration: what the rules for names get wrong. null removes a field.
// With the real size of heads they are left out for widths.
void override_fields(Json& config, const std::string& type, Size size, std::vector<std::string>& changes) {
  for (const auto& [path, value] : overrides_of(type).items()) {
    if (!path.starts_with('/')) continue;
    const Json::json_pointer place(path);
    if (size == Size::kHeads && is_width(place.back())) continue;
    const bool parent = place.parent_pointer().empty() || config.contains(place.parent_pointer());
    if (!parent || !config.at(place.parent_pointer()).is_object()) continue;
    if (value.is_null()) {
      config.at(place.parent_pointer()).erase(place.back());
    } else {
      config[place] = value;
    }
    changes.push_back(fmt::format("{}: {} (overrides.json)", path.substr(1), value.dump()));
  }
}

// An encoder is causal only where its configuration says so; the causal class of BERT and its like asks for it.
void make_decoder(Json& config, const std::string& task, std::vector<std::string>& changes) {
  if (task != "causal-lm" || !config.contains("is_decoder") || config.at("is_decoder") != false) return;
  config["is_decoder"] = true;
  changes.push_back("is_decoder: false -> true (the causal class is tested)");
}

// The tasks of the predecessor's interface that a class serves, as parts of function names.
Json endpoint_tasks(const std::string& task) {
  static const Json document = Json::parse(embedded_file("data/checks.json"));
  const Json& names = document.at("endpoint_tasks");
  return names.contains(task) ? names.at(task) : Json::array({"feature_extraction"});
}

// The rows of data/exceptions.json that are about this type and class.
Json exceptions_of(const ModelChoice& model) {
  static const Json document = Json::parse(embedded_file("data/exceptions.json"));
  Json rows = Json::array();
  for (const Json& row : document.at("rows")) {
    const Json& types = row.at("types");
    if (std::ranges::find(types, Json(model.type)) == types.end() || row.value("task", model.task) != model.task)
      continue;
    std::string link = row.at("link");
    if (const size_t at = link.find("{type}"); at != std::string::npos)
      link.replace(at, 6, row.value("module", model.type));
    Json made = {{"check", row.at("check")}, {"reason", row.at("reason")}, {"link", link}};
    if (row.contains("only")) made["only"] = row.at("only");
    rows.push_back(made);
  }
  return rows;
}

// The rows of data/known_faults.json that are about a check of the pack, or about attention, which all checks have;
// conftest.py knows the device and the versions.
Json known_faults_of(const Pack& pack) {
  static const Json document = Json::parse(embedded_file("data/known_faults.json"));
  Json rows = Json::array();
  for (const Json& row : document.at("rows")) {
    const Json types = row.value("types", Json::array());
    if (!types.empty() && std::ranges::find(types, Json(pack.type)) == types.end()) continue;
    if (row.contains("attention") ||
        std::ranges::any_of(row.at("checks"), [&](const Json& check) { return contains(pack.checks, check); }))
      rows.push_back(row);
  }
  return rows;
}

// Sizes of a card that are other models than the tiny one: add_configs() has written them.
std::vector<std::string> card_sizes_of(const Pack& pack, const PackOptions& options) {
  std::vector<std::string> sizes;
  for (const std::string& name : options.card_sizes) {
    if (pack.files.contains(name + ".json")) sizes.push_back(name);
  }
  return sizes;
}

Json values_of(const Pack& pack, const ModelChoice& model, const PackOptions& options) {
  Json values = {{"model_type", pack.type},
                 {"model_class", pack.model_class},
                 {"auto_class", model.auto_class},
                 {"task", pack.task},
                 {"family", pack.family},
                 {"sizes", options.sizes},
                 {"card_sizes", card_sizes_of(pack, options)},
                 {"dtypes", options.dtypes},
                 {"devices", options.devices},
                 {"lengths", options.lengths},
                 {"seed", options.seed},
                 {"gain", overrides_of(pack.type).value("gain", 1.6)},
                 {"version", options.version},
                 {"command", options.command},
                 {"checks", Json::array()},
                 {"recipe", pack.recipe},
                 {"has_cache", model.signature.takes("use_cache")},
                 {"endpoint_tasks", endpoint_tasks(pack.task)},
                 {"notes", pack.notes},
                 {"versions", checks_document().at("versions")},
                 {"transformers", TypeTable::get().version()}};
  for (const Json& check : checks_document().at("checks")) {
    if (contains(pack.checks, check.at("id"))) values["checks"].push_back(check);
  }
  values["names"] = pack.checks;
  return values;
}

std::string inputs_file(const Recipe& recipe, Json values) {
  std::string body;
  for (const std::string& line : recipe.lines) body += (body.empty() ? "    " : "\n    ") + line;
  values["body"] = body;
  values["uses_config"] = body.find("config") != std::string::npos;
  values["calls_ids"] = body.find("token_ids(") != std::string::npos;
  values["calls_pixels"] = body.find("pixels(config") != std::string::npos;
  values["calls_find"] = body.find("find(") != std::string::npos;
  return render("inputs.py.jinja", values);
}

std::string json_text(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

void add_configs(Pack& pack, const Source& source, const PackOptions& options) {
  Json model = source.config;
  model["model_type"] = pack.type;
  pack.files["model.json"] = json_text(model);
  std::vector<std::string> sizes = options.sizes;
  sizes.insert(sizes.end(), options.card_sizes.begin(), options.card_sizes.end());
  for (const std::string& name : sizes) {
    const Size size = parse_size(name);
    if (size == Size::kFull) continue;
    Shrunk shrunk = shrink(model, size, source.name);
    make_decoder(shrunk.config, pack.task, shrunk.changes);
    if (size == Size::kTiny || size == Size::kHeads) override_fields(shrunk.config, pack.type, size, shrunk.changes);
    const std::string text = json_text(shrunk.config);
    const auto tiny = pack.files.find("tiny.json");
    if (!contains(options.sizes, name) && tiny != pack.files.end() && tiny->second == text) continue;
    pack.files[name + ".json"] = text;
    Json changes = shrunk.changes;
    pack.files[name + ".changes.json"] = json_text(changes);
  }
}

// Adds the row of data/recorded.json, which is about the default configuration and one class. Its values are of the
// default seed, its errors of any.
void add_recorded(Pack& pack, const Source& source, const PackOptions& options) {
  static const Json document = Json::parse(embedded_file("data/recorded.json"));
  const auto row = document.find(pack.type);
  const bool is_of_pack = row != document.end() && source.is_default && row->at("task") == pack.task;
  if (is_of_pack) {
    Json own = *row;
    if (options.seed != 0) own.erase("values");
    pack.files["recorded.json"] = own.dump() + "\n";
  }
  if ((!is_of_pack || options.seed != 0) && contains(pack.checks, "recorded")) {
    pack.notes.push_back(
        "no recorded values for this configuration: a formula that is wrong on the CPU too goes unseen");
  }
}

// The largest errors of correct implementations by data type and depth of blocks, which test_layers.py compares.
void add_ceilings(Pack& pack) {
  if (contains(pack.checks, "layers")) pack.files["ceilings.json"] = embedded_file("data/ceilings.json");
}

// Checks that --checks names and that say nothing about this class. Throws bad_input where no check is left.
void note_checks_left_out(const Source& source, const PackOptions& options, Pack& pack) {
  std::string names;
  for (const std::string& name : options.checks) {
    if (!contains(pack.checks, name) && !contains(options.without, name)) names += (names.empty() ? "" : ", ") + name;
  }
  if (pack.checks.empty())
    throw bad_input("{}: no check is left for {}{}", source.name, pack.model_class,
                    names.empty() ? "" : ": " + names + " does not apply to it");
  if (!names.empty()) pack.notes.push_back(fmt::format("checks that do not apply to {}: {}", pack.model_class, names));
}

}  // namespace

Source default_source(const std::string& type) {
  const auto row = TypeTable::get().find(type);
  if (!row) throw bad_input("transformers {1} has no model type '{0}'", type, TypeTable::get().version());
  if (row->at("defaults").is_null()) {
    throw bad_input("{}: {} has no default values: give a config.json", type, row->at("config").get<std::string>());
  }
  Source source{.config = row->at("defaults"), .name = type, .is_default = true};
  source.config["model_type"] = type;
  return source;
}

void check_source(const Source& source, const std::string& task) {
  choose_recipe(source, choose_model(source, task), source.config);
}

Pack make_pack(const Source& source, const PackOptions& options) {
  const ModelChoice model = choose_model(source, options.task);
  Pack pack{.type = model.type, .model_class = model.model_class, .task = model.task, .family = model.family};
  pack.notes = model.notes;
  const Recipe recipe = choose_recipe(source, model, source.config);
  pack.recipe = recipe.title;
  pack.checks = choose_checks(options, model, recipe, source.config);
  note_checks_left_out(source, options, pack);
  add_recorded(pack, source, options);
  add_ceilings(pack);
  add_configs(pack, source, options);
  const Json values = values_of(pack, model, options);
  for (const char* name : {"conftest.py", "pyproject.toml"}) {
    pack.files[name] = embedded_file(std::string("templates/") + name);
  }
  for (const char* name : {"case.py", "endpoint.py", "README.md"}) {
    pack.files[name] = add_imports(render(std::string(name) + ".jinja", values));
  }
  pack.files["inputs.py"] = inputs_file(recipe, values);
  pack.files["exceptions.json"] = json_text(exceptions_of(model));
  pack.files["known_faults.json"] = json_text(known_faults_of(pack));
  for (const char* name : kTestFiles) {
    const std::string text = keep_checks(render(std::string(name) + ".jinja", values), pack.checks);
    if (!text.empty()) pack.files[name] = add_imports(text);
  }
  return pack;
}

std::map<std::string, std::string> shared_files() {
  std::map<std::string, std::string> files = {{"machine.py", std::string(embedded_file("run/machine.py"))}};
  for (const char* name : kSharedFiles) files[name] = embedded_file(std::string("templates/") + name);
  return files;
}

const std::vector<std::pair<std::string, std::string>>& all_checks() {
  static const auto checks = [] {
    std::vector<std::pair<std::string, std::string>> list;
    for (const Json& check : checks_document().at("checks")) list.emplace_back(check.at("id"), check.at("title"));
    return list;
  }();
  return checks;
}

const std::vector<std::string>& all_families() {
  static const std::vector<std::string> families = checks_document().at("families");
  return families;
}

}  // namespace gabbro::testgen
