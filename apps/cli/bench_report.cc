#include "apps/cli/bench_report.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "apps/cli/bench_files.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

constexpr std::string_view kPlaceOfDocument = "__DOCUMENT__";

// JSON for a script element. Whatever a device calls itself cannot end the element: `<` stands in strings alone, where
// \u003c means the same.
std::string script_json(const nlohmann::ordered_json& document) {
  std::string escaped;
  for (const char c : document.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace)) {
    c == '<' ? escaped += "\\u003c" : escaped += c;
  }
  return escaped;
}

}  // namespace

void require_report_path(const std::string& path) {
  if (is_standard_output(path)) return;
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  if (std::filesystem::is_fifo(status)) return;
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw bad_input("--html: {} is not a regular file", path);
  // Checks as the later write does: a new file next to it.
  std::string temporary = path + ".XXXXXX";
  const int file = ::mkstemp(temporary.data());
  if (file < 0) throw bad_input("--html: {} cannot be written: {}", path, std::strerror(errno));
  ::close(file);
  ::unlink(temporary.c_str());
}

void write_report(const std::string& path, const nlohmann::ordered_json& document) {
  std::string page(bench_report_template());
  page.replace(page.find(kPlaceOfDocument), kPlaceOfDocument.size(), script_json(document));
  write_output(path, std::as_bytes(std::span(page)));
}

}  // namespace gabbro::cli
