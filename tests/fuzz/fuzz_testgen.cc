// Any bytes as a config.json: a pack of every size whose configurations are JSON again, or an error of one line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "src/base/error.h"
#include "src/testgen/pack.h"

namespace {

// Holds for any pack: files of bounded size in one folder, and configurations that parse.
void check(const gabbro::testgen::Pack& pack) {
  for (const auto& [name, text] : pack.files) {
    if (text.size() > (size_t{64} << 20)) std::abort();
    if (name.ends_with(".json") && !nlohmann::json::accept(text)) std::abort();
    if (name.find('/') != std::string::npos) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 16) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  gabbro::testgen::Json config = gabbro::testgen::Json::parse(text, nullptr, false);
  if (config.is_discarded()) return 0;
  try {
    check(gabbro::testgen::make_pack({.config = std::move(config), .name = "config.json"},
                                     {.sizes = {"tiny", "true"}, .engines = {"transformers", "gabbro"}}));
  } catch (const gabbro::Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
