// A loaded language model (Engine) and one sequence of tokens on it (Session).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gabbro/dtype.h"

namespace gabbro {

struct SamplingDefaults;  // src/engine/sampling_defaults.h
class Checkpoint;         // src/formats/checkpoint.h
class Runner;             // src/engine/runner.h
struct GenerateOptions;   // gabbro/engine/generate.h
struct GenerateResult;
class Sequence;

namespace llm {
class InputSquares;  // src/models/weights/input_squares.h
}

namespace text {
class Tokenizer;     // src/text/tokenizer.h
class ChatTemplate;  // src/text/chat/chat_template.h
}  // namespace text

}  // namespace gabbro

#pragma GCC visibility push(default)
namespace gabbro {

class Device;  // gabbro/device.h

inline constexpr uint64_t kFreeMemory = UINT64_MAX;  // as a limit: nine tenths of what is free when a model is loaded

// A LoRA adapter: a folder of PEFT, or a GGUF file.
struct AdapterOption {
  std::string path;
  float scale = 1;  // of what it adds; 0: it is loaded, and not applied
};

struct LoadOptions {
  std::string device = "auto";  // as open_device() takes it
  int threads = 0;              // of a CPU device; 0: one per physical core
  int64_t context = 0;          // tokens; 0: the smaller of what the model was trained for and 4096
  int64_t sequences = 1;        // of that context whose keys and values the cache holds together
  // Keys and values: f32, bf16, f16, q8_0 or q4_0. None: f16; of encoder-decoders f32.
  std::optional<DType> kv_type{};
  // Bytes that the model may take on the device (on a CPU: the process), with cache and scratch; 0: no limit. Weights
  // that do not fit are streamed: from `host_memory` bytes of pinned host memory, where the device has its own, and
  // from the file.
  uint64_t memory = 0;
  uint64_t host_memory = 0;
  bool check_weights = true;              // refuse values that are not numbers, in weights that loading reads anyway
  std::string quantize;                   // plain weights to this file type, "q4_k_m", while loading; empty: unchanged
  std::vector<AdapterOption> adapters{};  // that are applied together
  std::shared_ptr<const text::ChatTemplate> chat_template{};  // in place of the file's own; null: none
  std::function<void(double)> progress{};         // called with the fraction of the weights that is loaded, 0..1
  std::shared_ptr<llm::InputSquares> observer{};  // sees the inputs of all matrices, for an importance matrix
};

// Weights that do not stay on the device; all 0 where they do.
struct StreamingFacts {
  uint64_t memory = 0;               // the limit
  uint64_t planned_bytes = 0;        // of it, at most
  uint64_t resident_bytes = 0;       // weights on the device
  uint64_t host_bytes = 0;           // weights in pinned host memory
  int64_t cpu_layers = 0;            // whose feed-forward blocks the CPU computes, from host memory,
  int64_t cpu_tokens = 0;            // in passes of at most this number of tokens,
  uint64_t cpu_bytes = 0;            // and which those passes do not move
  double cpu_seconds = 0;            // predicted for them, in a pass of one token
  uint64_t expert_bytes = 0;         // room on the device for experts that are read when a token needs them
  uint64_t bytes_per_pass = 0;       // weights that each pass over the model moves; the experts of one token
  uint64_t file_bytes_per_pass = 0;  // of these, from files
  std::string link;                  // that bounds a pass: "file (io_uring, direct)"
  double bandwidth = 0;              // of it, bytes per second as measured
  double seconds_per_pass = 0;       // predicted: bytes over bandwidth of that link
};

// Passes over streamed weights so far.
struct StreamingWork {
  uint64_t passes = 0;
  uint64_t bytes = 0;
  double seconds = 0;                           // that they took
  double waited = 0;                            // of these, for weights
  uint64_t expert_hits = 0, expert_misses = 0;  // experts that were needed, and were on the device or not
  uint64_t experts_early = 0;                   // experts that were read before they were needed,
  uint64_t experts_foreseen = 0;                // and of these those that then were; neither hits nor misses
  uint64_t expert_bytes = 0;                    // of `bytes`, read for experts
};

struct ModelFacts {
  std::string name;          // general.name, or the file's name
  std::string architecture;  // "llama"
  std::string quantization;  // "q4_1": the format that most weights have
  int64_t parameters = 0;
  int64_t vocabulary = 0;  // V, rows of the output head
  int64_t layers = 0;
  int64_t context_trained = 0;  // tokens
  int64_t context = 0;          // tokens that a session can hold
  int64_t sequences = 1;        // of that length that the cache holds together
  uint64_t file_bytes = 0;
  uint64_t weight_bytes = 0;        // on the device
  uint64_t bytes_per_token = 0;     // weights read to generate one token, without the KV cache
  DType kv_type = DType::f16;       // of keys and values
  uint64_t kv_bytes_per_token = 0;  // in all layers; those with a window have only the tokens in it
  uint64_t state_bytes = 0;         // recurrent states of a sequence, whatever its length
  uint64_t cache_bytes = 0;         // keys, values and states of all sequences, where each fills its context
  std::string device_id;            // "cpu"
  std::string device_name;
  std::vector<std::string> warnings;  // what of the file's metadata was not used, a line each
  std::string device_note;  // one line on what the device could not use, such as a damaged tuning file; mostly empty
  int threads = 0;
  StreamingFacts streaming;
};

class Engine {
 public:
  // Throws bad_input for a file that is not a model we can run, naming what is wrong; kNoDevice if the device is
  // missing or has too little memory.
  static std::shared_ptr<Engine> load(const std::string& path, const LoadOptions& options);
  // Loads an opened model onto an open device (null: the device of the options). `checkpoint` is not needed
  // afterward.
  static std::shared_ptr<Engine> load(const Checkpoint& checkpoint, const LoadOptions& options,
                                      std::shared_ptr<Device> device);
  ~Engine();

