// Models that need no file: published sizes by name, or any sizes from a text.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/models/llm/model_shape.h"

namespace gabbro::llm {

struct Blueprint {
  std::string name;                    // "llama-8b"
  std::string architecture = "llama";  // of registry.cc
  ModelShape sizes;
  bool tied = false;  // the token embeddings are the output head too
  float norm_epsilon = 1e-5f;
  float rope_base = 10000;
  float rope_factor = 1;  // by how much Llama 3 stretches the slow rotations; 1: not at all
  // A published config.json, which says all of the above but the name; empty: those say it.
  std::string config{};
  double parameters = 0;                        // of the published model; 0: not said
  std::vector<std::string> present{};           // tensors of layers that not all models of the family have
  int64_t first_mixture = 0, mixture_step = 1;  // layers first, first + step ... have the mixture of experts
};

// Llama 1 to 3.2, from the config.json of each, and what published_configs() has: all shapes that have a name.
std::span<const Blueprint> published_blueprints();
// Mixtures of experts and hybrids.
std::span<const Blueprint> published_configs();

// "8B", "3.5b", "350M", "1T" as a number of parameters, from 1e7 to 2e12; nothing for another text.
std::optional<double> parse_parameter_count(std::string_view text);

// The published model of an architecture (GGUF's name, or that of config.json) whose number of parameters is nearest,
// and at most 5 % away; null: there is none. Llama has shapes of any size instead.
const Blueprint* published_of_size(std::string_view architecture, double parameters);

// The shape of a model of the family with that many parameters: a published one whose name has that size, else one with
// layers and width interpolated between the published ones, whose feed-forward size is chosen to make the number of
// parameters right within 2 %. 1e7 <= parameters <= 2e12.
Blueprint blueprint_of_size(double parameters);

// "llama-8b" or "gpt-oss-20b", whatever the case of its letters, or the sizes themselves, as
// "layers=2,embedding=64,heads=4" and, each with a default, architecture (llama), kv-heads (heads), head-dimension
// (embedding / heads), feed-forward (4 · embedding), vocabulary (32000), context (4096), tied (0); and of a mixture
// experts, experts-used (2), expert-feed-forward (feed-forward). Throws bad_input that names what is wrong.
Blueprint parse_blueprint(const std::string& text);

}  // namespace gabbro::llm
