// The Hub's API: which commit a revision is, which files it has, and the files themselves. The token goes to the Hub's
// own host and to no other.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "src/hub/http.h"
#include "src/hub/listing.h"
#include "src/hub/repo_name.h"
#include "src/hub/settings.h"

namespace gabbro::hub {

class HubClient {
 public:
  // For one thread. `settings` and `stop` have to outlive it.
  HubClient(const Settings& settings, const std::atomic<bool>& stop, int retries)
      : settings_(settings), stop_(stop), retries_(retries), http_(stop) {}

  // Both repeat what fails for a while. They throw HttpError; bad_input where the repository or the revision does not
  // exist; failed() for an answer that makes no sense.
  std::string commit(const RepoName& name);
  std::vector<RepoFile> tree(const std::string& id, const std::string& commit);

  // One attempt to read a file of a commit, or a range of it. `location` is where the last redirect led; empty: not
  // known yet; it is kept for the next request. The answer is what the Hub says of the file: throws failed() where that
  // is not what `file` says.
  void read(const std::string& id, const std::string& commit, const RepoFile& file, const HttpRequest& request,
            std::string& location, const BodySink& sink);

 private:
  std::string text(const std::string& url, const RepoName& name, std::string* link);
  std::string token_for(const std::string& url) const;
  HttpError status_error(const HttpResponse& response, const RepoName& name, const std::string& what) const;

  const Settings& settings_;
  const std::atomic<bool>& stop_;
  int retries_;
  HttpClient http_;
};

}  // namespace gabbro::hub
