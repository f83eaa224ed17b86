#include "src/engine/text_to_text.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "src/base/error.h"
#include "src/engine/loading.h"
#include "src/engine/model_needs.h"
#include "src/models/config/config_reader.h"
#include "src/models/encoder/registry.h"
#include "src/models/encoder/text_to_text.h"
#include "src/models/weights/weight_list.h"

namespace gabbro {
namespace {

void refuse_options(const Checkpoint& checkpoint, const LoadOptions& options) {
  const bool is_split = !options.devices.empty() || options.over_processes;
  const char* const refused = is_split                      ? "--devices"
                              : options.memory != 0         ? "--memory"
                              : !options.quantize.empty()   ? "--quantize"
                              : !options.adapters.empty()   ? "--lora"
                              : options.observer != nullptr ? "--imatrix"
                                                            : nullptr;
  if (refused != nullptr) throw bad_input("{}: encoder-decoders do not take {}", checkpoint.path(), refused);
}

DType kv_type_of(const LoadOptions& options) { return options.kv_type.value_or(DType::f32); }

// The format with the most bytes, in lower case.
std::string most_common_format(const Checkpoint& checkpoint) {
  std::map<std::string, size_t> bytes;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) bytes[std::string(tensor.format)] += tensor.data.size();
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& one) { return one.second; });
  std::string name = most != bytes.end() ? most->first : "";
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

// Bytes of the decoder's weights and its head, which each token reads.
uint64_t bytes_of_decoder(const Checkpoint& checkpoint) {
  const encoder::Family& family = encoder::family_of(checkpoint);
  const encoder::T5DecoderConfig read = encoder::read_t5_decoder(checkpoint);
  llm::WeightList list([&](const std::string& name) { return llm::has_weight(family.names, checkpoint, name); });
  const encoder::T5Decoder asks(read.config, read.scaled, list);
  const bool tied = !list.has("output.weight");
  uint64_t bytes = 0;
  for (const llm::RequestedTensor& tensor : list.tensors()) {
    if (tensor.name == "token_embd.weight" && !tied) continue;  // a token reads one row
    bytes += checkpoint.require_tensor(llm::weight_name(family.names, checkpoint, tensor.name)).data.size();
  }
  return bytes;
}

ModelFacts describe_text_to_text(const Checkpoint& checkpoint, const LoadOptions& options) {
  const llm::ModelShape shape = encoder::read_t5_decoder(checkpoint).config.shape;
  ModelFacts facts;
  facts.name = checkpoint.metadata().string_or("general.name", "");
  if (facts.name.empty()) facts.name = std::filesystem::weakly_canonical(checkpoint.path()).stem().string();
  facts.architecture = llm::architecture_of(checkpoint);
  facts.quantization = most_common_format(checkpoint);
  facts.vocabulary = shape.vocabulary;
  facts.layers = shape.layers;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    facts.parameters += tensor.elements();
    facts.weight_bytes += tensor.data.size();
  }
  facts.file_bytes = checkpoint.file_bytes();
  facts.bytes_per_token = bytes_of_decoder(checkpoint);
  llm::ModelShape both = shape;
  both.context_trained = 2 * shape.context_trained;  // a text and its answer
  facts.context_trained = both.context_trained;
  facts.context = context_of(both, options.context);
  facts.sequences = std::max<int64_t>(1, options.sequences);
  facts.kv_type = kv_type_of(options);
  return facts;
}

}  // namespace

void load_text_to_text(const Checkpoint& checkpoint, const LoadOptions& options, LoadedModel& loaded) {
  refuse_options(checkpoint, options);
  begin_loading(checkpoint, options, loaded);
  const auto progress = [&](uint64_t done, uint64_t total) {
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(total));
  };
  loaded.facts = describe_text_to_text(checkpoint, options);
  add_warnings_of_texts(checkpoint, loaded);
  std::optional<int32_t> end_token;
  if (loaded.tokenizer != nullptr && loaded.tokenizer->adds_eos()) end_token = loaded.tokenizer->eos();
  loaded.model = std::make_unique<encoder::TextToTextModel>(
      encoder::load_t5(checkpoint, loaded.device, {.check_values = options.check_weights, .progress = progress},
                       loaded.facts.kv_type),
      end_token);
}

}  // namespace gabbro
