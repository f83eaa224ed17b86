// Any header of a single file with a diffusion model: an Error of one line, or parts of a pipeline whose tensors are
// inside the file. The input's first line is the field modelspec.prediction_type, or the field gabbro.pipeline if it
// begins with a brace. Every other line is a tensor: "F16 name 320 4 3 3".
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/base/error.h"
#include "src/base/json_node.h"
#include "src/pictures/single_file/single_file.h"

namespace {

namespace fs = std::filesystem;
using namespace gabbro::pictures;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of the file, whose data are a hole
constexpr size_t kShort = 8192;                     // inputs up to here are also read by the other functions

// A file in a folder that is removed at the end.
struct TemporaryFile {
  fs::path folder = fs::temp_directory_path() / ("gabbro-fuzz-headers-" + std::to_string(::getpid()));
  fs::path path = folder / "x.safetensors";

  TemporaryFile() { fs::create_directories(folder); }
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
};
const fs::path& model_file() {
  static const TemporaryFile file;
  return file.path;
}

std::string_view cut(std::string_view& text, char at) {
  const size_t end = std::min(text.find(at), text.size());
  const std::string_view first = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return first;
}

// The header's entry of a line. False if the file would be too large.
bool add_tensor(std::string_view line, nlohmann::ordered_json& header, uint64_t& end) {
  const std::string dtype(cut(line, ' ')), name(cut(line, ' '));
  uint64_t bytes = dtype == "F32" || dtype == "I32" ? 4 : dtype.starts_with("F8") || dtype == "U8" ? 1 : 2;
  std::vector<uint64_t> shape;
  while (!line.empty() && shape.size() < 6) {
    const std::string_view word = cut(line, ' ');
    uint64_t length = 0;
    std::from_chars(word.data(), word.data() + word.size(), length);
    if (length > kMostBytes || (bytes *= length) > kMostBytes) return false;
    shape.push_back(length);
  }
  header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
  return (end += bytes) <= kMostBytes;
}

// Returns false for a text that describes no file.
bool write_file(std::string_view text) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  const std::string first(cut(text, '\n'));
  if (!first.empty())
    header["__metadata__"] = {{first.starts_with("{") ? "gabbro.pipeline" : "modelspec.prediction_type", first}};
  uint64_t end = 0;
  while (!text.empty()) {
    if (!add_tensor(cut(text, '\n'), header, end)) return false;
  }
  const std::string document = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const uint64_t length = document.size();
  std::ofstream file(model_file(), std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&length), sizeof length) << document;
  file.close();
  fs::resize_file(model_file(), sizeof length + length + end);
  return true;
}

template <class Call>
void one_line(const Call& call) {
  try {
    call();
  } catch (const gabbro::Error& error) {
    if (std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
}

void check_inside(const gabbro::Checkpoint& part) {
  for (const gabbro::CheckpointTensor& tensor : part.tensors()) {
    if (tensor.derived == nullptr && !tensor.data.empty() && tensor.offset() + tensor.data.size() > kMostBytes * 2)
      std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!write_file({reinterpret_cast<const char*>(data), size})) return 0;
  const std::string path = model_file().string();
  if (size <= kShort) {
    one_line([&] { is_picture_model(path); });
    one_line([&] { explain_single_file(path); });
  }
  one_line([&] {
    const PipelineParts parts = open_single_file(path, {.needs_tokenizer = false});
    check_inside(parts.unet.checkpoint);
    check_inside(parts.autoencoder.checkpoint);
    for (const TextPart& text : parts.text_encoders) check_inside(text.checkpoint);
  });
  return 0;
}
