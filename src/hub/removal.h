// Removal of models from the disk: first what would go is listed, then it goes, and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gabbro::hub {

struct Removal {
  std::vector<std::string> models;   // their names
  std::vector<std::string> files;    // files and links to unlink
  std::vector<std::string> folders;  // to remove with all they contain; links in them are not followed
  std::vector<std::string> empty;    // folders to remove where nothing is left in them
  std::vector<std::string> locks;    // held while a download is running
  uint64_t bytes = 0;                // that will become free: of files that have no other hard link
};

// Removes by a name that `gabbro list` shows, in any case, never by a path: a model of Gabbro's own folder; a GGUF
// model of the Hub's cache
// ("owner/name:q4_k_m"); all of a snapshot ("owner/name@revision") or of a repository ("owner/name"). Files that other
// snapshots of the repository need stay. Throws bad_input where there is no such model or the name could be several,
// and for models of Ollama and LM Studio, with a hint.
Removal plan_removal(const std::string& name);

// Returns the bytes that became free. Throws failed() where a file cannot be removed, or a download of the repository
// is running.
uint64_t remove(const Removal& removal);

}  // namespace gabbro::hub
