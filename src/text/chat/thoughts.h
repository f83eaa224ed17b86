// Splits an answer that thinks aloud, "<think>...</think>answer", while it is generated.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::text {

struct AnswerPiece {
  std::string text;
  bool is_thought = false;
};

// How a family of models writes thoughts.
struct ThoughtForm {
  std::string_view open = "<think>", close = "</think>";
  bool is_harmony = false;  // in the channels of gpt-oss
  bool is_known = false;    // the template has the tags
};

// The text with which a model closes its thoughts and begins the answer.
std::string closing_of(const ThoughtForm& form);

// The text with which it closes them and begins an answer or a call; empty: closing_of() does so.
std::string soft_closing_of(const ThoughtForm& form);

// The form that a chat template teaches; "<think>" where it shows none.
ThoughtForm thought_form(std::string_view template_source);

// The names of control tokens that a vocabulary may have for the tags: the splitter has to see them.
std::vector<std::string> thought_controls(const ThoughtForm& form);

class HarmonySplitter;  // src/text/chat/harmony_splitter.h

class ThoughtSplitter {
 public:
  enum class Mode {
    kOff,     // all of it is the answer
    kDetect,  // thoughts begin where the answer begins with the tag
    kOpen     // the prompt ended with the tag: it begins with thoughts
  };
  explicit ThoughtSplitter(Mode mode, ThoughtForm form = {});
  ~ThoughtSplitter();
  ThoughtSplitter(ThoughtSplitter&&) noexcept;

  // Returns the text that is certain after this piece. White space around the tags is left out. The pieces of all calls
  // together are the same for every cut of the text. Channels are split in every mode.
  std::vector<AnswerPiece> feed(std::string_view text);
  std::vector<AnswerPiece> finish();

 private:
  enum class State { kStart, kThoughtStart, kThought, kAnswerStart, kAnswer };
  void advance(std::vector<AnswerPiece>& pieces, bool at_end);
  void advance_thought(std::vector<AnswerPiece>& pieces, bool at_end);

  const ThoughtForm form_;
  State state_;
  std::string pending_;
  std::unique_ptr<HarmonySplitter> channels_;  // of harmony; else null
};

// How the thoughts of an answer are found.
struct ThoughtReading {
  ThoughtSplitter::Mode mode = ThoughtSplitter::Mode::kOff;
  ThoughtForm form{};
};

// Whether a rendered prompt ends with the open tag.
bool ends_with_open_thought(std::string_view prompt, const ThoughtForm& form = {});

}  // namespace gabbro::text
