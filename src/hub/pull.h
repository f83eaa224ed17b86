// `gabbro pull`: from a name to files in the cache.
#pragma once

#include <string>
#include <vector>

#include "src/hub/download.h"
#include "src/hub/repo_name.h"
#include "src/hub/settings.h"

namespace gabbro::hub {

struct PullOptions {
  RepoName name;
  std::vector<std::string> include, exclude;  // patterns; see select_files
  DownloadOptions download;
};

struct PullResult {
  std::string model;  // as MODEL of other commands: "owner/name:q4_k_m"
  std::string path;   // of the GGUF or single file, or of the snapshot's folder
  std::string commit;
  std::vector<RepoFile> files;
  uint64_t bytes = 0;     // of the files
  uint64_t received = 0;  // of these, what came over the network now
  std::string license;    // that the repository states (license.h); empty: none of the files tells it
  std::string note;       // why this is what was on this machine: the Hub was not asked; empty where it was
};

// Downloads what is missing; a second pull at the same time waits and downloads nothing twice. The snapshot gets its
// links when all files are there, and the reference last. Offline, and where the Hub cannot be reached, the result is
// what the cache has of the revision, if that is whole. Throws HttpError, failed(), bad_input for names and patterns
// that mean nothing, and kInterrupted.
PullResult pull(const Settings& settings, const PullOptions& options);

}  // namespace gabbro::hub
