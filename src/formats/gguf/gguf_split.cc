#include "src/formats/gguf/gguf_split.h"

#include <charconv>

#include "src/base/error.h"

namespace gabbro::gguf {
namespace {

constexpr std::string_view kPattern = "-00001-of-00003.gguf";

// Five digits.
std::optional<uint32_t> parse_number(std::string_view digits) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  return number;
}

void check_number(const Part& part, const std::string& path, std::string_view key, uint64_t expected) {
  const Value* value = part.find(key);
  const auto number = value != nullptr ? value->as<uint64_t>() : std::nullopt;
  if (number == expected) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: metadata '{}' is {}, but by the name of the file it has to be {}", path, key,
                          value != nullptr ? value->describe() : "missing", expected),
              "the parts of a model keep the names with which they were made");
}

}  // namespace

std::string SplitName::path(uint32_t part) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part + 1, count);
}

std::optional<SplitName> parse_split_name(std::string_view path) {
  if (path.size() < kPattern.size()) return {};
  const std::string_view tail = path.substr(path.size() - kPattern.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") return {};
  const auto number = parse_number(tail.substr(1, 5)), count = parse_number(tail.substr(10, 5));
  if (!number || !count || *number == 0 || *number > *count) return {};
  return SplitName{std::string(path.substr(0, path.size() - kPattern.size())), *number - 1, *count};
}

std::unique_ptr<MappedFile> open_part(const std::string& path, uint32_t number, uint32_t count) {
  try {
    return std::make_unique<MappedFile>(path);
  } catch (const Error& error) {
    if (count == 1) throw;
    throw Error(error.code(), fmt::format("{} (part {} of {})", error.what(), number + 1, count),
                "all parts of a model have to be in one folder");
  }
}

void check_part(const Part& part, const std::string& path, uint32_t number, uint32_t count) {
  // A whole model may bear any name: it lacks the fields, or says that it is one of one.
  if (count == 1 && part.find("split.count") == nullptr) return;
  check_number(part, path, "split.count", count);
  check_number(part, path, "split.no", number);
}

}  // namespace gabbro::gguf
