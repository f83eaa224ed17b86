#include "src/formats/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/quote.h"

namespace gabbro {
namespace {

constexpr size_t kExamined = 4096;
constexpr uint64_t kMostSafetensorsHeader = uint64_t{1} << 30;
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
constexpr const char* kUnpack = "unpack";  // see hint_of()
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
    {"algg"sv, 0, "a LoRA adapter in the format that came before GGUF (GGLA)", nullptr},
    {"FUGG"sv, 0, "a big-endian GGUF file", "look for a little-endian one, as nearly all are"},
    {"TFL3"sv, 4, "a TensorFlow Lite model", nullptr},
    {"MZqFpD"sv, 0, "a llamafile, a program with a model in it", "`unzip` takes the .gguf file out of it"},
    {"\x7F"
     "ELF"sv,
     0, "a program", "name the file of the model"},
    {"%PDF-"sv, 0, "a PDF document", "name the file of the model"},
    {"\x89PNG\r\n"sv, 0, "a picture", "name the file of the model"},
};

const char* name_of(FileKind kind) {
  switch (kind) {
    case FileKind::kGguf:
      return "a GGUF file";
    case FileKind::kSafetensors:
      return "a safetensors file";
    case FileKind::kJson:
      return "JSON";
    case FileKind::kSentencePiece:
      return "a SentencePiece model";
    case FileKind::kTemplate:
      return "a chat template";
    case FileKind::kImportanceMatrix:
      return "an importance matrix";
  }
  return "";
}

// Weights have other versions; other files have to be fetched again.
std::string hint_of(const char* hint, FileKind expected) {
  const bool weights = expected == FileKind::kGguf || expected == FileKind::kSafetensors;
  if (hint == kUnpack && expected == FileKind::kGguf) return "unpack it, and name the .gguf file in it";
  if (hint == kUnpack) return "unpack it: the file in it belongs here";
  if (!weights) return "fetch the file again from where the model comes from";
  return hint != nullptr ? hint : kConvert;
}

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

ForeignFile pointer_file(std::string_view start) {
  const size_t at = start.find("\nsize ");
  const std::string_view rest = at == start.npos ? std::string_view() : start.substr(at + 6);
  const std::string_view size = rest.substr(0, rest.find_first_not_of("0123456789"));
  return {"a Git LFS pointer, not the file itself", fmt::format("`git lfs pull` in its folder fetches the file{}",
                                                                size.empty() ? "" : fmt::format(" ({} bytes)", size))};
}

std::optional<ForeignFile> recognize_text(std::string_view start, FileKind expected) {
  if (start.starts_with("version https://git-lfs.github.com/spec/")) return pointer_file(start);
  const std::string text = lower(without_leading_space(start).substr(0, 64));
  for (const std::string_view tag : {"<!doctype", "<html", "<head", "<?xml", "<!--"}) {
    if (expected == FileKind::kTemplate && tag != "<!doctype" && tag != "<html") continue;
    if (text.starts_with(tag)) {
      return ForeignFile{"a web page (HTML or XML)",
                         "the download gave a page instead of the file, such as one to log in or an error: download "
                         "the file itself (on Hugging Face its address has /resolve/, not /blob/)"};
    }
  }
  if (expected == FileKind::kJson || expected == FileKind::kTemplate) return std::nullopt;
  // Neither a Jinja template ({{, {%) nor a prompt ([INST]).
  const size_t next = text.find_first_not_of(" \t\r\n", 1);
  const char second = text.empty() || next == text.npos ? '\0' : text[next];
  if ((text.starts_with("{") && (second == '"' || second == '}')) ||
      (text.starts_with("[") && (second == '"' || second == '{' || second == ']'))) {
    return ForeignFile{"a JSON text", expected == FileKind::kGguf
                                          ? "name the .gguf file; where a download gave this, it may hold the error"
                                          : "where a download gave this, it may hold the error"};
  }
  return std::nullopt;
}

// The length of the header, then the header, an object.
bool is_safetensors(std::string_view start) {
  uint64_t header = 0;
  if (start.size() <= sizeof header + 1) return false;
  std::memcpy(&header, start.data(), sizeof header);
  return start[8] == '{' && header >= 2 && header < kMostSafetensorsHeader;
}

std::optional<ForeignFile> recognize_checkpoint(std::string_view start, size_t size, std::string_view path,
                                                FileKind expected) {
  const std::string name = lower(path);
  if (start.starts_with("PK\x03\x04") || start.starts_with("PK\x05\x06")) {
    const bool pytorch = start.find("data.pkl") != start.npos || name.ends_with(".pt") || name.ends_with(".pth") ||
                         name.ends_with(".bin") || name.ends_with(".ckpt");
    if (pytorch) return ForeignFile{"a PyTorch checkpoint", hint_of(nullptr, expected)};
    if (name.ends_with(".npz")) return ForeignFile{"an archive of NumPy arrays", hint_of(nullptr, expected)};
    return ForeignFile{"a zip archive", hint_of(kUnpack, expected)};
  }
  // Pickle's protocols from 2 on begin with 0x80 and their number.
  if (start.size() > 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5)
    return ForeignFile{"a Python pickle, such as an old PyTorch checkpoint", hint_of(nullptr, expected)};
  if (is_safetensors(start)) {
    uint64_t header = 0;
    std::memcpy(&header, start.data(), sizeof header);
    if (is_unfinished_name(name)) return ForeignFile{"an unfinished download", unfinished_hint(size)};
    if (header + 8 <= size || name.ends_with(".safetensors")) {
      return ForeignFile{
          "a safetensors file",
          hint_of("give it a name that ends in .safetensors, with its config.json next to it", expected)};
    }
  }
  if (name.ends_with(".onnx")) return ForeignFile{"an ONNX model", hint_of(nullptr, expected)};
  return std::nullopt;
}

// A short text where weights are expected; empty: it is none. Servers answer with a sentence such as "Entry not found".
std::string message_in(std::span<const std::byte> bytes, FileKind expected) {
  constexpr size_t kShown = 60;
  if (expected == FileKind::kJson || expected == FileKind::kTemplate || bytes.size() > kExamined) return "";
  const std::string_view text = without_leading_space({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const auto is_text = [](unsigned char c) { return c >= 0x20 ? c != 0x7F : c == '\n' || c == '\r' || c == '\t'; };
  constexpr size_t kFewest = 9;  // a shorter file may be the start of one
  if (text.size() < kFewest || !std::ranges::all_of(text, is_text)) return "";
  const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  return line.size() <= kShown ? std::string(line) : std::string(line.substr(0, kShown)) + "...";
}

}  // namespace

std::optional<ForeignFile> recognize_file(std::span<const std::byte> bytes, std::string_view path, FileKind expected) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kExamined));
  const bool gguf = start.starts_with("GGUF");
  if (gguf && (expected == FileKind::kGguf || expected == FileKind::kImportanceMatrix)) return std::nullopt;
  // The length of a header may be any signature.
  if (expected == FileKind::kSafetensors && is_safetensors(start)) return std::nullopt;
  if (gguf) return ForeignFile{"a GGUF file", hint_of("give it a name that ends in .gguf", expected)};
  constexpr size_t kFewest = 16;  // of a hole
  if (start.size() >= kFewest && start.find_first_not_of('\0') == start.npos)
    return ForeignFile{"a file that begins with zeros: a download reserved its space", unfinished_hint(bytes.size())};
  for (const Signature& known : kSignatures) {
    if (start.size() >= known.offset && start.substr(known.offset).starts_with(known.bytes))
      return ForeignFile{known.what, hint_of(known.hint, expected)};
  }
  if (auto text = recognize_text(start, expected)) return text;
  return recognize_checkpoint(start, bytes.size(), path, expected);
}

bool is_unfinished_name(std::string_view name) {
  constexpr std::string_view kEndings[] = {".incomplete", ".part", ".crdownload", ".download",
                                           ".aria2",      ".!qB",  ".tmp"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

void refuse_foreign(std::span<const std::byte> bytes, std::string_view path, FileKind expected) {
  auto foreign = recognize_file(bytes, path, expected);
  const std::string message = foreign ? "" : message_in(bytes, expected);
  if (!message.empty()) {
    foreign = ForeignFile{"a text: " + quote(message),
                          "where a download gave this, it is the server's answer: fetch the file again"};
  }
  if (!foreign) return;
  throw Error(ErrorCode::kBadInput, fmt::format("{}: this is not {} but {}", path, name_of(expected), foreign->what),
              foreign->hint);
}

void refuse_empty(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) == 0 && !error)
    throw Error(ErrorCode::kBadInput, path + ": the file is empty", unfinished_hint(0));
}

std::string unfinished_hint(size_t size, std::optional<uint64_t> expected) {
  if (expected)
    return fmt::format("the download is unfinished: {} bytes of {}; fetch the rest, or the file again", size,
                       *expected);
  return fmt::format("the download may be unfinished, with {} bytes so far: fetch the file again", size);
}

}  // namespace gabbro
