// Downloads files of one commit into the cache: several connections, also for one file; resumed, verified and put in
// place in one step each.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/hub/listing.h"
#include "src/hub/repo_cache.h"
#include "src/hub/settings.h"

namespace gabbro::hub {

struct DownloadOptions {
  int connections = 8;
  int retries = 5;  // consecutive attempts without data before it is an error
  // Set by another thread or a signal handler: the download ends with kInterrupted.
  const std::atomic<bool>* canceled = nullptr;
  // Called by the thread of download() several times a second: bytes that are there, and bytes of all files. Must not
  // throw.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

// All blobs are in the cache when it returns. Bytes that came over the network are returned. Throws HttpError and
// failed() (hash or size is not the listing's, disk is full), after all connections have ended; what has arrived stays
// for the next time, except for a file with another hash.
uint64_t download(const Settings& settings, const RepoCache& cache, const std::string& commit,
                  const std::vector<RepoFile>& files, const DownloadOptions& options);

}  // namespace gabbro::hub
