// One conversation's tokens, its pages of the KV cache and its recurrent states. A Runner (runner.h) computes them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gabbro/engine/engine.h"
#include "gabbro/error.h"
#include "src/engine/cache/page_store.h"
#include "src/engine/cache/prefix.h"
#include "src/engine/cache/state_pool.h"

namespace gabbro {

// The tokens of one conversation, and the pages of the cache that hold their keys and values. A value: a copy shares
// pages until one of the two writes to them. Layers with a window have pages for the last tokens only. A sequence that
// is truncated further finds the missing pages by their names, or computes its tokens again in its next step.
// Recurrent states cannot be shared or cut: a sequence that was copied, cut or stopped within a step computes them
// again from its tokens, in its next step.
// The tokens of the first step are its text, which the encoder of an encoder-decoder reads. A sequence that is
// truncated within the text gets a text again, with the next tokens.
class Sequence;

// The cache has no page for the next tokens of a sequence. Steps without this sequence work.
class CacheFull : public OutOfMemory {
 public:
  CacheFull(const Sequence& sequence, const std::string& message) : OutOfMemory(message), sequence_(&sequence) {}
  const Sequence* sequence() const { return sequence_; }

 private:
  const Sequence* sequence_;
};

class Sequence {
 public:
  explicit Sequence(std::shared_ptr<Engine> engine);
  ~Sequence();
  Sequence(const Sequence& other);
  Sequence(Sequence&&) noexcept;
  Sequence& operator=(Sequence&&) = delete;

  std::span<const int32_t> tokens() const { return tokens_; }
  // Removes all but the first `length` tokens. Throws bad_input if there are fewer.
  void truncate(int64_t length);
  // Takes over whole pages that other or former sequences computed for the same tokens after the same beginning. The
  // tokens of the sequence must be a beginning of `prompt`. The last token of the prompt remains to be computed.
  // `looks_on_disk`: also reads pages of the engine's PageStore. Returns the number of tokens that the sequence has
  // now.
  int64_t reuse(std::span<const int32_t> prompt, bool looks_on_disk = false);
  // Writes its whole pages to the engine's PageStore, if there is one.
  void store_pages();
  // Texts of different trees share no pages. Throws bad_input for a sequence that has tokens.
  void set_tree(const std::string& tree);
  const std::string& tree() const { return tree_; }
  // Whether it holds pages of the cache, and their release: its next step computes its tokens again.
  bool holds_pages() const { return computed_ > 0; }
  void give_up_pages();
  // The final length of the text in tokens, if more tokens than the next step's are known; 0: unknown. Models whose
  // rotation depends on the length of a text compute it with this length from the start.
  void expect(int64_t length) { expected_ = length; }
  // Pages after the first `length` tokens get no names, so that other sequences do not share them.
  void name_up_to(int64_t length);
  int64_t named() const { return named_; }
  // The number of tokens at the beginning of `text` that a cut of the sequence would keep. 0 if they would have to be
  // computed again.
  int64_t beginning_of(std::span<const int32_t> text) const;
  // Its pages of a group of the cache's layers, in the order of their tokens.
  std::span<const int32_t> pages(size_t group) const { return pages_[group].ids; }

 private:
  friend class Runner;
  friend class TreeRunner;
  // The pages of a group of layers, in the order of their tokens.
  struct Pages {
    std::vector<int32_t> ids;  // one more than the tokens need if the next step is queued
    int64_t passed = 0;        // the first ones, before the window: their ids are 0, and they are not held
  };

  int32_t take_page(size_t group);
  void take_pages(int64_t length);
  int64_t missing_pages(size_t group, int64_t length) const;
  void release_pages(int64_t length);
  void abandon_step();  // it failed: its pages are released; states are lost, as some layers may have taken its tokens
  void release_passed();
  void lose_pages();
  void name_pages();
  void computed(int64_t count);
  void find_pages(std::span<const int32_t> text);
  bool find_passed(int64_t length);
  void find_stored_pages(std::span<const int32_t> text);
  int64_t take_stored_pages(std::span<const int32_t> text, int64_t end);
  PageKey key_of(std::span<const int32_t> tokens) const;
  void begin_names();
  void set_rotation(int64_t rotation);
  void add_to_text(int64_t count);
  int64_t first_page(size_t group, int64_t length) const;
  void pass(size_t group, int64_t first);

  std::shared_ptr<Engine> engine_;
  std::vector<int32_t> tokens_;
  std::string tree_;
  int64_t expected_ = 0;
  int64_t named_ = 0;
  int64_t rotation_ = 0;                           // of the computed tokens' keys (src/models/llm/text_rotations.h)
  int64_t computed_ = 0;                           // of these: the first ones, whose keys and values are in the pages
  std::vector<Pages> pages_;                       // by group of the cache's layers
  std::vector<std::shared_ptr<Prefix>> prefixes_;  // of no full page, of one, of two ...
  std::shared_ptr<SequenceState> state_ = std::make_shared<SequenceState>();
  int64_t text_length_ = 0;  // tokens of the first step: an encoder reads them as a whole
};

}  // namespace gabbro
