// One pass of a model over tokens of several sequences: prompt chunks and single tokens, mixed in any order.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gabbro/engine/engine.h"
#include "src/engine/host_copy.h"
#include "src/engine/model_pass.h"
#include "src/engine/sampling/row.h"
#include "src/engine/sequence.h"

namespace gabbro {

class DecodeStep;   // decode_step.h
struct QueuedStep;  // decode_step.h

// Tokens to append to a sequence, and the rows of logits that are wanted.
struct Chunk {
  enum class Rows { kNone, kLast, kAll };

  Sequence* sequence = nullptr;
  std::span<const int32_t> tokens;
  Rows rows = Rows::kLast;

  int64_t wanted() const { return rows == Rows::kAll ? std::ssize(tokens) : rows == Rows::kLast ? 1 : 0; }
};

// Throws bad_input where `more` cannot be appended to a sequence of `length` tokens.
void check_room(const Engine& engine, int64_t length, std::span<const int32_t> more);

// Steps of one token per sequence are padded to 1, 2, 4, 8 ... sequences, with one plan for each size. Within one of
// these sizes the logits of a sequence are bit-identical, whatever the other sequences are. Not thread-safe; the
// runners and sequences of one engine take turns.
class Runner {
 public:
  explicit Runner(std::shared_ptr<Engine> engine);
  // With passes other than the engine's.
  Runner(std::shared_ptr<Engine> engine, ModelPass& pass);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  int64_t prompt_chunk() const;  // tokens of prompts that the device computes well in one step, of all sequences

  // Pads steps of one token per sequence to at least `sequences`.
  void pad_steps(int64_t sequences) { padded_ = sequences; }
  // Stores pages of texts in a folder and reads them from there; see PageStore. `mode` separates runs whose pages must
  // not be mixed. Models with recurrent states or an encoder have no such pages. Throws as PageStore.
  void open_store(PageStoreOptions options, const std::string& mode);
  // A sequence that others have to leave pages for, until it has `length` tokens.
  struct Growth {
    const Sequence* sequence;
    int64_t length;
  };
  // Takes memory from the device for pages of a further text of `tokens` tokens and of sequences that grow. Throws
  // OutOfMemory where there are too few pages.
  void reserve_pages(int64_t tokens, std::span<const Growth> others = {}) const;

  bool encodes_texts() const;            // of an encoder-decoder
  void require_unchanged_files() const;  // throws bad_input where the weights are no longer those that were loaded
  bool rotates_by_length() const;        // keys of a text by its length: src/models/llm/text_rotations.h

  // The number of tokens that can be appended to the sequence before the rotation of its keys changes.
  int64_t rotation_room(const Sequence& sequence) const;
  // The number of draft tokens that can be computed after the next token: they may be cut again.
  int64_t draft_room(const Sequence& sequence) const;
  DraftDefaults draft_defaults() const { return pass_.draft_defaults(); }

  // Appends the tokens of each chunk to its sequence, and returns the wanted logits [R, V] in the order of chunks and
  // tokens, valid until the next step. A sequence that is there twice, an id outside of the vocabulary or more tokens
  // than the context holds: bad_input; no page for one of them: CacheFull. When `cancel` becomes true: kInterrupted
  // within 100 ms. After an exception the sequences are as before.
  std::span<const float> step(std::span<const Chunk> chunks, const std::atomic<bool>* cancel = nullptr);

  // As step(), but returns for each wanted row the id of its largest logit (the lowest id of equal logits), or -1 if no
  // logit is a number. On a GPU the logits stay there. `goes_on`: the next step will append these ids to the same
  // sequences. A GPU gets that step before this call waits, so that it computes without a pause; another step may
  // follow all the same.
  std::span<const int32_t> step_greedy(std::span<const Chunk> chunks, const std::atomic<bool>* cancel = nullptr,
                                       bool goes_on = false);
  // As step_greedy(), with the ids that these samplers choose: one sampler for each wanted row, null for the largest
  // logit. If a sampler has a step that the device does not have (Sampler::row), only the logits of its row are copied
  // to the host. The next step is queued, as above, if no choice depends on the token before. The caller calls
  // accept().
  std::span<const int32_t> step_tokens(std::span<const Chunk> chunks, std::span<Sampler* const> samplers,
                                       const std::atomic<bool>* cancel = nullptr, bool goes_on = false);
  // Steps that were queued before they were asked for, for tests.
  int64_t steps_queued_before() const { return steps_queued_before_; }

