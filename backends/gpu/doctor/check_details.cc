#include "backends/gpu/doctor/check_details.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "backends/gpu/api.h"

namespace gabbro::gpu {
namespace {

constexpr int kMostElements = 64;

void append_line(const std::string& line) {
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(details_file(), "a"));
  if (file == nullptr || std::fprintf(file.get(), "%s\n", line.c_str()) < 0)
    throw ApiError(abi::StatusCode::kFailed, fmt::format("GABBRO_DOCTOR_DETAILS={} cannot be written", details_file()));
}

// JSON has no infinity and no NaN.
std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null"; }

}  // namespace

const char* details_file() {
  const char* const file = std::getenv("GABBRO_DOCTOR_DETAILS");
  return file != nullptr && *file != '\0' ? file : nullptr;
}

void append_details(const KernelDetails& d) {
  double squares = 0, largest = 0;
  for (const double value : d.expected) squares += value * value;
  const double size = std::sqrt(squares / static_cast<double>(d.expected.size()));
  size_t differing = 0;
  std::string elements;
  for (size_t i = 0; i < d.found.size(); ++i) {
    const double error = std::abs(d.found[i] - d.expected[i]) / size;
    if (std::isfinite(error)) largest = std::max(largest, error);
    if (error <= d.tolerance) continue;
    if (++differing > kMostElements) continue;
    elements += fmt::format("{}[{},{},{}]", elements.empty() ? "" : ",", i, number(d.found[i]), number(d.expected[i]));
  }
  append_line(fmt::format(
      R"({{"kernel":"{}","how":"{}","run":{},"elements":{},"error":{},"tolerance":{},"differing":{},"first":[{}]}})",
      d.name, d.how, d.run, d.found.size(), number(largest), number(d.tolerance), differing, elements));
}

void append_table(std::string_view name, std::span<const float> values, size_t columns) {
  std::string rows;
  for (size_t i = 0; i < values.size(); ++i) {
    const char* before = i % columns != 0 ? "," : i == 0 ? "[" : "],[";
    rows += before + number(values[i]);
  }
  append_line(fmt::format(R"({{"table":"{}","rows":[{}]]}})", name, rows));
}

}  // namespace gabbro::gpu
