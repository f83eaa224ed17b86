// The options of sampling: the struct, and the table from which the command line, requests of the server, keywords of
// Python, model files and the messages of a worker read them. A step of the sampler is a member here and its row below.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gabbro {

// Defaults change nothing; a step whose value is its default is left out of the chain.
struct SamplerOptions {
  float temperature = 0.8f;        // 0: the most likely token, always
  int top_k = 40;                  // 0: off
  float top_p = 0.95f;             // 1: off
  float min_p = 0.05f;             // 0: off
  float typical_p = 1.0f;          // 1: off (Meister et al. 2022)
  float repeat_penalty = 1.0f;     // 1: off (Keskar et al. 2019)
  float frequency_penalty = 0.0f;  // OpenAI's definition, over the last `penalty_window` tokens
  float presence_penalty = 0.0f;
  int penalty_window = 64;      // 0: no penalties; -1: the whole context
  float dry_multiplier = 0.0f;  // 0: off ("don't repeat yourself")
  float dry_base = 1.75f;
  int dry_allowed_length = 2;
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};  // no repetition reaches across these
  float xtc_probability = 0.0f;                                             // 0: off ("exclude top choices")
  float xtc_threshold = 0.1f;
  int mirostat = 0;  // 0: off; 1, 2: the version (Basu et al. 2021)
  float mirostat_tau = 5.0f;
  float mirostat_eta = 0.1f;
  std::vector<std::pair<int32_t, float>> logit_bias{};
  uint64_t seed = 0;      // 0: a random one
  int top_logprobs = -1;  // -1: no scores; else the score of each chosen token, with this many of the most likely ones
};

// A number or an integer of SamplerOptions. Texts, biases, the seed and the scores have no row: each reader has its
// syntax for them.
struct SamplingOption {
  const char* name;                         // "top_p": --top-p, a field of requests, a keyword in Python
  float SamplerOptions::*number = nullptr;  // null: an integer
  int SamplerOptions::*integer = nullptr;   // null: a number
  double least, most;
  const char* help;
  const char* placeholder = "X";
  const char* alias = nullptr;  // another name that is accepted
  const char* gguf = nullptr;   // the field general.sampling.<gguf> of llama.cpp; null: model files do not have it

  constexpr bool is_integer() const { return integer != nullptr; }
  constexpr double get(const SamplerOptions& options) const {
    return is_integer() ? options.*integer : static_cast<double>(options.*number);
  }
  constexpr void set(SamplerOptions& options, double value) const {
    if (is_integer()) {
      options.*integer = static_cast<int>(value);
    } else {
      options.*number = static_cast<float>(value);
    }
  }
  // Its names in requests and files: name and alias, as far as there is one.
  constexpr bool is_called(std::string_view text) const { return text == name || (alias != nullptr && text == alias); }
};

inline constexpr double kUnbounded = std::numeric_limits<int>::max();

inline constexpr SamplingOption kSamplingOptions[] = {
    {.name = "temperature",
     .number = &SamplerOptions::temperature,
     .least = 0,
     .most = 100,
     .help = "Randomness; 0: always the most likely token",
     .alias = "temp",
     .gguf = "temp"},
    {.name = "top_k",
     .integer = &SamplerOptions::top_k,
     .least = 0,
     .most = kUnbounded,
     .help = "Choose among the K most likely tokens; 0: off",
     .placeholder = "K",
     .gguf = "top_k"},
    {.name = "top_p",
     .number = &SamplerOptions::top_p,
     .least = 0,
     .most = 1,
     .help = "Choose among the most likely tokens that sum to P; 1: off",
     .placeholder = "P",
     .gguf = "top_p"},
    {.name = "min_p",
     .number = &SamplerOptions::min_p,
     .least = 0,
     .most = 1,
     .help = "Drop tokens less likely than P times the most likely; 0: off",
     .placeholder = "P",
     .gguf = "min_p"},
    {.name = "typical_p",
     .number = &SamplerOptions::typical_p,
     .least = 0,
     .most = 1,
     .help = "Locally typical sampling; 1: off",
     .placeholder = "P",
     .alias = "typical"},
    {.name = "repeat_penalty",
     .number = &SamplerOptions::repeat_penalty,
     .least = 0.01,
     .most = 100,
     .help = "Make tokens of the recent text less likely; 1: off",
     .alias = "repetition_penalty",
     .gguf = "penalty_repeat"},
    {.name = "frequency_penalty",
     .number = &SamplerOptions::frequency_penalty,
     .least = -100,
     .most = 100,
     .help = "Per earlier use of a token; 0: off"},
    {.name = "presence_penalty",
     .number = &SamplerOptions::presence_penalty,
     .least = -100,
     .most = 100,
     .help = "For any earlier use of a token; 0: off"},
    {.name = "penalty_window",
     .integer = &SamplerOptions::penalty_window,
     .least = -1,
     .most = kUnbounded,
     .help = "Tokens that penalties look back; -1: all",
     .placeholder = "N",
     .alias = "repeat_last_n",
     .gguf = "penalty_last_n"},
    {.name = "dry_multiplier",
     .number = &SamplerOptions::dry_multiplier,
     .least = 0,
     .most = 100,
     .help = "Strength of DRY, against repeated phrases; 0: off"},
    {.name = "dry_base",
     .number = &SamplerOptions::dry_base,
     .least = 1,
     .most = 100,
     .help = "Growth of DRY's penalty per token"},
    {.name = "dry_allowed_length",
     .integer = &SamplerOptions::dry_allowed_length,
     .least = 1,
     .most = kUnbounded,
     .help = "Longest repetition that DRY lets pass",
     .placeholder = "N"},
    {.name = "xtc_probability",
     .number = &SamplerOptions::xtc_probability,
     .least = 0,
     .most = 1,
     .help = "How often XTC excludes the top choices; 0: off",
     .placeholder = "P",
     .gguf = "xtc_probability"},
    {.name = "xtc_threshold",
     .number = &SamplerOptions::xtc_threshold,
     .least = 0,
     .most = 1,
     .help = "Probability that makes a top choice for XTC",
     .placeholder = "P",
     .gguf = "xtc_threshold"},
    {.name = "mirostat",
     .integer = &SamplerOptions::mirostat,
     .least = 0,
     .most = 2,
     .help = "Mirostat version 1 or 2; 0: off",
     .placeholder = "0|1|2",
     .gguf = "mirostat"},
    {.name = "mirostat_tau",
     .number = &SamplerOptions::mirostat_tau,
     .least = 0,
     .most = 100,
     .help = "Mirostat's target, in bits per token",
     .alias = "mirostat_ent",
     .gguf = "mirostat_tau"},
    {.name = "mirostat_eta",
     .number = &SamplerOptions::mirostat_eta,
     .least = 0,
     .most = 1,
     .help = "Mirostat's learning rate",
     .alias = "mirostat_lr",
     .gguf = "mirostat_eta"},
};

// The row with this name or alias; null: there is none.
constexpr const SamplingOption* find_sampling_option(std::string_view name) {
  for (const SamplingOption& option : kSamplingOptions) {
    if (option.is_called(name)) return &option;
  }
  return nullptr;
}

}  // namespace gabbro
