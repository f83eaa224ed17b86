#include "src/hub/hub_client.h"

#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/hub/backoff.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

using enum HttpError::Kind;

constexpr size_t kMostAnswerBytes = size_t{32} << 20;
constexpr int kMostPages = 1000, kMostRedirects = 8;
constexpr long kAnswerSeconds = 120;

// A wrong answer is the Hub's fault, and not that of the user's input: kFailed in place of kBadInput.
template <class Read>
auto read_answer(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw failed("{}", error.what());
  }
}

// `W/"abc"` as abc.
std::string plain_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  return etag;
}

void check_header(const HttpResponse& response, const char* header, const std::string& value,
                  const std::string& expected, const RepoFile& file) {
  if (!response.headers.contains(header) || value == expected) return;
  throw failed("{}: the Hub's {} is {}, its listing says {}", file.path, header, quote(value), expected);
}

}  // namespace

std::string HubClient::token_for(const std::string& url) const {
  return origin(url) == origin(settings_.endpoint) ? settings_.token : "";
}

HttpError HubClient::status_error(const HttpResponse& response, const RepoName& name, const std::string& what) const {
  const std::string page = settings_.endpoint + "/" + name.id;
  const std::string code = response.header("x-error-code");
  const long status = response.status;
  const bool has_token = !settings_.token.empty();
  const std::string log_in = "set HF_TOKEN, or run hf auth login";
  if (status == 401 && has_token && response.header("x-error-message").starts_with("Invalid credentials"))
    return {kFatal, fmt::format("{}: the Hub does not accept the token of {}", name.id, settings_.token_source),
            fmt::format("make a new one at {}/settings/tokens", settings_.endpoint)};
  if (code == "GatedRepo")
    return {kFatal,
            fmt::format("{} is gated: {}", name.id, has_token ? "this token has no access" : "it needs a token"),
            fmt::format("accept its terms at {}{}", page, has_token ? "" : ", then " + log_in)};
  if (status == 401 || code == "RepoNotFound")
    return {
        kFatal, fmt::format("{}: the Hub has no such model, or it is private", name.id),
        has_token ? "check the name, and the rights of the token" : "check the name; for a private model, " + log_in};
  if (status == 403)
    return {kFatal, fmt::format("{}: the Hub refuses access (403)", name.id),
            has_token ? "check the rights of the token, and the terms at " + page : log_in};
  const std::string message = fmt::format("{}: the Hub answers {}", what, status);
  if (status == 429) return {kStatus, message + " (too many requests)", "try again later", retry_after(response)};
  if (status == 408 || status >= 500)
    return {status >= 500 ? kDown : kStatus, message, "try again later", retry_after(response)};
  return {kFatal, message};
}

std::string HubClient::text(const std::string& url, const RepoName& name, std::string* link) {
  Backoff backoff(retries_);
  std::string address = url;
  for (int redirects = 0;;) {
    try {
      std::string body;
      const HttpResponse response =
          http_.get({.url = address,
                     .token = token_for(address),
                     .stall_seconds = settings_.stall_seconds,
                     .most_seconds = kAnswerSeconds},
                    [&](const HttpResponse&, std::span<const std::byte> bytes) {
                      if (body.size() + bytes.size() > kMostAnswerBytes)
                        throw failed("{}: the Hub's answer is larger than {} MiB", name.id, kMostAnswerBytes >> 20);
                      body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                    });
      if (response.is_redirect() && redirects < kMostRedirects) {  // a repository that got another name
        address = join_url(address, response.header("location"));
        ++redirects;
        continue;
      }
      const std::string code = response.header("x-error-code");
      if (response.status == 404 && code == "RevisionNotFound")
        throw bad_input("{} has no revision {}", name.id, quote(name.revision));
      if (response.status == 404)
        throw Error(ErrorCode::kBadInput, fmt::format("the Hub has no model {}", name.id), "check the name");
      if (response.status != 200) throw status_error(response, name, name.id);
      if (link != nullptr) *link = response.header("link");
      return body;
    } catch (const HttpError& error) {
      if (error.kind() == kConnect) throw;  // most likely there is no network: say so at once
      backoff.wait(error, stop_);
    }
  }
}

std::string HubClient::commit(const RepoName& name) {
  RepoName full = name;
  if (full.revision.empty()) full.revision = kDefaultRevision;
  const std::string body =
      text(fmt::format("{}/api/models/{}/revision/{}", settings_.endpoint, full.id, quote_url(full.revision, false)),
           full, nullptr);
  return read_answer([&] { return parse_commit(body, "the Hub's answer about " + name.id); });
}

std::vector<RepoFile> HubClient::tree(const std::string& id, const std::string& commit) {
  const RepoName name{id, commit, ""};
  const std::string answer = "the Hub's list of files of " + id;
  std::vector<RepoFile> files;
  std::string url = fmt::format("{}/api/models/{}/tree/{}?recursive=true&expand=false", settings_.endpoint, id, commit);
  for (int page = 0; !url.empty(); ++page) {
    if (page == kMostPages) throw failed("{} has more than {} pages", answer, kMostPages);
    std::string link;
    const std::string body = text(url, name, &link);
    read_answer([&] {
      parse_tree_page(body, answer, files);
      return 0;
    });
    const std::string next = next_page(link);
    url = next.empty() ? "" : join_url(url, next);
  }
  read_answer([&] {
    check_tree(files, answer);
    return 0;
  });
  return files;
}

void HubClient::read(const std::string& id, const std::string& commit, const RepoFile& file, const HttpRequest& request,
                     std::string& location, const BodySink& sink) {
  HttpRequest sent = request;
  const bool resolved = !location.empty();
  sent.url = resolved ? location
                      : fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, id, commit, quote_url(file.path, true));
  for (int redirects = 0; redirects <= kMostRedirects; ++redirects) {
    sent.token = token_for(sent.url);
    const HttpResponse response = http_.get(sent, sink);
    if (file.lfs && origin(sent.url) == origin(settings_.endpoint)) {
      check_header(response, "x-linked-etag", plain_etag(response.header("x-linked-etag")), file.blob, file);
      check_header(response, "x-linked-size", response.header("x-linked-size"), std::to_string(file.size), file);
      check_header(response, "x-repo-commit", response.header("x-repo-commit"), commit, file);
    }
    if (response.is_redirect()) {
      const std::string next = join_url(sent.url, response.header("location"));
      if (origin(sent.url).starts_with("https://") && !origin(next).starts_with("https://"))
        throw HttpError(kFatal, fmt::format("{}: a redirect leads from https to {}", file.path, quote(next)));
      sent.url = next;
      continue;
    }
    if (response.status == 200 || response.status == 206) {
      if (redirects > 0) location = sent.url;
      return;
    }
    // An address with a signature expires: the next attempt begins at the Hub.
    location.clear();
    if (resolved && (response.status == 401 || response.status == 403 || response.status == 404))
      throw HttpError(kStatus, fmt::format("{}: its address has expired ({})", file.path, response.status));
    throw status_error(response, RepoName{id, commit, ""}, file.path);
  }
  throw HttpError(kFatal, fmt::format("{}: more than {} redirects", file.path, kMostRedirects));
}

}  // namespace gabbro::hub
