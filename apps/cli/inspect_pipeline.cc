#include "apps/cli/inspect_pipeline.h"

#include <nlohmann/json.hpp>

#include "apps/cli/terminal.h"
#include "src/pictures/scheduler_config.h"

namespace gabbro::cli {
namespace {

std::string formats_of(const pictures::PartSize& part) {
  std::string out;
  for (const auto& [format, count] : part.formats) out += fmt::format("{}{}x{}", out.empty() ? "" : " ", count, format);
  return out;
}

}  // namespace

std::string part_table(const std::vector<pictures::PartSize>& parts) {
  std::string out = fmt::format("{:<16} {:>8} {:>12} {:>12}  {}\n", "part", "tensors", "parameters", "size", "formats");
  for (const pictures::PartSize& part : parts) {
    out += fmt::format("{:<16} {:>8} {:>10.1f} M {:>12}  {}\n", part.name, part.tensors,
                       static_cast<double>(part.parameters) / 1e6, human_bytes(part.bytes), formats_of(part));
  }
  return out;
}

void inspect_pipeline(const std::string& folder, bool json) {
  const pictures::PipelineParts parts = pictures::open_pipeline(folder);
  const std::vector<pictures::PartSize> sizes = pictures::part_sizes(parts);
  const JsonNode scheduler(parts.scheduler, parts.scheduler_name);
  const std::string name = scheduler.at("_class_name").string();
  const std::string prediction = scheduler.string_or("prediction_type", "epsilon");
  if (!json) {
    print(fmt::format("{}: {}, {} ({})\n\n{}", folder, parts.class_name, name, prediction, part_table(sizes)));
    return;
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const pictures::PartSize& part : sizes) {
    rows.push_back({{"part", part.name},
                    {"tensors", part.tensors},
                    {"parameters", part.parameters},
                    {"bytes", part.bytes},
                    {"formats", part.formats}});
  }
  print_json({{"path", folder},
              {"class", parts.class_name},
              {"scheduler", name},
              {"prediction", prediction},
              {"parts", std::move(rows)}});
}

}  // namespace gabbro::cli
