// Any answers of the Hub, and any manifest of Ollama: an Error of one line, or files whose paths and hashes are safe,
// and a choice of them. The texts are separated by zero bytes: name of the repository, list of files, commit, Link
// header, manifest.
#include <cstring>
#include <filesystem>

#include "src/base/error.h"
#include "src/hub/http.h"
#include "src/hub/listing.h"
#include "src/hub/repo_name.h"
#include "src/hub/selection.h"

namespace {

using namespace gabbro;

template <class Call>
void one_line(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    if (std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
}

void require(bool fact) {
  if (!fact) std::abort();
}

void check_file(const hub::RepoFile& file) {
  const std::filesystem::path path = std::filesystem::path("/cache/snapshot") / file.path;
  require(path.lexically_normal() == path && path.string().starts_with("/cache/snapshot/"));
  require(file.lfs ? hub::is_sha256(file.blob) : hub::is_commit(file.blob));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::string_view texts[5];
  for (std::string_view& text : texts) {
    text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
  }
  hub::RepoName name{"own/m", "", ""};
  if (const auto parsed = hub::parse_repo_name(texts[0])) {
    name = *parsed;
    require(hub::parse_repo_name(name.text())->text() == name.text());
  }
  one_line([&] {
    std::vector<hub::RepoFile> files;
    hub::parse_tree_page(texts[1], "list", files);
    hub::check_tree(files, "list");
    for (const hub::RepoFile& file : files) check_file(file);
    const hub::Selection selection = hub::select_files(files, name, {}, {});
    require(!selection.files.empty());
  });
  one_line([&] { require(hub::is_commit(hub::parse_commit(texts[2], "commit"))); });
  hub::origin(hub::join_url("https://host/a", hub::next_page(texts[3])));
  one_line([&] {
    for (const hub::OllamaLayer& layer : hub::parse_ollama_manifest(texts[4], "manifest").layers)
      require(hub::is_sha256(layer.sha256));
  });
  return 0;
}
