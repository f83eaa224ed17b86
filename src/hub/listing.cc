#include "src/hub/listing.h"

#include <algorithm>
#include <limits>
#include <set>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/json_file.h"
#include "src/hub/repo_name.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFiles = 200'000;
constexpr size_t kLongestPath = 1024, kLongestPart = 240;  // file systems take 255 bytes

std::string text_of(const Json& object, const char* key, const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) throw bad_input("{}: '{}' is not a text", name, key);
  return found->get<std::string>();
}

uint64_t size_of(const Json& object, const std::string& name) {
  const auto found = object.find("size");
  if (found == object.end() || !found->is_number_unsigned())
    throw bad_input("{}: 'size' is not a number of bytes", name);
  const uint64_t size = found->get<uint64_t>();
  if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / 2))
    throw bad_input("{}: a size of {} bytes is out of range", name, size);
  return size;
}

const Json& require_object(const Json& value, const std::string& name) {
  if (!value.is_object()) throw bad_input("{}: is not a JSON object", name);
  return value;
}

RepoFile read_file_entry(const Json& entry, const std::string& name) {
  RepoFile file;
  file.path = text_of(entry, "path", name);
  if (!is_safe_path(file.path)) throw bad_input("{}: refused the path {}", name, quote(file.path));
  const std::string where = fmt::format("{}: file {}", name, quote(file.path));
  const auto lfs = entry.find("lfs");
  file.lfs = lfs != entry.end() && !lfs->is_null();
  const Json& source = file.lfs ? require_object(*lfs, where) : entry;
  file.size = size_of(source, where);
  file.blob = text_of(source, "oid", where);
  if (file.lfs ? !is_sha256(file.blob) : !is_commit(file.blob))
    throw bad_input("{}: {} is not a hash", where, quote(file.blob));
  return file;
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kLongestPath) return false;
  if (std::ranges::any_of(path, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f || c == '\\'; }))
    return false;
  return std::ranges::all_of(split(path, '/'), [](std::string_view part) {
    return !part.empty() && part != "." && part != ".." && part.size() <= kLongestPart;
  });
}

std::string parse_commit(std::string_view text, const std::string& name) {
  const Json document = parse_json(text, name);
  std::string commit = text_of(require_object(document, name), "sha", name);
  if (!is_commit(commit)) throw bad_input("{}: {} is not a commit", name, quote(commit));
  return commit;
}

void parse_tree_page(std::string_view text, const std::string& name, std::vector<RepoFile>& files) {
  const Json document = parse_json(text, name);
  if (!document.is_array()) throw bad_input("{}: is not a list of files", name);
  for (const Json& entry : document) {
    const std::string type = text_of(require_object(entry, name), "type", name);
    if (type != "file") continue;
    if (files.size() == kMostFiles) throw bad_input("{}: has more than {} files", name, kMostFiles);
    files.push_back(read_file_entry(entry, name));
  }
}

void check_tree(const std::vector<RepoFile>& files, const std::string& name) {
  std::set<std::string_view> paths;
  for (const RepoFile& file : files) {
    if (!paths.insert(file.path).second) throw bad_input("{}: {} is there twice", name, quote(file.path));
  }
  for (const std::string_view path : paths) {
    for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
      if (paths.contains(path.substr(0, slash)))
        throw bad_input("{}: {} is a file and a folder", name, quote(path.substr(0, slash)));
    }
  }
}

std::string next_page(std::string_view link) {
  for (size_t at = link.find('<'); at != std::string_view::npos; at = link.find('<', at + 1)) {
    const size_t end = link.find('>', at);
    if (end == std::string_view::npos) return "";
    const std::string_view parameters = link.substr(end, std::min(link.find('<', end), link.size()) - end);
    if (parameters.find("rel=\"next\"") != std::string_view::npos ||
        parameters.find("rel=next") != std::string_view::npos)
      return std::string(link.substr(at + 1, end - at - 1));
  }
  return "";
}

const OllamaLayer* OllamaManifest::model() const {
  const OllamaLayer* found = nullptr;
  for (const OllamaLayer& layer : layers) found = layer.kind == "model" ? &layer : found;
  return found;
}

OllamaManifest parse_ollama_manifest(std::string_view text, const std::string& name) {
  constexpr std::string_view kDigest = "sha256:", kImage = "application/vnd.ollama.image.";
  const auto layer_of = [&](const Json& layer, std::string kind) {
    const std::string digest = text_of(layer, "digest", name);
    if (!digest.starts_with(kDigest) || !is_sha256(digest.substr(kDigest.size())))
      throw bad_input("{}: {} is not a digest", name, quote(digest));
    return OllamaLayer{std::move(kind), digest.substr(kDigest.size()), size_of(layer, name)};
  };
  const Json document = parse_json(text, name);
  const auto layers = require_object(document, name).find("layers");
  if (layers == document.end() || !layers->is_array()) throw bad_input("{}: 'layers' is not a list", name);
  OllamaManifest manifest;
  for (const Json& layer : *layers) {
    const std::string type = text_of(require_object(layer, name), "mediaType", name);
    if (type.starts_with(kImage)) manifest.layers.push_back(layer_of(layer, type.substr(kImage.size())));
  }
  if (const auto config = document.find("config"); config != document.end() && config->is_object())
    manifest.config = layer_of(*config, "config");
  return manifest;
}

}  // namespace gabbro::hub
