#include "src/backend/discovery/recorded_facts.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

namespace gabbro::discovery {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 7> kErrors = {{{"ok", 0},
                                                                      {"EACCES", EACCES},
                                                                      {"EPERM", EPERM},
                                                                      {"ENOENT", ENOENT},
                                                                      {"ENODEV", ENODEV},
                                                                      {"ENXIO", ENXIO},
                                                                      {"EBUSY", EBUSY}}};

int error_number(std::string_view name) {
  for (const auto& [known, number] : kErrors) {
    if (known == name) return number;
  }
  return EIO;
}

Fields assignments(const std::string& line) {
  Fields fields;
  const size_t message = line.find(" message=");
  for (const std::string& word : split(line.substr(0, message), " ")) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) fields.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  if (message != std::string::npos) fields.emplace("message", line.substr(message + 9));
  return fields;
}

std::optional<Fields> find(const SystemRoot& root, const std::string& subject) {
  if (!root.recorded()) return std::nullopt;
  for (const std::string& line : split(root.read("/facts").value_or(""), "\n")) {
    if (line.starts_with(subject + " ")) return assignments(line.substr(subject.size()));
  }
  return std::nullopt;
}

unsigned octal(const std::string& text) {
  unsigned value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 8);
  return value;
}

}  // namespace

std::optional<RecordedNode> recorded_node(const SystemRoot& root, const std::string& path) {
  const auto fields = find(root, "node " + path);
  if (!fields) return std::nullopt;
  return RecordedNode{.owner = static_cast<unsigned>(number_field(*fields, "uid")),
                      .group = static_cast<unsigned>(number_field(*fields, "gid")),
                      .mode = octal(text_field(*fields, "mode")),
                      .open_error = error_number(text_field(*fields, "open"))};
}

std::optional<Fields> recorded_runtime(const SystemRoot& root, const std::string& name) {
  return find(root, "runtime " + name);
}

}  // namespace gabbro::discovery
