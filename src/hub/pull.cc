#include "src/hub/pull.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "src/formats/gguf/gguf_parse.h"
#include "src/hub/cached_pull.h"
#include "src/hub/gguf_files.h"
#include "src/hub/hub_client.h"
#include "src/hub/license.h"
#include "src/hub/selection.h"

namespace gabbro::hub {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kReserve = uint64_t{64} << 20;  // of the disk, for all else

std::string gib(uint64_t bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (uint64_t{1} << 30)); }

// Bytes that the disk has for a file already.
uint64_t bytes_on_disk(const std::string& path) {
  struct stat state = {};
  return stat(path.c_str(), &state) == 0 ? static_cast<uint64_t>(state.st_blocks) * 512 : 0;
}

void require_space(const RepoCache& cache, const std::vector<RepoFile>& files) {
  uint64_t needed = 0;
  std::set<std::string> blobs;
  for (const RepoFile& file : files) {
    if (!blobs.insert(file.blob).second) continue;
    std::error_code ignored;
    if (fs::exists(cache.blob(file.blob), ignored)) continue;
    needed += file.size - std::min(file.size, bytes_on_disk(cache.incomplete(file.blob)));
  }
  struct statvfs disk = {};
  if (needed == 0 || statvfs(cache.folder().c_str(), &disk) != 0) return;
  const uint64_t available = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (available >= kReserve && available - kReserve >= needed) return;
  throw Error(ErrorCode::kFailed,
              fmt::format("{}: {} are needed, {} are free", cache.folder(), gib(needed), gib(available)),
              "free some space, or name a folder on another disk with HF_HUB_CACHE");
}

// Links in an order that makes a model visible when all of it is there: what programs look for first comes last.
void link_files(const RepoCache& cache, const std::string& commit, const Selection& selection) {
  const auto is_entry = [&](const RepoFile& file) {
    return file.path == selection.model || file.path == "config.json" || file.path == "model_index.json";
  };
  std::vector<RepoFile> files = selection.files;
  std::stable_partition(files.begin(), files.end(), [&](const RepoFile& file) { return !is_entry(file); });
  for (const RepoFile& file : files) cache.link(commit, file.path, file.blob);
}

PullResult result_of(const RepoCache& cache, const std::string& commit, const RepoName& name,
                     const Selection& selection) {
  PullResult result;
  result.model = RepoName{name.id, name.revision, selection.tag}.text();
  result.path = cache.snapshot(commit) + (selection.model.empty() ? "" : "/" + selection.model);
  result.commit = commit;
  result.files = selection.files;
  for (const RepoFile& file : selection.files) result.bytes += file.size;
  return result;
}

// The listing of a repository at the commit that a name means, as the Hub tells it.
struct Listing {
  std::string commit;
  std::vector<RepoFile> files;
};

Listing ask_hub(const Settings& settings, const PullOptions& options) {
  const std::atomic<bool> never{false};
  const std::atomic<bool>& stop = options.download.canceled != nullptr ? *options.download.canceled : never;
  HubClient client(settings, stop, options.download.retries);
  Listing listing{client.commit(options.name), {}};
  listing.files = client.tree(options.name.id, listing.commit);
  return listing;
}

PullResult download_listed(const Settings& settings, const PullOptions& options, const Listing& listing) {
  const Selection selection = select_files(listing.files, options.name, options.include, options.exclude);
  const RepoCache cache(settings.cache, options.name.id);
  cache.create_folders();
  require_space(cache, selection.files);
  PullResult result = result_of(cache, listing.commit, options.name, selection);
  result.received = download(settings, cache, listing.commit, selection.files, options.download);
  link_files(cache, listing.commit, selection);
  result.license = license_of(cache.snapshot(listing.commit), selection.files);
  cache.write_ref(options.name.revision.empty() ? kDefaultRevision : options.name.revision, listing.commit);
  return result;
}

}  // namespace

PullResult pull(const Settings& settings, const PullOptions& given) {
  if (settings.cache.empty())
    throw bad_input("there is no folder for models: none of HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and HOME is set");
  PullOptions options = given;
  if (const auto id = find_cached_repository(settings.cache, options.name.id)) options.name.id = *id;
  if (settings.offline) {
    if (auto cached = pull_from_cache(settings, options)) {
      cached->note = "HF_HUB_OFFLINE is set: this is what is on this machine";
      return *cached;
    }
    throw Error(ErrorCode::kFailed, fmt::format("{} cannot be downloaded: HF_HUB_OFFLINE is set", options.name.text()),
                "gabbro list shows the models on this machine");
  }
  Listing listing;
  try {
    listing = ask_hub(settings, options);
  } catch (const HttpError& error) {
    using enum HttpError::Kind;
    const bool unreachable = error.kind() == kConnect || error.kind() == kBroken || error.kind() == kDown;
    auto cached = unreachable ? pull_from_cache(settings, options) : std::nullopt;
    if (!cached) throw;
    cached->note = fmt::format("{}: this is what is on this machine", error.what());
    return *cached;
  }
  return download_listed(settings, options, listing);
}

}  // namespace gabbro::hub
