// The configuration of a model as fields of GGUF, for files that are converted from another layout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/formats/gguf/gguf_writer.h"
#include "src/models/llm/decoder_config.h"

namespace gabbro::llm {

struct GgufFields {
  gguf::Writer& writer;
  std::string architecture;                            // prefix of the family's fields
  std::vector<int32_t> kv_heads_by_layer{};            // where some layers have none; empty: all have as many
  std::vector<int32_t> feed_forward_by_layer{};        // the same
  std::map<std::string, std::vector<float>> tables{};  // further tensors, f32: the divisors of rotary frequencies
  std::vector<bool> mixed_layers{};                    // of each layer: it has a router
  bool has_shared_expert = false;                      // next to those that routers choose

  // KV heads in the layers with attention, none in the others.
  void set_kv_heads(const std::vector<bool>& attends, int64_t kv_heads) {
    kv_heads_by_layer.clear();
    for (const bool own : attends) kv_heads_by_layer.push_back(own ? static_cast<int32_t>(kv_heads) : 0);
  }
  void size(const char* name, int64_t value) {
    writer.add_u32(architecture + "." + name, static_cast<uint32_t>(value));
  }
  void number(const char* name, double value) { writer.add_f32(architecture + "." + name, static_cast<float>(value)); }
};

// Read again by the family, they give the same configuration.
void write_decoder_fields(const DecoderConfig& config, GgufFields& fields);

}  // namespace gabbro::llm
