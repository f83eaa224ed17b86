#include "gabbro/engine/generate.h"

#include <optional>

#include "src/engine/request.h"
#include "src/engine/scheduler.h"
#include "src/engine/session_state.h"

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
  Scheduler scheduler(session.state_->runner.engine(), {.drafter = options.drafter});
  std::optional<Error> failure;
  scheduler.add(request, &session.state_->sequence, [&](const Error* error) {
    if (error != nullptr) failure = *error;
  });
  while (scheduler.step(cancel)) {
  }
  if (failure) throw *failure;
  return request.take();
}

}  // namespace gabbro
