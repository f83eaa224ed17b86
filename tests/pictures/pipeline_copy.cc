#include "tests/pictures/pipeline_copy.h"

#include <unistd.h>

#include <fstream>
#include <iterator>

#include "tests/pictures/expected_tensors.h"

namespace gabbro::pictures {

std::string with_scheduler(const std::string& name, const std::string& config) {
  namespace fs = std::filesystem;
  const fs::path copy = fs::path(testing::TempDir()) / ("pipeline-" + std::to_string(::getpid()));
  fs::remove_all(copy);
  fs::copy(picture_folder(name), copy, fs::copy_options::recursive);
  std::ofstream(copy / "scheduler" / "scheduler_config.json") << config;
  return copy.string();
}

void replace_in_file(const std::filesystem::path& file, const std::string& what, const std::string& with) {
  std::ifstream in(file);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t at = text.find(what);
  ASSERT_NE(at, text.npos) << what;
  text.replace(at, what.size(), with);
  std::ofstream(file) << text;
}

}  // namespace gabbro::pictures
