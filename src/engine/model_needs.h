// Memory that a model needs on a device, computed before it is loaded: from its file's header, or from its shape alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gabbro/backend_abi.h"
#include "src/engine/cache/cache_size.h"
#include "src/models/llm/model_plan.h"

namespace gabbro {

struct ModelNeeds {
  std::string name;          // general.name, or the file's name
  std::string quantization;  // "q4_k_m"; where the file does not say: the format that most of its bytes have
  llm::ModelShape shape;
  std::vector<nn::CacheLayer> cache;  // by layer
  int64_t parameters = 0;
  uint64_t weight_bytes = 0;
  uint64_t bytes_per_token = 0;  // weights that are read to generate one token
};

// Throws bad_input as llm::read_shape does.
ModelNeeds needs_of(const Checkpoint& checkpoint);
ModelNeeds needs_of(const llm::ModelPlan& plan, const FileType& type);

// Keys and values of one token, in bytes. `kv_type` is one of kKvTypes (src/ops/kv_type.h).
uint64_t kv_bytes_per_token(const ModelNeeds& needs, DType kv_type);
// Recurrent states of a sequence, in bytes.
uint64_t state_bytes(const ModelNeeds& needs);
// Keys and values that a token after `tokens` others reads, in bytes. Layers with a window read only the tokens in it.
uint64_t kv_bytes_read(const ModelNeeds& needs, DType kv_type, int64_t tokens);
// Bytes of the cache: whole pages of keys and values, and the states.
uint64_t kv_bytes(const ModelNeeds& needs, DType kv_type, const CacheSize& size);
// Tokens of a prompt that go through the model together: enough that the weights are read once for many tokens, few
// enough that activations stay in the caches and that Ctrl-C is noticed. Large cards get four times as many, because
// their matrix cores finish quickly and they convert quantized weights to f16 once per chunk.
inline constexpr int64_t kPrefillChunk = 512;
int64_t prefill_chunk(const abi::DeviceFacts& facts);
// Activations and kernels' scratch of the largest step, a prompt chunk. An upper estimate (model_needs.cc derives it; a
// test compares it with the arenas of plans).
uint64_t scratch_bytes(const llm::ModelShape& shape, int64_t context, int64_t part = kPrefillChunk);

// The free memory that a plan may use, after a reserve for the runtime. 0: unknown.
uint64_t plannable_memory(const abi::DeviceFacts& facts);

// The free memory of an opened device, or of the host if the device uses the host's memory. 0: unknown.
uint64_t free_memory(const Device& device);

// The tokens that a session holds. `wanted` 0: the trained context, at most 4096. Throws bad_input for a number out of
// range.
int64_t context_of(const llm::ModelShape& shape, int64_t wanted);

}  // namespace gabbro
