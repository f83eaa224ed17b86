// Sizes and speeds of a loaded language model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gabbro/dtype.h"

#pragma GCC visibility push(default)
namespace gabbro {

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

}  // namespace gabbro
#pragma GCC visibility pop
