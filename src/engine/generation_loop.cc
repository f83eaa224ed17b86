#include "src/engine/generation_loop.h"

#include <exception>
#include <functional>
#include <optional>

namespace gabbro {
namespace {

class OneAnswer final : public Channel {
 public:
  explicit OneAnswer(const std::function<void(std::string_view)>& on_text) : on_text_(on_text) {}
  void text(std::string_view piece) override {
    if (on_text_) on_text_(piece);
  }
  void finished(GenerateResult result) override { result_ = std::move(result); }
  void failed(const Error& error) override { error_ = error; }

  bool ended() const { return result_ || error_; }
  GenerateResult take() {
    if (error_) throw *error_;
    return std::move(*result_);
  }

 private:
  const std::function<void(std::string_view)>& on_text_;
  std::optional<GenerateResult> result_;
  std::optional<Error> error_;
};

}  // namespace

GenerateResult generate(GenerationLoop& loop, GenerationRequest request,
                        const std::function<void(std::string_view)>& on_text, const std::atomic<bool>* cancel) {
  const auto answer = std::make_shared<OneAnswer>(on_text);
  loop.add(std::move(request), answer);
  while (!answer->ended()) loop.step(cancel);
  return answer->take();
}

}  // namespace gabbro
