// One sequence of tokens on an Engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "gabbro/engine/engine.h"

namespace gabbro {

struct GenerateOptions;  // gabbro/engine/generate.h
struct GenerateResult;

}  // namespace gabbro

#pragma GCC visibility push(default)
namespace gabbro {

// One sequence. Not thread-safe; the sessions of one engine take turns.
class Session {
 public:
  explicit Session(std::shared_ptr<Engine> engine);
  ~Session();

  const Engine& engine() const;

  // Appends tokens and returns the logits [V] after the last one, valid until the next call. An id outside the
  // vocabulary or more tokens than the context holds: bad_input. When `cancel` becomes true: Error kInterrupted within
  // 100 ms, and the session holds the tokens it held before the call.
  std::span<const float> append(std::span<const int32_t> tokens, const std::atomic<bool>* cancel = nullptr);

  // As append(), but returns the logits of each of `tokens`: [tokens, V].
  std::span<const float> append_all_logits(std::span<const int32_t> tokens, const std::atomic<bool>* cancel = nullptr);

  // Some models rotate keys by the length of a text (LongRoPE, dynamic NTK). A text that is appended in one call is
  // computed as one forward pass over all of it computes it; where a text that grows needs another rotation, the
  // session computes its tokens again. `length`: tokens that the text will have after several calls; 0: not known.
  void expect(int64_t length);
  // How many tokens can be appended before the rotation changes.
  int64_t rotation_room() const;

  // Forgets all but the first `length` tokens.
  void truncate(int64_t length);
  std::span<const int32_t> tokens() const;

 private:
  friend GenerateResult generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                                 const std::function<void(std::string_view)>& on_text, const std::atomic<bool>* cancel);
  struct [[gnu::visibility("hidden")]] State;
  std::unique_ptr<State> state_;
};

}  // namespace gabbro
#pragma GCC visibility pop
