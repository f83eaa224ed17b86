// The inside of Pipeline: one thread at work. Private to pipeline*.cc.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/text/pipeline/pipeline.h"
#include "src/text/pipeline/word_cache.h"

namespace gabbro::text {

// One thread's way from a piece of text to tokens.
class Pipeline::Worker {
 public:
  explicit Worker(const Pipeline& pipeline) : parts_(pipeline.parts_), memory_(parts_.model->make_memory()) {
    matchers_.resize(parts_.steps.size());
    for (size_t i = 0; i < parts_.steps.size(); ++i) sinks_.emplace_back(*this, i);
  }

  void encode(std::string_view text, bool at_origin, bool plain, std::vector<int32_t>& out) {
    begin(plain, out);
    run(0, {text, at_origin});
    end();
  }

  // In parts: run() gives a piece to a step and those after it.
  void begin(bool plain, std::vector<int32_t>& out) {
    plain_ = plain;
    out_ = &out;
    for (size_t i = 0; i < parts_.steps.size(); ++i) {
      matchers_[i].reset();
      if (const Regex* regex = parts_.steps[i]->regex()) matchers_[i].emplace(*regex);
    }
  }
  void run(size_t step, const Piece& piece) {
    if (piece.text.empty()) return;
    if (step < parts_.steps.size()) return parts_.steps[step]->split(piece, sinks_[step]);
    const auto encode = [&](std::vector<int32_t>& out) { parts_.model->encode(piece.text, plain_, *memory_, out); };
    if (plain_) return encode(*out_);
    cache_.append(piece.text, *out_, encode);
  }
  void end() { kept_.clear(); }

 private:
  // Takes the pieces of step `step`.
  class Sink final : public PieceSink {
   public:
    Sink(Worker& worker, size_t step) : worker_(worker), step_(step) {}
    void take(const Piece& piece) override { worker_.run(step_ + 1, piece); }
    std::string_view keep(std::string text) override { return worker_.kept_.emplace_back(std::move(text)); }
    Regex::Matcher& matcher() override { return *worker_.matchers_[step_]; }

   private:
    Worker& worker_;
    size_t step_;
  };

  const PipelineParts& parts_;
  std::unique_ptr<ModelMemory> memory_;
  std::vector<std::optional<Regex::Matcher>> matchers_;  // of the steps that have one
  std::deque<Sink> sinks_;
  std::deque<std::string> kept_;
  WordCache cache_;
  std::vector<int32_t>* out_ = nullptr;
  bool plain_ = false;
};

}  // namespace gabbro::text
