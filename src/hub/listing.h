// Readers of the Hub's JSON answers about a repository. Every text of them is hostile: paths and hashes become
// names of files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::hub {

struct RepoFile {
  std::string path;   // relative, with '/' between its parts
  uint64_t size = 0;  // bytes
  std::string blob;   // its name below blobs/: SHA-256 of a file in LFS, else the SHA-1 of git's object
  bool lfs = false;
};

// The commit that a revision means, of the answer to /api/models/ID/revision/REVISION. `name` begins the messages.
// Throws bad_input.
std::string parse_commit(std::string_view text, const std::string& name);

// Adds the files of one page of /api/models/ID/tree/COMMIT. Throws bad_input: no such JSON, a path that is absolute,
// leaves the folder, or is too long, a hash that is not one, a negative size, or more than 200,000 files.
void parse_tree_page(std::string_view text, const std::string& name, std::vector<RepoFile>& files);

// Throws bad_input where a path is there twice, or is a file and a folder.
void check_tree(const std::vector<RepoFile>& files, const std::string& name);

// The address of the next page, of a header such as `<https://host/path?cursor=x>; rel="next"`; empty: there is none.
std::string next_page(std::string_view link);

// A relative path that stays below the folder it is joined to.
bool is_safe_path(std::string_view path);

// A manifest of Ollama. Blobs have the names of their SHA-256.
struct OllamaLayer {
  std::string kind;  // "model", "adapter", "template" ...: the media type after "application/vnd.ollama.image."
  std::string sha256;
  uint64_t size = 0;
};
struct OllamaManifest {
  std::vector<OllamaLayer> layers;    // in their order; other media types are left out
  std::optional<OllamaLayer> config;  // of kind "config"

  const OllamaLayer* model() const;  // the last layer of kind "model", as Ollama takes it; null if there is none
};
// Throws bad_input: no such JSON, a digest that is not one, a size that is not a number.
OllamaManifest parse_ollama_manifest(std::string_view text, const std::string& name);

}  // namespace gabbro::hub
