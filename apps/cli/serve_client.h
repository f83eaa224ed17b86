// Streamed chat requests to a server that speaks OpenAI's dialect, with the time of each piece.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/hub/http.h"

namespace gabbro::cli {

using BenchClock = std::chrono::steady_clock;

struct ServerAddress {
  std::string base;  // "http://127.0.0.1:11434/v1"
  std::string key;   // empty: none
  std::string model;
};

// "http://host:port" with /v1, unless a path is there. Throws bad_input for other texts.
std::string server_base(const std::string& url);

// The names of the server's models. Throws HttpError, or failed() for an answer that is none.
std::vector<std::string> server_models(const ServerAddress& server, const std::atomic<bool>& stop);

struct ChatRequest {
  std::string prompt;
  int answer_tokens;
  bool ends_itself = false;                      // at the model's end of text; else `answer_tokens` are generated
  std::optional<double> temperature{}, top_p{};  // none: the server's
  std::optional<int> top_k{};
  uint64_t seed = 0;
  long most_seconds = 600;
};

// Times are seconds from the sending on.
struct ChatTimes {
  BenchClock::time_point sent{};
  std::vector<double> pieces{};  // with text or thoughts
  double end = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0;
  bool counted_pieces = false;  // the server told no usage: a piece counts as a token
  std::string error{};          // empty: the answer is whole

  bool is_whole() const { return error.empty(); }
};

// One connection. Used by one thread.
class ServeClient {
 public:
  ServeClient(const ServerAddress& server, const std::atomic<bool>& stop) : server_(server), http_(stop) {}
  // Errors of the server and of the connection are in the result. Throws kInterrupted.
  ChatTimes chat(const ChatRequest& request);

 private:
  const ServerAddress& server_;
  hub::HttpClient http_;
};

}  // namespace gabbro::cli
