// A loaded language model (Engine), and how it is loaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gabbro/dtype.h"
#include "gabbro/engine/model_facts.h"

namespace gabbro {

struct SamplingDefaults;  // src/engine/sampling_defaults.h
class Checkpoint;         // src/formats/checkpoint.h
class Runner;             // src/engine/runner.h
class Sequence;           // src/engine/sequence.h
class TracedRunner;       // src/engine/traced_pass.h
class TreeRunner;         // src/engine/tree_runner.h

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

// How several devices hold one model: each has a range of the layers, or a part of each tensor; or what promises most
// tokens a second of one text, which may be one of the devices.
enum class Split { kLayers, kTensor, kAuto };

struct LoadOptions {
  std::string device = "auto";  // as open_device() takes it
  // Several devices, as open_device() takes them, in this order. Empty: `device` holds the model. `shares` of the model
  // by device; empty: by the devices' speed, and for layers by free memory.
  std::vector<std::string> devices{};
  std::vector<double> shares{};
  Split split = Split::kAuto;
  // The processes that mpirun has started hold the model together, each on its `device`. All of them load it with the
  // same options, and then make the same calls. kAuto: by layers.
  bool over_processes = false;
  int threads = 0;        // of a CPU device; 0: one per physical core
  int64_t context = 0;    // tokens; 0: the smaller of what the model was trained for and 4096
  int64_t sequences = 1;  // of that context whose keys and values the cache holds together
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

// A loaded language model.
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
  friend class TracedRunner;
  friend class TreeRunner;
  struct [[gnu::visibility("hidden")]] State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gabbro
#pragma GCC visibility pop
