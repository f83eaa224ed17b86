#include "src/engine/model_needs.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "src/backend/device.h"
#include "src/backend/discovery/memory_budget.h"
#include "src/base/cgroup_memory.h"
#include "src/base/error.h"
#include "src/models/kv_cache.h"
#include "src/models/llm/registry.h"
#include "src/models/weights/expert_tensors.h"

namespace gabbro {
namespace {

constexpr int64_t kDefaultContext = 4096;  // tokens; more is asked for with --ctx, since its cache takes memory

// The format with the most bytes of weights, for files that do not name one.
std::string most_common_type(const Checkpoint& checkpoint) {
  std::map<std::string, size_t> bytes;
  for (const CheckpointTensor& tensor : checkpoint.tensors())
    bytes[std::string(tensor.format)] += stored_form(tensor).data.size();
  std::string best;
  for (const auto& [name, count] : bytes) {
    if (best.empty() || count > bytes[best]) best = name;
  }
  for (char& c : best) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return best;
}

// `table_only`: an embedding table. Only one row of it is read per token.
void add_tensor(ModelNeeds& needs, bool table_only, int64_t elements, uint64_t bytes, const llm::ExpertsSize& experts) {
  needs.parameters += elements;
  needs.weight_bytes += bytes;
  if (!table_only) needs.bytes_per_token += llm::bytes_read(experts, bytes);
}

// The tensors of experts, by their names in the checkpoint.
std::map<std::string_view, llm::ExpertsSize> expert_tensors(const Checkpoint& checkpoint, const llm::ModelPlan& plan) {
  std::map<std::string_view, llm::ExpertsSize> found;
  for (const llm::RequestedTensor& requested : plan.tensors) {
    if (requested.experts.experts == 0) continue;
    const llm::ExpertTensors experts(llm::family_of(checkpoint).names, checkpoint, requested.name, requested.experts);
    for (const CheckpointTensor* tensor : experts.tensors()) found[tensor->name] = requested.experts;
  }
  return found;
}

}  // namespace

ModelNeeds needs_of(const Checkpoint& checkpoint) {
  const Metadata& metadata = checkpoint.metadata();
  const llm::ModelPlan plan = llm::plan_of(checkpoint);
  ModelNeeds needs{.name = plan.name, .shape = plan.sizes, .cache = plan.cache};
  const FileType* type = nullptr;
  if (metadata.has("general.file_type")) type = find_file_type(metadata.require_u32("general.file_type"));
  needs.quantization = type != nullptr ? std::string(type->name) : most_common_type(checkpoint);
  const std::string embeddings = llm::weight_name(llm::family_of(checkpoint).names, checkpoint, llm::kEmbeddings);
  const auto experts = expert_tensors(checkpoint, plan);
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const auto of = experts.find(tensor.name);
    add_tensor(needs, !plan.tied && tensor.name == embeddings, tensor.elements(), stored_form(tensor).data.size(),
               of != experts.end() ? of->second : llm::ExpertsSize{});
  }
  return needs;
}

ModelNeeds needs_of(const llm::ModelPlan& plan, const FileType& type) {
  ModelNeeds needs{.name = plan.name, .quantization = std::string(type.name), .shape = plan.sizes, .cache = plan.cache};
  for (const llm::PlannedTensor& tensor : llm::planned_tensors(plan, type))
    add_tensor(needs, !plan.tied && tensor.name == llm::kEmbeddings, tensor.elements(), tensor.bytes(), tensor.experts);
  return needs;
}

uint64_t kv_bytes_per_token(const ModelNeeds& needs, DType kv_type) {
  return static_cast<uint64_t>(nn::KvCacheConfig{.layers = needs.cache, .dtype = kv_type}.bytes_per_token());
}

uint64_t state_bytes(const ModelNeeds& needs) {
  return static_cast<uint64_t>(nn::KvCacheConfig{.layers = needs.cache}.state_bytes());
}

uint64_t kv_bytes_read(const ModelNeeds& needs, DType kv_type, int64_t tokens) {
  return static_cast<uint64_t>(nn::KvCacheConfig{.layers = needs.cache, .dtype = kv_type}.bytes_read(tokens));
}

uint64_t kv_bytes(const ModelNeeds& needs, DType kv_type, const CacheSize& size) {
  return static_cast<uint64_t>(cache_config(needs.cache, kv_type, size).bytes());
}

int64_t prefill_chunk(const abi::DeviceFacts& facts) {
  constexpr int32_t kManyUnits = 100;  // H100: 132, MI300X: 304; Radeon cards have fewer
  if (facts.host_accessible || facts.compute_units < kManyUnits) return kPrefillChunk;
  return 4 * kPrefillChunk;
}

// The largest step is the feed-forward block of a prompt chunk: the stream and its norm [T, C], gate, up and their
// product [T, F], all f32, and the same again for the codes of activations; or its attention: q, k, v and the mixed
// values.
uint64_t scratch_bytes(const llm::ModelShape& shape, int64_t context, int64_t part) {
  const int64_t tokens = std::min(part, context);
  const int64_t attention = 2 * (shape.heads + shape.kv_heads) * shape.head_dimension;
  // Experts have gate, up and their product [T, U, F], and their contribution to the stream [T, U, C].
  const int64_t experts = shape.experts_used * (3 * shape.expert_feed_forward + 2 * shape.embedding);
  const int64_t widest = std::max({3 * shape.feed_forward, attention, experts});
  const int64_t elements = tokens * (4 * shape.embedding + widest) + shape.vocabulary;
  return static_cast<uint64_t>(elements) * sizeof(float);
}

uint64_t plannable_memory(const abi::DeviceFacts& facts) {
  // HIP takes memory for the arguments of graphs and kernels, and crashes if there is none (rocm-systems issue 10021).
  constexpr uint64_t kSpareOfHip = uint64_t{256} << 20;
  if (!std::string_view(facts.id).starts_with("rocm")) return facts.memory_free;
  if (facts.memory_free == 0) return 0;
  return facts.memory_free - std::min(facts.memory_free - 1, kSpareOfHip);
}

uint64_t free_memory(const Device& device) {
  uint64_t free = plannable_memory(device.facts());
  if (free == 0 || device.host_accessible()) {
    const discovery::SystemRoot root;
    const discovery::HostMemory machine = discovery::read_host_memory(root);
    const auto read = [&](const std::string& path) { return root.read(path).value_or(""); };
    const uint64_t host = within_control_groups({machine.total, machine.available}, read).free;
    free = free == 0 ? host : std::min(free, host);
  }
  return free;
}

int64_t context_of(const llm::ModelShape& shape, int64_t wanted) {
  if (wanted < 0) throw bad_input("the context cannot be {} tokens", wanted);
  const int64_t context = wanted > 0 ? wanted : std::min(shape.context_trained, kDefaultContext);
  if (context > shape.context_trained * 64) {
    throw bad_input("a context of {} tokens exceeds 64 x the trained context {}", context, shape.context_trained);
  }
  return context;
}

}  // namespace gabbro
