#include "backends/gpu/tuning/tuning_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

namespace gabbro::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeader = "gabbro tuning 1";
constexpr size_t kMaxBytes = size_t{16} << 20;  // some hundred thousand entries: more is not our file

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The text before the separator, which is removed together with it.
std::string_view cut(std::string_view& rest, char separator) {
  const std::string_view part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  return part;
}

// "hipBLASLt=1.25"
std::optional<std::pair<std::string, double>> read_candidate(std::string_view field) {
  const size_t sign = field.rfind('=');
  if (sign == 0 || sign == std::string_view::npos) return std::nullopt;
  double ratio = 0;
  const std::string_view number = field.substr(sign + 1);
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), ratio);
  if (error != std::errc() || stop != number.data() + number.size() || !std::isfinite(ratio) || ratio <= 0)
    return std::nullopt;
  return std::pair{std::string(field.substr(0, sign)), ratio};
}

// Device, shape, the chosen candidate, and each candidate with its ratio; tabs between them.
bool read_entry(std::string_view line, TuningTable& table) {
  const std::string_view device = cut(line, '\t'), shape = cut(line, '\t');
  TuningEntry entry{.chosen = std::string(cut(line, '\t')), .candidates = {}};
  while (!line.empty()) {
    auto candidate = read_candidate(cut(line, '\t'));
    if (!candidate) return false;
    entry.candidates.push_back(std::move(*candidate));
  }
  const bool known =
      std::ranges::any_of(entry.candidates, [&](const auto& candidate) { return candidate.first == entry.chosen; });
  if (device.empty() || shape.empty() || !known) return false;
  table[{std::string(device), std::string(shape)}] = std::move(entry);
  return true;
}

std::string one_field(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string text_of(const TuningTable& table) {
  std::string text = fmt::format("{}\n", kHeader);
  for (const auto& [key, entry] : table) {
    text += one_field(key.first) + '\t' + one_field(key.second) + '\t' + one_field(entry.chosen);
    for (const auto& [name, ratio] : entry.candidates) text += fmt::format("\t{}={}", one_field(name), ratio);
    text += '\n';
  }
  return text;
}

}  // namespace

std::string TuningFile::default_path() {
  if (const char* own = std::getenv("GABBRO_TUNING_FILE")) return own;
  if (const std::string home = variable("GABBRO_HOME"); !home.empty()) return home + "/tuning.txt";
  if (const std::string cache = variable("XDG_CACHE_HOME"); cache.starts_with('/')) return cache + "/gabbro/tuning.txt";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/gabbro/tuning.txt";
}

TuningFile::State TuningFile::read(TuningTable& table, std::string& problem) const {
  table.clear();
  problem.clear();
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  if (path_.empty() || status.type() == fs::file_type::not_found) return State::kMissing;
  const auto refuse = [&](State state, const std::string& why) {
    table.clear();
    problem = fmt::format("the tuning file {} is ignored: {}", path_, why);
    return state;
  };
  if (status.type() == fs::file_type::none) return refuse(State::kForeign, error.message());
  if (status.type() != fs::file_type::regular) return refuse(State::kForeign, "it is not a plain file");
  std::ifstream file(path_, std::ios::binary);
  if (!file) return refuse(State::kForeign, std::strerror(errno));
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.empty()) return State::kMissing;
  std::string_view rest = text;
  if (text.size() > kMaxBytes || text.find('\n') != kHeader.size() || cut(rest, '\n') != kHeader)
    return refuse(State::kForeign, "it is not one that this version of Gabbro wrote");
  for (int number = 2; !rest.empty(); ++number) {
    const bool whole = rest.find('\n') != std::string_view::npos;
    if (!read_entry(cut(rest, '\n'), table) || !whole)
      return refuse(State::kDamaged, fmt::format("line {} is damaged", number));
  }
  return State::kRead;
}

TuningTable TuningFile::load(std::string& problem) const {
  TuningTable table;
  read(table, problem);
  return table;
}

std::string TuningFile::store(const TuningTable& entries) const {
  if (path_.empty()) return "there is no place for a tuning file: GABBRO_TUNING_FILE names one";
  TuningTable table;
  std::string problem;
  if (read(table, problem) == State::kForeign) return problem;
  for (const auto& [key, entry] : entries) table[key] = entry;
  const auto failed = [&](const std::string& why) {
    return fmt::format("the tuning file {} cannot be written: {}", path_, why);
  };
  std::error_code error;
  if (const fs::path folder = fs::path(path_).parent_path(); !folder.empty()) fs::create_directories(folder, error);
  if (error) return failed(error.message());
  static std::atomic<int> number{0};  // several devices of a process may store at the same time
  const std::string scratch = fmt::format("{}.{}.{}", path_, ::getpid(), ++number);
  errno = 0;
  std::ofstream file(scratch, std::ios::binary | std::ios::trunc);
  file << text_of(table);
  file.close();
  if (file) {
    fs::rename(scratch, path_, error);
    if (!error) return {};
  } else {
    error = std::error_code(errno == 0 ? EIO : errno, std::generic_category());
  }
  const std::string why = error.message();
  fs::remove(scratch, error);
  return failed(why);
}

}  // namespace gabbro::gpu
