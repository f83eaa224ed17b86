// Any bytes as a file of an adapter for pictures: an Error of one line, or differences of the layers' sizes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "src/base/error.h"
#include "src/pictures/lora/lora_delta.h"
#include "src/pictures/lora/prompt_loras.h"

namespace {

using namespace gabbro::pictures;

void check_delta(const LoraParts& parts, const std::vector<int64_t>& shape, size_t count) {
  const auto rows = static_cast<size_t>(shape[0]);
  const auto ones = [](size_t length) { return [length] { return std::vector<float>(length, 1); }; };
  const LoraLayer layer{.shape = shape, .has_bias = true, .weight = ones(count), .bias = ones(rows)};
  try {
    const LoraDelta delta = make_delta("x", parts, layer);
    if (!delta.weight.empty() && delta.weight.size() != count) std::abort();
    if (!delta.bias.empty() && delta.bias.size() != rows) std::abort();
    const auto rank = static_cast<size_t>(delta.rank);
    if (delta.down.size() != rank * (count / rows) || delta.up.size() != rank * rows) std::abort();
  } catch (const gabbro::Error& error) {
    if (std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const LoraFile file = parse_lora({reinterpret_cast<const std::byte*>(data), size}, "x.safetensors");
    for (const auto& [layer, parts] : file.layers) {
      check_delta(parts, {4, 6}, 24);
      check_delta(parts, {4, 3, 3, 3}, 108);
      check_delta(parts, {4}, 4);
    }
  } catch (const gabbro::Error& error) {
    if (std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
  try {
    const std::string_view prompt(reinterpret_cast<const char*>(data), size);
    if (read_prompt_loras(prompt).prompt.size() > size) std::abort();
  } catch (const gabbro::Error& error) {
    if (std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
  return 0;
}
