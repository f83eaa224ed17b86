#include "tests/emulated_hip/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "tests/emulated_hip/cards.h"

namespace emulated_hip {
namespace {

[[noreturn]] void refuse(const char* variable, std::string_view value, const std::string& expected) {
  fmt::print(stderr, "emulated HIP: {}='{:.64}': expected {}\n", variable, value, expected);
  std::fflush(stderr);
  std::_Exit(2);
}

std::string_view text_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string_view() : value;
}

template <class Use>
void for_items(std::string_view list, const Use& use) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    if (!item.empty()) use(item);
  }
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

size_t parse_bytes(const char* variable) {
  const std::string_view text = text_of(variable);
  std::string_view digits = text;
  int shift = 0;
  for (const auto& [suffix, bits] : {std::pair('K', 10), std::pair('M', 20), std::pair('G', 30)}) {
    if (!digits.ends_with(suffix)) continue;
    digits.remove_suffix(1);
    shift = bits;
    break;
  }
  const std::optional<uint64_t> number = parse_number(digits);
  if (!number || *number > (uint64_t{1} << 46) >> shift) refuse(variable, text, "bytes such as 8G, 512M, 64K or 4096");
  return *number << shift;
}

bool parse_flag(const char* variable, bool fallback) {
  const std::string_view text = text_of(variable);
  if (text.empty()) return fallback;
  if (text != "0" && text != "1") refuse(variable, text, "0 or 1");
  return text == "1";
}

void parse_fails(Settings& settings) {
  constexpr const char* kVariable = "EMULATED_GPU_FAIL";
  constexpr std::array<std::string_view, 6> kCounted = {"launch", "malloc", "hang", "copy", "capture", "image"};
  constexpr std::array<std::string_view, 6> kNamed = {"graph:stale", "graph:oom",  "graph:truncate",
                                                      "gemm:crash",  "gemm:fault", "peer:damage"};
  for_items(text_of(kVariable), [&](std::string_view item) {
    const std::string_view what = item.substr(0, item.find(':'));
    if (std::ranges::count(kNamed, item) > 0) {
      settings.faults.emplace(item);
      return;
    }
    const uint64_t number = parse_number(item.substr(std::min(item.size(), what.size() + 1))).value_or(0);
    if (std::ranges::count(kCounted, what) == 0 || number == 0) {
      refuse(
          kVariable, item,
          "launch:N, malloc:N, hang:N, copy:N, capture:N, image:N, graph:stale, graph:oom, graph:truncate, gemm:crash, "
          "gemm:fault "
          "or peer:damage");
    }
    settings.fails[std::string(what)] = number;
  });
}

}  // namespace

uint64_t Settings::fail(const std::string& what) const {
  const auto found = fails.find(what);
  return found == fails.end() ? 0 : found->second;
}

Settings Settings::of_process() {
  Settings settings;
  for_items(text_of("EMULATED_GPUS"), [&](std::string_view name) {
    if (find_card(name) == nullptr) refuse("EMULATED_GPUS", name, card_names());
    settings.gpus.emplace_back(name);
  });
  const std::string_view strict = text_of("EMULATED_GPU_STRICT");
  const std::optional<Rules> rules = find_rules(strict.empty() ? "7.2" : strict);
  if (!rules) refuse("EMULATED_GPU_STRICT", strict, std::string(rule_names()));
  settings.rules = *rules;
  if (!text_of("EMULATED_GPU_MEMORY").empty()) settings.memory = parse_bytes("EMULATED_GPU_MEMORY");
  if (!text_of("EMULATED_GPU_USED").empty()) settings.used = parse_bytes("EMULATED_GPU_USED");
  if (!text_of("EMULATED_GPU_CARVE_OUT").empty()) settings.carve_out = parse_bytes("EMULATED_GPU_CARVE_OUT");
  if (const std::string_view resident = text_of("EMULATED_GPU_RESIDENT"); !resident.empty()) {
    const std::optional<uint64_t> number = parse_number(resident);
    if (!number || *number > 64) refuse("EMULATED_GPU_RESIDENT", resident, "a number up to 64");
    settings.resident = static_cast<uint32_t>(*number);
  }
  if (const std::string_view seed = text_of("EMULATED_GPU_SEED"); !seed.empty()) {
    const std::optional<uint64_t> number = parse_number(seed);
    if (!number) refuse("EMULATED_GPU_SEED", seed, "a number");
    settings.seed = *number;
  }
  settings.poisons = parse_flag("EMULATED_GPU_POISON", true);
  settings.ranges = parse_flag("EMULATED_GPU_RANGES", true);
  settings.peers = parse_flag("EMULATED_GPU_PEERS", true);
  settings.logs = parse_flag("EMULATED_GPU_LOG", false);
  if (const std::string_view mapped = text_of("EMULATED_GPU_MAPPED_COPY"); !mapped.empty()) {
    if (mapped != "refuse" && mapped != "delay") refuse("EMULATED_GPU_MAPPED_COPY", mapped, "refuse or delay");
    settings.mapped_copy = mapped == "refuse" ? MappedCopy::kRefuse : MappedCopy::kDelay;
  }
  settings.statistics = text_of("EMULATED_GPU_STATISTICS");
  settings.instructions = text_of("EMULATED_GPU_INSTRUCTIONS");
  settings.code = text_of("EMULATED_GPU_CODE");
  if (!settings.instructions.empty() && !std::filesystem::is_directory(settings.instructions + "/amd_emulator"))
    refuse("EMULATED_GPU_INSTRUCTIONS", settings.instructions, "a folder with amd_emulator/");
  if (!settings.code.empty() && (settings.instructions.empty() || !std::filesystem::is_directory(settings.code)))
    refuse("EMULATED_GPU_CODE", settings.code, "a folder of code objects, and EMULATED_GPU_INSTRUCTIONS");
  parse_fails(settings);
  return settings;
}

}  // namespace emulated_hip