  const ModelFacts& facts() const;
  // Throws bad_input where the file says that it has no vocabulary (tokenizer.ggml.model is "none").
  const text::Tokenizer& tokenizer() const;
  // How the file says that tokens should be chosen; nothing applies it unasked.
  const SamplingDefaults& sampling_defaults() const;
  // Null where the file has none. Read and parsed by the first call, since only chats need it: a template that is wrong
  // is a bad_input of each call, and stops nothing else.
  // `with_tools`: the one for conversations with tools, where the file has another for them.
  const text::ChatTemplate* chat_template(bool with_tools = false) const;
  // Keys and values that a token after `tokens` others reads, in bytes: in layers with a window those in it.
  uint64_t kv_bytes_read(int64_t tokens) const;
  // The most that was allocated on the device at once, in bytes, since it was opened; what it maps from the file is not
  // in it. Nothing where the device does not count.
  std::optional<uint64_t> memory_peak() const;
  StreamingWork streaming_work() const;

  // The adapters that were loaded, with their present scales.
  std::vector<AdapterOption> adapters() const;
  // Another scale for each of them, from the next step on; nothing is loaded again. Sequences keep the keys and values
  // that were computed before: truncate them to 0 for answers of the new scales alone. Throws bad_input for another
  // number of scales, or for one that is not a number.
  void set_adapter_scales(std::span<const float> scales);

 private:
  friend class Runner;
  friend class Sequence;
  friend class Session;
  struct [[gnu::visibility("hidden")]] State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

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

  // As append(), layer by layer: visit("embed", [T, C]), visit("layers.0", [T, C]) ... and visit("logits", [T, V]) get
  // the output of each once it is computed, for every chunk of at most 512 tokens again. For finding differences: no op
  // is fused over the bounds of layers. bad_input for weights that are streamed. `operations` names results inside of
  // layers that visit gets before each layer's, "layers.0.attn_norm" ...; no op is fused over them either.
  // {"all"}: all that the model names.
  using BlockVisitor =
      std::function<void(const std::string& block, std::span<const float> values, std::span<const int64_t> shape)>;
  void append_traced(std::span<const int32_t> tokens, const BlockVisitor& visit,
                     const std::atomic<bool>* cancel = nullptr, std::span<const std::string> operations = {});

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
