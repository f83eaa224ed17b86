#include "src/formats/foreign_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <vector>

namespace gabbro {
namespace {

constexpr size_t kExamined = 4096;
const char* const kConvert =
    "GGUF and safetensors files run here: look for such a version of the model, or convert it with llama.cpp's "
    "convert_hf_to_gguf.py";

struct Signature {
  std::string_view bytes;
  size_t offset;
  const char* what;
  const char* hint;
};

using namespace std::string_view_literals;
constexpr const char* kUnpack = "unpack it, and name the .gguf file in it";
constexpr Signature kSignatures[] = {
    {"\x1F\x8B"sv, 0, "a gzip archive", kUnpack},
    {"\x28\xB5\x2F\xFD"sv, 0, "a Zstandard archive", kUnpack},
    {"\xFD"
     "7zXZ\0"sv,
     0, "an xz archive", kUnpack},
    {"BZh"sv, 0, "a bzip2 archive", kUnpack},
    {"7z\xBC\xAF\x27\x1C"sv, 0, "a 7z archive", kUnpack},
    {"Rar!\x1A\x07"sv, 0, "a RAR archive", kUnpack},
    {"\x04\x22\x4D\x18"sv, 0, "an LZ4 archive", kUnpack},
    {"ustar"sv, 257, "a tar archive", kUnpack},
    {"\x89HDF\r\n\x1A\n"sv, 0, "an HDF5 file, such as a Keras checkpoint", nullptr},
    {"\x93NUMPY"sv, 0, "a NumPy array", nullptr},
    {"lmgg"sv, 0, "a model in the format that came before GGUF (GGML)", nullptr},
    {"fmgg"sv, 0, "a model in the format that came before GGUF (GGMF)", nullptr},
    {"tjgg"sv, 0, "a model in the format that came before GGUF (GGJT)", nullptr},
    {"FUGG"sv, 0, "a big-endian GGUF file", "look for a little-endian one, as nearly all are"},
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string_view without_leading_space(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == text.npos ? std::string_view() : text.substr(begin);
}

std::optional<ForeignFile> recognize_text(std::string_view start) {
  if (start.starts_with("version https://git-lfs.github.com/spec/")) {
    const size_t at = start.find("\nsize ");
    const std::string_view rest = at == start.npos ? std::string_view() : start.substr(at + 6);
    const std::string_view size = rest.substr(0, rest.find_first_not_of("0123456789"));
    return ForeignFile{"a Git LFS pointer, not the model itself",
                       fmt::format("`git lfs pull` in its folder fetches the model{}",
                                   size.empty() ? "" : fmt::format(" ({} bytes)", size))};
  }
  const std::string text = lower(without_leading_space(start).substr(0, 64));
  for (const std::string_view tag : {"<!doctype", "<html", "<head", "<?xml", "<!--"}) {
    if (text.starts_with(tag)) {
      return ForeignFile{"a web page (HTML or XML)",
                         "the download gave a page instead of the file, such as one to log in or an error: download "
                         "the file itself (on Hugging Face its address has /resolve/, not /blob/)"};
    }
  }
  // Neither a Jinja template ({{, {%) nor a prompt ([INST]).
  const size_t next = text.find_first_not_of(" \t\r\n", 1);
  const char second = text.empty() || next == text.npos ? '\0' : text[next];
  if ((text.starts_with("{") && (second == '"' || second == '}')) ||
      (text.starts_with("[") && (second == '"' || second == '{' || second == ']'))) {
    return ForeignFile{"a JSON text", "name the .gguf file; where a download gave this, it may hold the error"};
  }
  return std::nullopt;
}

std::optional<ForeignFile> recognize_checkpoint(std::string_view start, size_t size, std::string_view path) {
  if (start.starts_with("PK\x03\x04") || start.starts_with("PK\x05\x06")) {
    const std::string name = lower(path);
    const bool pytorch = start.find("data.pkl") != start.npos || name.ends_with(".pt") || name.ends_with(".pth") ||
                         name.ends_with(".bin") || name.ends_with(".ckpt");
    if (pytorch) return ForeignFile{"a PyTorch checkpoint", kConvert};
    return ForeignFile{"a zip archive", kUnpack};
  }
  // Pickle's protocols from 2 on begin with 0x80 and their number.
  if (start.size() > 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5)
    return ForeignFile{"a Python pickle, such as an old PyTorch checkpoint", kConvert};
  uint64_t header = 0;
  if (start.size() > sizeof header + 1) {
    std::memcpy(&header, start.data(), sizeof header);
    const bool safetensors = start[8] == '{' && header >= 2 && header < (uint64_t{1} << 30);
    if (safetensors && (header + 8 <= size || lower(path).ends_with(".safetensors")))
      return ForeignFile{"a safetensors file",
                         "give it a name that ends in .safetensors, with its config.json next to it"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<ForeignFile> recognize_file(std::span<const std::byte> bytes, std::string_view path) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kExamined));
  if (start.starts_with("GGUF")) return std::nullopt;
  if (!start.empty() && start.find_first_not_of('\0') == start.npos)
    return ForeignFile{"a file that begins with zeros: a download reserved its space", unfinished_hint(bytes.size())};
  for (const Signature& known : kSignatures) {
    if (start.size() >= known.offset && start.substr(known.offset).starts_with(known.bytes))
      return ForeignFile{known.what, known.hint != nullptr ? known.hint : kConvert};
  }
  if (auto text = recognize_text(start)) return text;
  return recognize_checkpoint(start, bytes.size(), path);
}

std::string folder_hint(const std::string& folder) {
  constexpr size_t kShown = 10;
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  bool safetensors = false, diffusers = false;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (lower(name).ends_with(".gguf")) files.push_back(name);
    safetensors = safetensors || name.ends_with(".safetensors");
    diffusers = diffusers || name == "model_index.json";
  }
  std::sort(files.begin(), files.end());
  if (!files.empty()) {
    const std::string more = files.size() > kShown ? fmt::format(" and {} more", files.size() - kShown) : "";
    files.resize(std::min(files.size(), kShown));
    return fmt::format("name one of the GGUF files in it: {}{}", fmt::join(files, ", "), more);
  }
  if (diffusers) return "folders of diffusers, which hold a picture model, do not run yet";
  if (safetensors) return "its config.json is missing: download that too";
  return "there is neither a .gguf nor a .safetensors file in it: name the file or the folder of a model";
}

std::string unfinished_hint(size_t size, std::optional<uint64_t> expected) {
  if (expected)
    return fmt::format("the download is unfinished: {} bytes of {}; fetch the rest, or the file again", size,
                       *expected);
  return fmt::format("the download may be unfinished, with {} bytes so far: fetch the file again", size);
}

}  // namespace gabbro
