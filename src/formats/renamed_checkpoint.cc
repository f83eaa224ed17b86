// A checkpoint of another one's tensors: a part of a file that holds several models.
#include "src/base/error.h"
#include "src/formats/checkpoint_state.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/json_file.h"
#include "src/formats/hugging_face/json_metadata.h"

namespace gabbro {

Checkpoint Checkpoint::of_tensors(const Checkpoint& source, const std::string& name, std::string_view config_json,
                                  std::vector<std::pair<std::string, CheckpointTensor>> tensors) {
  struct RenamedState final : State {
    const Metadata& metadata() const override { return fields; }
    ChatTemplates chat_templates() const override { return {}; }
    std::shared_ptr<const State> source;  // whose files the tensors are views of
    nlohmann::ordered_json document;
    JsonMetadata fields;
  };
  auto state = std::make_shared<RenamedState>();
  state->source = source.state_;
  state->path = name;
  state->layout = CheckpointLayout::kHuggingFace;
  state->document = parse_json(config_json, name);
  if (!state->document.is_object()) throw bad_input("{}: is not an object", name);
  state->config = &state->document;
  state->fields.add(state->document, "");
  state->fields.finish(name);
  state->mapped = source.state_->mapped;
  state->file_paths = source.state_->file_paths;
  state->file_identities = source.state_->file_identities;
  state->file_count = source.state_->file_count;
  for (auto& [new_name, tensor] : tensors) {
    tensor.name = state->names.emplace_back(std::move(new_name));
    state->file_bytes += tensor.data.size();
    state->add_tensor(std::move(tensor));
  }
  return Checkpoint(std::shared_ptr<const State>(std::move(state)));
}

}  // namespace gabbro
