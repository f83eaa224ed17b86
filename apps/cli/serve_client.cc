#include "apps/cli/serve_client.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostAnswerBytes = size_t{64} << 20;

double seconds_since(BenchClock::time_point start) {
  return std::chrono::duration<double>(BenchClock::now() - start).count();
}

bool has_text(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() && !at->get_ref<const std::string&>().empty();
}

// {"error": {"message": "text"}} or {"error": "text"}; else the status.
std::string error_text(const hub::HttpResponse& response) {
  const Json body = Json::parse(response.error_body, nullptr, false);
  if (body.is_object() && body.contains("error")) {
    const Json& error = body["error"];
    if (error.is_string()) return fmt::format("status {}: {}", response.status, error.get<std::string>());
    if (error.is_object() && has_text(error, "message"))
      return fmt::format("status {}: {}", response.status, error["message"].get<std::string>());
  }
  return fmt::format("status {}", response.status);
}

// Reads the events of one answer.
class EventReader {
 public:
  explicit EventReader(ChatTimes& times) : times_(times) {}

  void feed(std::string_view bytes) {
    rest_ += bytes;
    size_t begin = 0;
    for (size_t end = 0; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      std::string_view line(rest_.data() + begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.starts_with("data:")) continue;
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      take(line);
    }
    rest_.erase(0, begin);
    if (rest_.size() > kMostAnswerBytes)
      throw failed("an event of the server is longer than {} bytes", kMostAnswerBytes);
  }

  bool is_done() const { return done_; }
  bool has_usage() const { return has_usage_; }

 private:
  void take(std::string_view data) {
    if (data.starts_with("[DONE]")) {
      done_ = true;
      return;
    }
    const Json chunk = Json::parse(data, nullptr, false);
    if (!chunk.is_object()) throw failed("an event of the server is not a JSON object");
    if (const auto error = chunk.find("error"); error != chunk.end() && !error->is_null()) {
      times_.error =
          error->is_object() && has_text(*error, "message") ? (*error)["message"].get<std::string>() : error->dump();
      return;
    }
    if (const auto choices = chunk.find("choices"); choices != chunk.end() && choices->is_array()) {
      for (const Json& choice : *choices) {
        const auto delta = choice.find("delta");
        if (delta == choice.end() || !delta->is_object()) continue;
        if (has_text(*delta, "content") || has_text(*delta, "reasoning_content") || has_text(*delta, "reasoning"))
          times_.pieces.push_back(seconds_since(times_.sent));
      }
    }
    if (const auto usage = chunk.find("usage"); usage != chunk.end() && usage->is_object()) {
      has_usage_ = true;
      times_.prompt_tokens = usage->value("prompt_tokens", int64_t{0});
      times_.answer_tokens = usage->value("completion_tokens", int64_t{0});
      const auto details = usage->find("prompt_tokens_details");
      if (details != usage->end() && details->is_object())
        times_.cached_tokens = details->value("cached_tokens", int64_t{0});
    }
  }

  ChatTimes& times_;
  std::string rest_;
  bool done_ = false, has_usage_ = false;
};

}  // namespace

std::string server_base(const std::string& url) {
  const size_t scheme = url.find("://");
  if (hub::origin(url).empty() || (!url.starts_with("http://") && !url.starts_with("https://")) ||
      url.find_first_of("?#") != std::string::npos)
    throw bad_input("URL: '{}' is not an address such as http://127.0.0.1:11434", url);
  std::string base = url;
  while (base.ends_with('/')) base.pop_back();
  return base.find('/', scheme + 3) == std::string::npos ? base + "/v1" : base;
}

std::vector<std::string> server_models(const ServerAddress& server, const std::atomic<bool>& stop) {
  hub::HttpClient http(stop);
  std::string body;
  const std::string url = server.base + "/models";
  const hub::HttpResponse response =
      http.get({.url = url, .token = server.key, .range = {}, .most_seconds = 30},
               [&](const auto&, std::span<const std::byte> piece) {
                 body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
                 if (body.size() > kMostAnswerBytes)
                   throw failed("{}: the list is longer than {} bytes", url, kMostAnswerBytes);
               });
  if (response.status != 200) throw failed("{}: {}", url, error_text(response));
  const Json list = Json::parse(body, nullptr, false);
  std::vector<std::string> names;
  if (list.is_object() && list.contains("data") && list["data"].is_array()) {
    for (const Json& row : list["data"]) {
      if (row.is_object() && has_text(row, "id")) names.push_back(row["id"].get<std::string>());
    }
  }
  if (names.empty()) throw failed("{}: the server has no models", url);
  return names;
}

ChatTimes ServeClient::chat(const ChatRequest& request) {
  Json body = {{"model", server_.model},
               {"messages", Json::array({{{"role", "user"}, {"content", request.prompt}}})},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}},
               {"max_tokens", request.answer_tokens},
               {"seed", request.seed}};
  if (request.temperature) body["temperature"] = *request.temperature;
  if (request.top_p) body["top_p"] = *request.top_p;
  if (request.top_k) body["top_k"] = *request.top_k;
  if (!request.ends_itself) body["ignore_eos"] = true;
  ChatTimes times;
  EventReader events(times);
  const hub::HttpRequest http{.url = server_.base + "/chat/completions",
                              .token = server_.key,
                              .range = {},
                              .stall_seconds = 0,
                              .most_seconds = request.most_seconds,
                              .json = body.dump()};
  times.sent = BenchClock::now();
  try {
    const hub::HttpResponse response = http_.post(http, [&](const auto&, std::span<const std::byte> piece) {
      events.feed({reinterpret_cast<const char*>(piece.data()), piece.size()});
    });
    if (response.status != 200) {
      times.error = error_text(response);
    } else if (!events.is_done() && times.error.empty()) {
      times.error = "the stream ended too early";
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInterrupted) throw;
    times.error = error.what();
  } catch (const nlohmann::json::exception& error) {  // a field of another type than OpenAI's
    times.error = error.what();
  }
  times.end = seconds_since(times.sent);
  if (times.is_whole() && !events.has_usage()) {
    times.counted_pieces = true;
    times.answer_tokens = std::ssize(times.pieces);
  }
  if (times.is_whole() && times.pieces.empty()) times.error = "the answer has no text";
  return times;
}

}  // namespace gabbro::cli
