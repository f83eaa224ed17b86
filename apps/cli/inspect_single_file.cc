#include "apps/cli/inspect_single_file.h"

#include <nlohmann/json.hpp>

#include "apps/cli/inspect_pipeline.h"
#include "apps/cli/terminal.h"
#include "src/pictures/single_file/single_file.h"

namespace gabbro::cli {

void explain_single_file(const std::string& path, bool json) {
  const pictures::ExplainedFile file = pictures::explain_single_file(path);
  if (json) {
    return print_json({{"file", path}, {"family", file.title}, {"reasons", file.reasons}, {"missing", file.missing}});
  }
  TextOutput output(TextOutput::Lines::kAsTheyAre);
  output.write(fmt::format("{}: {}\n", path, file.title));
  for (const std::string& reason : file.reasons) output.write(fmt::format("  {}\n", reason));
  output.write("\n" + part_table(file.parts));
  for (const std::string& part : file.missing) output.write(fmt::format("not in the file: {}\n", part));
  output.finish();
}

}  // namespace gabbro::cli
