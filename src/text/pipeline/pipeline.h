// A tokenizer as tokenizer.json describes it: added tokens, normalizer, steps that cut words, model, decoder.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/text/models/codec.h"
#include "src/text/models/memory_pool.h"
#include "src/text/models/word_model.h"
#include "src/text/pipeline/added_tokens.h"
#include "src/text/pipeline/decoder.h"
#include "src/text/pipeline/normalizer.h"
#include "src/text/pipeline/split_step.h"

namespace gabbro::text {

struct PipelineParts {
  std::unique_ptr<const Normalizer> normalizer;  // may be null
  std::vector<std::unique_ptr<const SplitStep>> steps;
  std::unique_ptr<WordModel> model;
  Decoder decoder;
  std::vector<AddedToken> added;
};

class Pipeline final : public Codec {
 public:
  Pipeline(PipelineParts parts, const Vocabulary& vocabulary);
  ~Pipeline() override;

  void encode(const CodecText& text, std::vector<int32_t>& out) const override;
  std::vector<Fragment> split_special(std::string_view text) const override;
  std::unique_ptr<Stream> decode(DecodeMode mode) const override;
  void append_piece(int32_t id, std::string& out) const override;

 private:
  class Worker;
  class DecodeStream;

  // Text between added tokens. Long texts are cut where no token can cross and go to several threads; the tokens are
  // the same (pipeline_parallel.cc).
  void encode_fragment(std::string_view text, bool at_origin, bool plain, size_t threads, Worker& worker,
                       std::vector<int32_t>& out) const;
  bool encode_chunks(std::string_view text, bool at_origin, bool plain, size_t chunks, std::vector<int32_t>& out) const;
  bool encode_matches(std::string_view text, bool at_origin, bool plain, size_t chunks,
                      std::vector<int32_t>& out) const;
  size_t next_cut(std::string_view text, size_t from) const;

  std::unique_ptr<Worker> take_worker() const;
  std::string_view decoder_text(int32_t id) const;

  PipelineParts parts_;
  const Vocabulary& vocabulary_;
  AddedTokens added_;
  std::unordered_map<int32_t, std::string> spellings_;  // of added tokens that the normalizer changes

  mutable MemoryPool<Worker> workers_;
};

}  // namespace gabbro::text
