// Any bytes as a TEMPLATE of Ollama's, over a fixed conversation: an error or a text, within the bounds.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "src/base/error.h"
#include "src/text/chat/ollama_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using nlohmann::ordered_json;
  static const auto* kMessages = new ordered_json(ordered_json::parse(R"([{"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi 世界"}, {"role": "assistant", "content": null, "tool_calls": [{"function":
    {"name": "f", "arguments": {"a": [1, 2.5, true, null]}}}]}])"));
  static const auto* kTools = new ordered_json(ordered_json::parse(R"([{"type": "function", "function": {"name": "f",
    "parameters": {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}}}])"));
  try {
    const gabbro::text::OllamaTemplate parsed(std::string(reinterpret_cast<const char*>(data), size));
    parsed.render(*kMessages, *kTools, true, 0);
  } catch (const gabbro::Error&) {
  }
  return 0;
}
