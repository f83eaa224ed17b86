#include "backends/gpu/sim/settings.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "backends/gpu/api.h"

namespace gabbro::gpu::sim {

std::optional<int32_t> wanted_devices() {
  const char* const text = std::getenv("GABBRO_SIM_DEVICES");
  if (text == nullptr || *text == '\0') return 2;
  int32_t count = 0;
  const char* const end = text + std::strlen(text);
  const auto [parsed, error] = std::from_chars(text, end, count);
  if (error != std::errc() || parsed != end || count < 1 || count > kMostDevices) return std::nullopt;
  return count;
}

uint32_t wave_of(int32_t index) {
  const char* forced = std::getenv("GABBRO_SIM_WAVE");
  if (forced == nullptr || *forced == '\0') return index % 2 == 0 ? 32 : 64;
  if (std::string_view(forced) == "32") return 32;
  if (std::string_view(forced) == "64") return 64;
  throw ApiError(abi::StatusCode::kFailed, fmt::format("GABBRO_SIM_WAVE: '{:.16}' is neither 32 nor 64", forced));
}

std::string fault_text(std::string_view what) {
  const char* text = std::getenv("GABBRO_SIM_FAIL");
  if (text == nullptr) return {};
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    if (item.starts_with(what) && item.substr(what.size()).starts_with(':'))
      return std::string(item.substr(what.size() + 1));
  }
  return {};
}

uint64_t fault(std::string_view what) { return std::strtoull(fault_text(what).c_str(), nullptr, 10); }

bool fails_now() {
  const char* const file = std::getenv("GABBRO_SIM_FAIL_ONCE");
  if (file == nullptr) return true;
  const int made = ::open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (made >= 0) ::close(made);
  return made >= 0;
}

double seconds_of(const char* name, double otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtod(text, nullptr) : otherwise;
}

std::chrono::steady_clock::duration to_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace gabbro::gpu::sim
