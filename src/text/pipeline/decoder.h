// Decoders of tokenizer.json: from the texts of tokens to the text that they stand for, also while tokens arrive.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/json_node.h"

namespace gabbro::text {

// A step of a decoder at work on one text. Takes and passes on a list of strings, each in one part or in several.
class DecodeStage {
 public:
  using Output = std::function<void(std::string_view part, bool ends)>;
  virtual ~DecodeStage() = default;
  virtual void take(std::string_view part, bool ends, const Output& out) = 0;
  // The end of the list. Text that was held back goes to `out`.
  virtual void finish(const Output& out) = 0;
};

// The steps of a decoder. May be used by several threads at once.
class Decoder {
 public:
  using MakeStage = std::function<std::unique_ptr<DecodeStage>()>;

  // Joins tokens with spaces between: what `tokenizers` does without a decoder.
  Decoder();
  // The decoder of a node {"type": ...}. Throws bad_input that names the path.
  explicit Decoder(const JsonNode& node);
  explicit Decoder(std::vector<MakeStage> stages) : stages_(std::move(stages)) {}

  bool has_byte_fallback() const { return has_byte_fallback_; }

  class Stream {
   public:
    explicit Stream(const Decoder& decoder);
    Stream(const Stream&) = delete;  // the stages refer to it
    Stream& operator=(const Stream&) = delete;
    // The text that has become certain. It may end within a character where tokens are bytes.
    std::string push(std::string_view token);
    std::string finish();

   private:
    void pass(size_t stage, std::string_view part, bool ends);

    std::vector<std::unique_ptr<DecodeStage>> stages_;
    std::vector<DecodeStage::Output> outputs_;
    std::string out_;
  };

 private:
  void append(const JsonNode& node);

  std::vector<MakeStage> stages_;
  bool has_byte_fallback_ = false;
};

}  // namespace gabbro::text
