// Any JSON files of a model folder next to a sound safetensors file: an Error of one line, or fields that can be read,
// a chat template, and the sizes of a model. The files are separated by zero bytes: config.json, tokenizer_config.json,
// generation_config.json, and the index where it is not empty.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/base/error.h"
#include "src/formats/checkpoint.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/models/llm/model.h"

namespace {

namespace fs = std::filesystem;

const fs::path& folder() {
  static const fs::path path = [] {
    const fs::path made = fs::temp_directory_path() / ("gabbro-fuzz-checkpoint-" + std::to_string(::getpid()));
    fs::create_directories(made);
    const std::vector<float> values(32, 1.0f);
    const gabbro::safetensors::TensorData tensor{
        "model.embed_tokens.weight", gabbro::DType::f32, {8, 4}, std::as_bytes(std::span(values))};
    gabbro::safetensors::write((made / "model.safetensors").string(), std::span(&tensor, 1));
    std::atexit([] { fs::remove_all(folder()); });
    return made;
  }();
  return path;
}

template <class Call>
void one_line(const Call& call) {
  try {
    call();
  } catch (const gabbro::Error& error) {
    if (std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
}

size_t touch(const gabbro::MetadataValue& value) {
  size_t sum = value.describe().size() + value.element_type_name().size() * (value.is_array() ? 1 : 0);
  for (const gabbro::MetadataValue& element : value.elements()) sum += touch(element);
  if (const auto text = value.as<std::string_view>()) sum += text->size();
  if (const auto number = value.as<uint32_t>()) sum += *number;
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  size_t at = 0;
  for (const char* name :
       {"config.json", "tokenizer_config.json", "generation_config.json", "model.safetensors.index.json"}) {
    const size_t end = std::min(all.find('\0', at), all.size());
    const std::string_view text = all.substr(std::min(at, all.size()), end - std::min(at, end));
    at = end + 1;
    fs::remove(folder() / name);
    if (!text.empty() || std::strcmp(name, "config.json") == 0) std::ofstream(folder() / name) << text;
  }
  size_t sum = 0;
  one_line([&] {
    const gabbro::Checkpoint checkpoint = gabbro::Checkpoint::open(folder().string());
    for (const gabbro::MetadataField& field : checkpoint.metadata().fields()) sum += touch(field.value);
    one_line([&] { sum += checkpoint.chat_template().value_or("").size(); });
    one_line([&] { sum += static_cast<size_t>(gabbro::llm::read_shape(checkpoint).layers); });
  });
  volatile size_t sink = sum;
  (void)sink;
  return 0;
}
