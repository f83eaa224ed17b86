#include "src/formats/hugging_face/tokenizer_files.h"

#include <filesystem>
#include <span>
#include <string_view>

#include "src/base/mapped_file.h"
#include "src/formats/foreign_file.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSentencePieceNames[] = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                               "sentencepiece.model"};

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// True of what is JSON or was meant to be.
bool begins_as_json(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return first != text.npos && (text[first] == '{' || text[first] == '[');
}

// Throws bad_input with a hint for a file of another kind.
std::optional<std::string> read_if_there(const fs::path& path) {
  constexpr size_t kMostBytes = size_t{128} << 20;  // the largest tokenizer.json have 35 MB
  if (!is_file(path)) return {};
  refuse_empty(path.string());
  std::string text = read_file(path.string(), kMostBytes);
  const bool json = path.extension() == ".json";
  if (!json || !begins_as_json(text))
    refuse_foreign(std::as_bytes(std::span(text)), path.string(), json ? FileKind::kJson : FileKind::kSentencePiece);
  return text;
}

}  // namespace

bool is_tokenizer_path(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    const std::string name = fs::path(path).filename().string();
    return name.ends_with(".json") && !name.ends_with(".safetensors.index.json")
               ? is_file(path)
               : name.ends_with(".model") && is_file(path);
  }
  if (is_file(fs::path(path) / "tokenizer.json")) return true;
  for (const char* name : kSentencePieceNames) {
    if (is_file(fs::path(path) / name)) return true;
  }
  return false;
}

TokenizerFiles read_tokenizer_files(const std::string& path) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  TokenizerFiles files;
  files.folder = folder.empty() ? "." : folder.string();
  if (is_folder) {
    files.tokenizer_json = read_if_there(folder / "tokenizer.json");
    for (const char* name : kSentencePieceNames) {
      if (!files.tokenizer_json && !files.sentencepiece_model) files.sentencepiece_model = read_if_there(folder / name);
    }
  } else {
    (path.ends_with(".model") ? files.sentencepiece_model : files.tokenizer_json) = read_if_there(path);
  }
  files.tokenizer_config = read_if_there(folder / "tokenizer_config.json");
  files.special_tokens_map = read_if_there(folder / "special_tokens_map.json");
  files.added_tokens = read_if_there(folder / "added_tokens.json");
  return files;
}

}  // namespace gabbro
