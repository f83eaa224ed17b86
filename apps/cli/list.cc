// `list`: the models on this machine, in Gabbro's own folder and in those of other programs.
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"
#include "src/hub/model_cache.h"
#include "src/hub/settings.h"

namespace gabbro::cli {
namespace {

void print_document(const std::vector<CachedModel>& models) {
  nlohmann::ordered_json document = {
      {"folder", models_folder()}, {"hub_folder", hub::cache_folder()}, {"models", nlohmann::ordered_json::array()}};
  for (const CachedModel& model : models) {
    document["models"].push_back(
        {{"name", model.name}, {"path", model.path}, {"bytes", model.bytes}, {"source", name_of(model.source)}});
  }
  print_json(document);
}

void print_table(const std::vector<CachedModel>& models) {
  size_t width = 0;
  for (const CachedModel& model : models) width = std::max(width, printable(model.name).size());
  std::string out;
  for (const CachedModel& model : models) {
    out += fmt::format("{:<{}}  {:>9}  {}\n", printable(model.name), width, human_bytes(model.bytes),
                       printable(model.path));
  }
  print(out);
}

}  // namespace

void add_list(Command root) {
  Command command = root.subcommand("list", "List the models on this machine");
  const auto common = std::make_shared<CommonOptions>();
  add_output_options(command, *common);
  command.alias("ls");
  command.example("gabbro list --json");
  command.runs([common] {
    const auto models = list_models();
    if (common->json) {
      print_document(models);
    } else if (models.empty()) {
      report("note", models_folder().empty()
                         ? "no model cache is configured: neither GABBRO_HOME, XDG_CACHE_HOME nor HOME is set"
                         : fmt::format("no models in {} and {}", models_folder(), hub::cache_folder()));
    } else {
      print_table(models);
    }
    return 0;
  });
}

}  // namespace gabbro::cli
