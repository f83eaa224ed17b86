// GET / and /page/*: the web page. Ollama's clients ask for / too, and get a line of text.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "src/server/router.h"
#include "src/server/web/page_files.h"

namespace gabbro::server {
namespace {

constexpr std::string_view kPath = "/page/";

// The page runs its own scripts only, and asks this server only: text of a model can neither run nor send anything.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const char* content_type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/javascript; charset=utf-8";
}

// FNV-1a of the file, in quotes.
std::string entity_tag(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return fmt::format("\"{:016x}\"", hash);
}

const std::string& entity_tag(const PageFile& file) {
  static const std::map<std::string_view, std::string> kTags = [] {
    std::map<std::string_view, std::string> tags;
    for (const PageFile& one : page_files()) tags.emplace(one.name, entity_tag(one.text));
    return tags;
  }();
  return kTags.at(file.name);
}

// "W/" marks tags that a proxy made weak.
bool has_tag(const HttpRequest& request, const std::string& tag) {
  const std::string* const known = request.header("if-none-match");
  return known != nullptr && (*known == "*" || known->find(tag) != std::string::npos);
}

void answer_file(Exchange& exchange, std::string_view name) {
  const auto file = std::ranges::find(page_files(), name, &PageFile::name);
  if (file == page_files().end()) throw ApiError(404, "there is no such file", "unknown_url");
  const std::string& tag = entity_tag(*file);
  Response response{.content_type = content_type_of(name),
                    .headers = {{"ETag", tag},
                                {"Cache-Control", "no-cache"},
                                {"Vary", "Accept"},
                                {"Content-Security-Policy", kContentPolicy},
                                {"X-Content-Type-Options", "nosniff"},
                                {"Referrer-Policy", "no-referrer"},
                                {"Cross-Origin-Opener-Policy", "same-origin"},
                                {"Cross-Origin-Resource-Policy", "same-origin"}}};
  if (has_tag(exchange.request(), tag)) {
    response.status = 304;
  } else {
    response.body = file->text;
  }
  exchange.respond(std::move(response));
}

void answer_root(Service&, const std::shared_ptr<Exchange>& exchange) {
  const std::string* const accepted = exchange->request().header("accept");
  if (accepted != nullptr && accepted->find("text/html") != std::string::npos)
    return answer_file(*exchange, "index.html");
  exchange->respond(
      {.body = "Ollama is running", .content_type = "text/plain; charset=utf-8", .headers = {{"Vary", "Accept"}}});
}

void answer_page(Service&, const std::shared_ptr<Exchange>& exchange) {
  answer_file(*exchange, std::string_view(exchange->request().path).substr(kPath.size()));
}

}  // namespace

void add_page(Router& router) {
  router.add({"GET", "/", "The web page, or whether the server runs", answer_root});
  router.add({"GET", "/page/*", "A file of the web page", answer_page});
}

}  // namespace gabbro::server
