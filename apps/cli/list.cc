// `list`: the models on this machine, in Gabbro's own folder and in the folders of other programs.
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"
#include "src/hub/model_cache.h"
#include "src/hub/settings.h"
#include "src/hub/text.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

// Broken models are in a separate list, so that programs do not take them for models.
void print_document(const std::vector<CachedModel>& models) {
  Json document = {{"folder", models_folder()},
                   {"hub_folder", hub::cache_folder()},
                   {"models", Json::array()},
                   {"broken", Json::array()}};
  for (const CachedModel& model : models) {
    Json row = {{"name", model.name}, {"path", model.path}, {"bytes", model.bytes}, {"source", name_of(model.source)}};
    if (!model.problem.empty()) row["problem"] = model.problem;
    document[model.problem.empty() ? "models" : "broken"].push_back(std::move(row));
  }
  print_json(document);
}

void print_table(const std::vector<CachedModel>& models) {
  size_t width = 0;
  for (const CachedModel& model : models) width = std::max(width, printable(model.name).size());
  std::string out;
  for (const CachedModel& model : models) {
    const std::string problem = model.problem.empty() ? "" : fmt::format("broken: {}: ", printable(model.problem));
    out += fmt::format("{:<{}}  {:>9}  {}{}\n", printable(model.name), width, human_bytes(model.bytes), problem,
                       printable(model.path));
  }
  print(out);
}

}  // namespace

void add_list(Command root) {
  Command command = root.subcommand("list", "List the models on this machine");
  const auto common = std::make_shared<CommonOptions>();
  const auto filter = std::make_shared<std::string>();
  command.option("NAME", *filter, "Only models whose name has this in it, in whatever case").optional();
  add_output_options(command, *common);
  command.alias("ls");
  command.footer("Models with missing files are shown as broken, with the names of these files.");
  command.example("gabbro list --json");
  command.example("gabbro list qwen");
  command.runs([common, filter] {
    auto models = list_models();
    const std::string wanted = hub::lower_case(*filter);
    const size_t all = models.size();
    std::erase_if(models, [&](const CachedModel& model) {
      return hub::lower_case(model.name).find(wanted) == std::string::npos;
    });
    if (common->json) {
      print_document(models);
    } else if (models.empty() && all > 0) {
      report("note", fmt::format("none of {} models has '{}' in its name", all, printable(*filter)));
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
