// Any bytes as a chat template, over a fixed conversation: an error or a text, within the bounds.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/base/error.h"
#include "src/jinja/from_json.h"
#include "src/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gabbro::jinja::Dict;
  static const auto* kVariables = [] {
    auto* dict = new Dict();
    const auto json = nlohmann::ordered_json::parse(R"({"messages": [{"role": "system", "content": "Be brief."},
      {"role": "user", "content": "Hi 世界"}, {"role": "assistant", "content": null, "tool_calls": [{"function":
      {"name": "f", "arguments": {"a": [1, 2.5, true, null]}}}]}], "tools": [], "s": "a b", "n": 3, "bos_token": "<s>"})");
    for (const auto& [name, value] : json.items())
      dict->set(name, gabbro::jinja::from_json(value, &gabbro::jinja::kOtherInput));
    return dict;
  }();
  try {
    const gabbro::jinja::Template parsed(std::string_view(reinterpret_cast<const char*>(data), size));
    parsed.render(*kVariables,
                  {.limits = {.steps = 100'000, .memory = size_t{64} << 20, .output = size_t{4} << 20}, .now = 0});
  } catch (const gabbro::Error&) {
  }
  return 0;
}
