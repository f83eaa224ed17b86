#include "gabbro/engine/generate.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/engine/request.h"
#include "src/engine/speculation.h"

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

namespace {

// One pass for the last token and the drafted ones after it. Returns how many of them were right.
int verify(Session& session, Request& request, std::span<const int32_t> drafted, const std::atomic<bool>* cancel) {
  std::vector<int32_t> tokens(request.pending().begin(), request.pending().end());
  tokens.insert(tokens.end(), drafted.begin(), drafted.end());
  const int64_t before = std::ssize(session.tokens());
  const std::span<const float> logits = session.append_all_logits(tokens, cancel);
  const size_t row = logits.size() / tokens.size();
  size_t used = 0;
  for (bool right = true; right && !request.finished();) {
    request.appended(1, logits.subspan(used * row, row));
    right = ++used < tokens.size() && !request.finished() && request.pending().front() == tokens[used];
  }
  session.truncate(before + static_cast<int64_t>(used));
  return static_cast<int>(used) - 1;
}

// A pass after the prompt.
void speculate(Session& session, Request& request, Drafter& drafter, DraftLength& length,
               const std::atomic<bool>* cancel) {
  const std::vector<int32_t> text = request.text_so_far();
  const int64_t room = session.engine().facts().context - std::ssize(text);
  const auto count = static_cast<int>(std::min<int64_t>(length.next(), room));
  std::vector<int32_t> drafted;
  if (count > 0) drafted = drafter.propose(text, count, cancel);
  if (drafted.empty()) {
    const std::span<const float> logits = session.append(request.pending(), cancel);
    request.appended(1, logits);
    return request.speculated(0, 0);
  }
  const int right = verify(session, request, drafted, cancel);
  length.seen(static_cast<int>(drafted.size()), right);
  request.speculated(std::ssize(drafted), right);
}

}  // namespace

GenerateResult generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                        const std::function<void(std::string_view)>& on_text, const std::atomic<bool>* cancel) {
  Request request(session.engine(), {prompt.begin(), prompt.end()}, options, on_text);
  // The common beginning is kept; the last token always runs, for its logits.
  const auto held = session.tokens();
  const auto [differs, unused] = std::mismatch(prompt.begin(), prompt.end() - 1, held.begin(), held.end());
  session.truncate(differs - prompt.begin());
  request.skip(differs - prompt.begin());
  const Drafter* const drafts = options.drafter.get();
  DraftLength length(drafts != nullptr ? drafts->most() : 0);
  try {
    while (!request.finished()) {
      if (drafts != nullptr && session.tokens().size() >= prompt.size() && (cancel == nullptr || !*cancel)) {
        speculate(session, request, *options.drafter, length, cancel);
        continue;
      }
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
