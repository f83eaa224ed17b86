#include "gabbro/engine/generate.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/engine/request.h"

namespace gabbro {

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kEndOfGeneration:
      return "eos";
    case StopReason::kMaxTokens:
      return "length";
    case StopReason::kStopText:
      return "stop";
    case StopReason::kContextFull:
      return "context";
    case StopReason::kCanceled:
      return "cancelled";
  }
  return "unknown";
}

GenerateResult generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                        const std::function<void(std::string_view)>& on_text, const std::atomic<bool>* cancel) {
  Request request(session.engine(), {prompt.begin(), prompt.end()}, options, on_text);
  // The common beginning is kept; the last token always runs, for its logits.
  const auto held = session.tokens();
  const auto [differs, unused] = std::mismatch(prompt.begin(), prompt.end() - 1, held.begin(), held.end());
  session.truncate(differs - prompt.begin());
  request.skip(differs - prompt.begin());
  try {
    while (!request.finished()) {
      const std::span<const int32_t> tokens = request.pending();
      const std::span<const float> logits = session.append(tokens, cancel);
      if (cancel != nullptr && *cancel) {
        request.cancel();
      } else {
        request.appended(tokens.size(), logits);
      }
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) throw;
    request.cancel();
  }
  return request.take();
}

}  // namespace gabbro
