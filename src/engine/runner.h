// One pass of a model over tokens of several sequences: chunks of prompts and single tokens, mixed as they come.
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

// Steps of one token per sequence are padded to 1, 2, 4, 8 ... sequences, for each of which a plan is replayed. Within
// one of these sizes the logits of a sequence are the same to the bit, whatever the others are. Not thread-safe; the
// runners and sequences of one engine take turns.
class Runner {
 public:
  explicit Runner(std::shared_ptr<Engine> engine);
  // With other passes than the engine's.
  Runner(std::shared_ptr<Engine> engine, ModelPass& pass);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  int64_t prompt_chunk() const;  // tokens of prompts that the device computes well in one step, of all sequences

  // Steps of one token per sequence are padded to `sequences` at least.
  void pad_steps(int64_t sequences) { padded_ = sequences; }
  // Stores pages of texts in a folder, and takes them over from there; see PageStore. `mode` tells runs apart whose
  // pages are not to be mixed. Models with recurrent states or an encoder have no such pages. Throws as PageStore.
  void open_store(PageStoreOptions options, const std::string& mode);
  // Whether the cache has pages for a text of `tokens` tokens, and `reserve` pages more.
  bool has_pages(int64_t tokens, int64_t reserve) const;

  bool encodes_texts() const;            // of an encoder-decoder
  void require_unchanged_files() const;  // throws bad_input where the weights are no longer those that were loaded
  bool rotates_by_length() const;        // keys of a text by its length: src/models/llm/text_rotations.h

  // How many tokens can be appended to the sequence before the rotation of its keys changes.
  int64_t rotation_room(const Sequence& sequence) const;
  // How many tokens after the next one can be computed before it is known that they are right: they may be cut again.
  int64_t draft_room(const Sequence& sequence) const;
  DraftDefaults draft_defaults() const { return pass_.draft_defaults(); }

  // Appends the tokens of each chunk to its sequence, and returns the wanted logits [R, V] in the order of chunks and
  // tokens, valid until the next step. A sequence that is there twice, an id outside of the vocabulary or more tokens
  // than the context holds: bad_input; no page for one of them: CacheFull. When `cancel` becomes true: kInterrupted
  // within 100 ms. Whatever throws, the sequences are as before.
  std::span<const float> step(std::span<const Chunk> chunks, const std::atomic<bool>* cancel = nullptr);

  // The same, but of each wanted row the id of its largest logit, the lowest of equals; -1 where no logit is a number.
  // On a GPU the logits stay there. `goes_on`: the next step is to append these ids to the same sequences. A GPU gets
  // it before this call waits, so that it computes without a pause; any other step may follow all the same.
  std::span<const int32_t> step_greedy(std::span<const Chunk> chunks, const std::atomic<bool>* cancel = nullptr,
                                       bool goes_on = false);
  // The same, with the ids that these samplers choose: one for each wanted row, null for the largest logit. Where a
  // sampler has a step that the device has not (Sampler::row), the logits of its row alone come to the host. The next
  // step is queued, as above, if no choice depends on the token before. The caller calls accept().
  std::span<const int32_t> step_tokens(std::span<const Chunk> chunks, std::span<Sampler* const> samplers,
                                       const std::atomic<bool>* cancel = nullptr, bool goes_on = false);
  // Steps that were there already when they were asked for, for tests.
  int64_t steps_queued_before() const { return steps_queued_before_; }

  // Computes what the cache no longer has of the sequence's tokens, as its next step would; see Sequence.
  void restore(Sequence& sequence, const std::atomic<bool>* cancel = nullptr);

  // The same as step() of many tokens of one sequence, in steps of `chunk_tokens`. `rows` are kLast or kAll;
  // visit(logits) gets those of each step.
  void append(Sequence& sequence, std::span<const int32_t> tokens, int64_t chunk_tokens, Chunk::Rows rows,
              const std::atomic<bool>* cancel, const std::function<void(std::span<const float>)>& visit);

 private:
  friend class TreeRunner;
  // Tokens of a sequence from a position on.
  struct Part {
    const Sequence* sequence;
    std::span<const int32_t> tokens;
    int64_t position;
    int64_t wanted;  // rows: those of the last tokens
  };

  // Makes the step: decode_one() where it is one token for each sequence, or finish(logits, rows) with logits [rows,
  // V], undefined where none are wanted.
  void run_step(std::span<const Chunk> chunks, const std::atomic<bool>* cancel, const std::function<void()>& decode_one,
                const std::function<void(const Tensor& logits, int64_t rows)>& finish);
  // The rotation of the sequence with the chunk's tokens.
  int64_t rotation_with(const Chunk& chunk) const;
  static bool has_one_rotation(std::span<Sequence* const> sequences);
  // forward() of parts whose sequences may have different rotations.
  Tensor forward_each_rotation(std::span<const Part> parts, const std::atomic<bool>* cancel);
  std::span<const int32_t> largest(const Tensor& logits, int64_t rows, const std::atomic<bool>* cancel);
  // Fills greedy_ on a device with its own memory; false where the logits have to come to the host.
  bool find_largest(const Tensor& logits, int64_t rows, const std::atomic<bool>* cancel);
  bool take_found(std::span<const int32_t> ids);  // false where one is -1
  void compute_again(std::span<Sequence* const> sequences, const std::atomic<bool>* cancel);
  // The step of their size, with their ids.
  DecodeStep& begin_decode(std::span<const Chunk> chunks, const std::atomic<bool>* cancel);
  // Its other inputs, `after` tokens behind those that the sequences hold. Returns the page tables.
  std::vector<std::vector<int32_t>> fill_places(DecodeStep& step, std::span<const Chunk> chunks, int64_t after);
  Tensor decode(std::span<const Chunk> chunks, const std::atomic<bool>* cancel);
  std::span<const int32_t> decode_greedy(std::span<const Chunk> chunks, bool goes_on, const std::atomic<bool>* cancel);
  std::span<const int32_t> decode_sampled(std::span<const Chunk> chunks, std::span<Sampler* const> samplers,
                                          bool goes_on, const std::atomic<bool>* cancel);
  // The ids that the device finds for `rows`; the step after this one is queued if there are next_rows.
  std::vector<int32_t> decode_ids(std::span<const Chunk> chunks, std::span<const sampling::Row> rows,
                                  std::span<const sampling::Row> next_rows, const std::atomic<bool>* cancel);
  QueuedStep queue(DecodeStep& step, std::span<const Chunk> chunks, std::span<const sampling::Row> rows, int64_t after,
                   const std::atomic<bool>* cancel);
  // Samples the rows of logits, on the device where it can.
  std::span<const int32_t> sample(const Tensor& logits, std::span<Sampler* const> samplers,
                                  const std::atomic<bool>* cancel);
  // The rows of the chunks in what is queued, which is left; nothing where it is another step.
  std::vector<size_t> rows_in_queued(std::span<const Chunk> chunks, std::span<const sampling::Row> rows) const;
  bool has_room_after(std::span<const Chunk> chunks) const;
  bool take_pages_after(std::span<const Chunk> chunks);
  // Whether the device chooses the tokens of a step of single tokens.
  bool chooses_on_device(std::span<const sampling::Row> rows) const;
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
