#include "tests/pictures/pipeline_copy.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

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

void scale_tensor(const std::filesystem::path& file, const std::string& tensor, float factor) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto fields = nlohmann::json::parse(bytes.substr(sizeof header, header));
  const auto range = fields.at(tensor).at("data_offsets").get<std::vector<size_t>>();
  ASSERT_EQ(fields.at(tensor).at("dtype"), "F32") << tensor;
  for (size_t at = range[0]; at < range[1]; at += sizeof(float)) {
    char* const place = &bytes[sizeof header + header + at];
    float value = 0;
    std::memcpy(&value, place, sizeof value);
    value *= factor;
    std::memcpy(place, &value, sizeof value);
  }
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace gabbro::pictures
