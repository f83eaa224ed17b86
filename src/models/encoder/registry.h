// The visible list of encoder families.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "src/models/encoder/encoder.h"
#include "src/models/weights/checkpoint_weights.h"

namespace gabbro::llm {
struct GgufFields;  // src/models/llm/gguf_fields.h
}

namespace gabbro::encoder {

struct Family {
  // general.architecture of GGUF (the first of them in files that we write), and model_type of config.json.
  std::span<const std::string_view> architectures;
  std::span<const WeightName> names;
  EncoderConfig (*read_config)(const Checkpoint& checkpoint);
  bool in_gguf = true;  // llama.cpp has the architecture, so that it can be converted
  // Fields of GGUF; null: the fields of src/convert/encoder_conversion.cc.
  void (*write_fields)(const Checkpoint& checkpoint, llm::GgufFields& fields) = nullptr;
};

std::span<const Family* const> families();
const Family* find_family(const Checkpoint& checkpoint);  // null if there is none
const Family& family_of(const Checkpoint& checkpoint);    // throws bad_input that lists those that there are

// The encoder of a checkpoint on a device. Throws bad_input that names the file and the field or the tensor.
std::unique_ptr<Encoder> load_encoder(const Checkpoint& checkpoint, const std::shared_ptr<Device>& device,
                                      const llm::WeightOptions& options);

}  // namespace gabbro::encoder
