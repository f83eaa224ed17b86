// Families whose layers may have a token mixer in place of attention.
#pragma once

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {

// `read`(checkpoint) returns the family's configuration, which has a DecoderConfig `decoder`; `make_mixer`(config,
// place) the mixer of a layer, null for attention; `write`(config, checkpoint, fields) writes the fields of GGUF.
template <auto read, auto make_mixer, auto write>
constexpr Family mixer_family(std::span<const std::string_view> architectures, std::span<const WeightName> names) {
  return {.architectures = architectures,
          .names = names,
          .read_shape = [](const Checkpoint& checkpoint) { return read(checkpoint).decoder.shape; },
          .build = [](const Checkpoint& checkpoint, WeightSource& weights,
                      int64_t context) -> std::unique_ptr<LanguageModel> {
            const auto config = read(checkpoint);
            return std::make_unique<Decoder>(config.decoder, checkpoint, weights, context,
                                             [&](const MixerPlace& at) { return make_mixer(config, at); });
          },
          .write_fields = [](const Checkpoint& checkpoint,
                             GgufFields& fields) { write(read(checkpoint), checkpoint, fields); }};
}

}  // namespace gabbro::llm