  // Computes the tokens of the sequence that the cache no longer has, as its next step would; see Sequence.
  void restore(Sequence& sequence, const std::atomic<bool>* cancel = nullptr);

  // As step() with many tokens of one sequence, in steps of `chunk_tokens`. `rows` are kLast or kAll; visit(logits)
  // gets the logits of each step.
  void append(Sequence& sequence, std::span<const int32_t> tokens, int64_t chunk_tokens, Chunk::Rows rows,
              const std::atomic<bool>* cancel, const std::function<void(std::span<const float>)>& visit);

 private:
  friend class TreeRunner;
  // Tokens of a sequence from a position on.
  struct Part {
    const Sequence* sequence;
    std::span<const int32_t> tokens;
    int64_t position;
    int64_t wanted;  // rows of logits, of the last tokens
  };

  // Runs the step: decode_one() for one token per sequence, otherwise finish(logits, rows) with logits [rows, V],
  // undefined if no rows are wanted.
  void run_step(std::span<const Chunk> chunks, const std::atomic<bool>* cancel, const std::function<void()>& decode_one,
                const std::function<void(const Tensor& logits, int64_t rows)>& finish);
  // The rotation of the sequence with the chunk's tokens.
  int64_t rotation_with(const Chunk& chunk) const;
  static bool has_one_rotation(std::span<Sequence* const> sequences);
  // forward() of chunks whose sequences may have different rotations.
  Tensor forward_each_rotation(std::span<const Part> parts, const std::atomic<bool>* cancel);
  std::span<const int32_t> largest(const Tensor& logits, int64_t rows, const std::atomic<bool>* cancel);
  // Fills greedy_ on a device with its own memory. Returns false if the logits must be copied to the host.
  bool find_largest(const Tensor& logits, int64_t rows, const std::atomic<bool>* cancel);
  bool take_found(std::span<const int32_t> ids);  // false if one is -1
  void compute_again(std::span<Sequence* const> sequences, const std::atomic<bool>* cancel);
  // The step for this number of sequences, with their ids.
  DecodeStep& begin_decode(std::span<const Chunk> chunks, const std::atomic<bool>* cancel);
  // Its other inputs, `after` tokens after the computed ones. Returns the page tables.
  std::vector<std::vector<int32_t>> fill_places(DecodeStep& step, std::span<const Chunk> chunks, int64_t after);
  Tensor decode(std::span<const Chunk> chunks, const std::atomic<bool>* cancel);
  std::span<const int32_t> decode_greedy(std::span<const Chunk> chunks, bool goes_on, const std::atomic<bool>* cancel);
  std::span<const int32_t> decode_sampled(std::span<const Chunk> chunks, std::span<Sampler* const> samplers,
                                          bool goes_on, const std::atomic<bool>* cancel);
  // The ids that the device finds for `rows`. Queues the next step if there are next_rows.
  std::vector<int32_t> decode_ids(std::span<const Chunk> chunks, std::span<const sampling::Row> rows,
                                  std::span<const sampling::Row> next_rows, const std::atomic<bool>* cancel);
  QueuedStep queue(DecodeStep& step, std::span<const Chunk> chunks, std::span<const sampling::Row> rows, int64_t after,
                   const std::atomic<bool>* cancel);
  // Samples the rows of logits, on the device where it can.
  std::span<const int32_t> sample(const Tensor& logits, std::span<Sampler* const> samplers,
                                  const std::atomic<bool>* cancel);
  // The rows of the chunks in the queued step, which is removed. Empty if another step is queued.
  std::vector<size_t> rows_in_queued(std::span<const Chunk> chunks, std::span<const sampling::Row> rows) const;
  bool has_room_after(std::span<const Chunk> chunks) const;
  bool take_pages_after(std::span<const Chunk> chunks);
  // Whether the device chooses the tokens of a step with one token per sequence.
  bool chooses_on_device(std::span<const sampling::Row> rows) const;
  bool takes_masks() const;
  Tensor forward(std::span<const Part> parts, const std::atomic<bool>* cancel);
  std::span<const float> host(const Tensor& logits, int64_t rows, const std::atomic<bool>* cancel);

  std::shared_ptr<Engine> engine_;
  ModelPass& pass_;
  int64_t padded_ = 1;
  Tensor logits_;                // of the last step
  HostCopy copy_;                // of the step's result
  std::vector<int32_t> greedy_;  // of step_greedy() and step_tokens()
  int64_t steps_queued_before_ = 0;
};

}  // namespace gabbro
