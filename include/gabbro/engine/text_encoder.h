// A loaded text encoder: vectors of texts, and scores of documents for a query.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gabbro/engine/session.h"

#pragma GCC visibility push(default)
namespace gabbro {

struct TextEncoderFacts {
  std::string name;                            // general.name, or the file's name
  std::string architecture;                    // "bert"
  std::string pooling;                         // "mean", "cls", "last", "max" or "rank"
  bool normalized = true;                      // vectors have length 1 where no option says another
  int64_t dimensions = 0;                      // of a vector
  int64_t most_tokens = 0;                     // of a text
  int64_t labels = 0;                          // of the classifier; 0: there is none
  std::map<std::string, std::string> prompts;  // texts that stand before others, by name: "query"
  std::string default_prompt;                  // the name of one of them, or empty
  uint64_t file_bytes = 0;
  std::string device_id, device_name;
  std::vector<std::string> warnings;
  int threads = 0;
};

struct EmbedOptions {
  std::string pooling;               // as in the facts; empty: the model's own
  std::optional<bool> normalized{};  // to length 1; none: the model's own
  std::string prompt;                // a text that stands before each; the facts' default_prompt is not added unasked
  int64_t dimensions = 0;            // the first of each vector (Matryoshka: Kusupati et al. 2022); 0: all
  int64_t batch = 32;                // texts that are computed together, at most
  bool truncated = false;            // cut texts that are too long; else they are refused
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(double)> progress{};  // called with the fraction of the texts that is done
};

struct RerankOptions {
  bool raw = false;         // the classifier's logits, else what the model's files make of them: sigmoid by default
  std::string instruction;  // of models that take one; empty: their own
  int64_t batch = 32;
  bool truncated = false;
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(double)> progress{};
};

// A text as token ids, with those that begin and end it.
struct TokenizedText {
  std::vector<int32_t> ids;
  std::vector<int32_t> types{};  // of each token: 1 in the second text of a pair; empty: all 0
  int64_t prompt = 0;            // tokens at the beginning that are the prompt's
};

class TextEncoder {
 public:
  // Device, threads, check_weights and progress of LoadOptions count; a kv_type other than f32 is refused, since an
  // encoder keeps no keys and values. Throws bad_input that names the file and the field for one that is not an encoder
  // we can run; kNoDevice as Engine::load.
  static std::shared_ptr<TextEncoder> load(const std::string& path, const LoadOptions& options);
  static std::shared_ptr<TextEncoder> load(const Checkpoint& checkpoint, const LoadOptions& options);
  ~TextEncoder();

  const TextEncoderFacts& facts() const;

  // Vectors of texts, row-major [texts, dimensions]; a reranker has none but by a pooling in `options`. Texts of any
  // lengths are computed together without padding: a text's vector does not depend on the others but by the rounding of
  // products of other sizes, which is 1e-6 relative with weights in f32 and 1e-2 with others. Throws bad_input that
  // names the text (from 1 on) that is too long; kInterrupted.
  std::vector<float> embed(std::span<const std::string> texts, const EmbedOptions& options = {});
  // How well each document answers the query: one score each. Throws bad_input for a model that has no classifier with
  // one label; and as above.
  std::vector<float> rerank(const std::string& query, std::span<const std::string> documents,
                            const RerankOptions& options = {});
  // As above, from token ids. Throws bad_input for an id outside the vocabulary, and as above.
  std::vector<float> embed_tokens(std::span<const TokenizedText> texts, const EmbedOptions& options = {});
  std::vector<float> score_tokens(std::span<const TokenizedText> pairs, const RerankOptions& options = {});

 private:
  struct [[gnu::visibility("hidden")]] State;
  explicit TextEncoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gabbro
#pragma GCC visibility pop
