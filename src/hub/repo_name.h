// Names of models on the Hugging Face Hub.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gabbro::hub {

struct RepoName {
  std::string id;        // "owner/name"
  std::string revision;  // a branch, tag or commit; empty: the default one
  std::string tag;       // a quantization ("q4_k_m") or the name of a GGUF file; empty: not given

  std::string text() const;  // "owner/name@revision:tag"
};

constexpr const char* kDefaultRevision = "main";

// "owner/name", "owner/name:q4_k_m", "owner/name@revision", "owner/name@revision:q4_k_m", also after "hf.co/",
// "huggingface.co/", "https://huggingface.co/" or "hf://". Empty where the text has not this form, by the Hub's rules
// for names.
std::optional<RepoName> parse_repo_name(std::string_view text);

// A branch, a tag or a commit, as it may stand in a path below refs/.
bool is_revision(std::string_view text);

// 40 lower-case hexadecimal digits, or 64.
bool is_commit(std::string_view text);
bool is_sha256(std::string_view text);

// The repository of a short name such as "qwen3:8b", by the table short_names.txt; letters' case does not count.
std::optional<RepoName> find_short_name(std::string_view name);

// The repository that `gabbro pull TEXT` downloads. Throws bad_input with a hint.
RepoName require_repo_name(std::string_view text);

}  // namespace gabbro::hub
