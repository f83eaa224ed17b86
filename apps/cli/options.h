// Options that several commands share: each is declared here once, so that it means the same everywhere.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/command_line.h"
#include "gabbro/engine/generate.h"
#include "gabbro/engine/session.h"

namespace gabbro::cli {

struct SplitOptions {   // split_options.h
  std::string devices;  // a list; empty: one device holds the model
  std::string split = "auto";
  std::string shares;           // a list; empty: not given
  bool over_processes = false;  // of mpirun, which the command has joined
};

struct CommonOptions {
  bool json = false;
  std::string log_level = "warning";
  std::string device = "auto";
  SplitOptions several;
  int threads = 0;
  bool check_weights = true;
  std::string memory, host_memory;  // sizes; empty: not given
  std::string quantize;             // a file type
  std::vector<std::string> lora;    // FILE[:SCALE]

  bool verbose() const { return log_level == "info" || log_level == "debug"; }
};

// --json and --log-level.
void add_output_options(Command command, CommonOptions& options);
// --device and --threads.
void add_device_options(Command command, CommonOptions& options);
void add_threads(Command command, CommonOptions& options);
// --memory and --host-memory.
void add_memory_options(Command command, CommonOptions& options);
// "4GiB", "512M" (binary), "2.5GB" (decimal) or a number of bytes. Throws bad_input that names `option`.
uint64_t parse_size(const std::string& text, const char* option);
// --check-weights
void add_check_weights(Command command, CommonOptions& options);
// --quantize
void add_quantize(Command command, CommonOptions& options);
// --lora; as gabbro applies it, or merges it.
void add_lora(Command command, std::vector<std::string>& lora, const char* description);
inline void add_lora(Command command, CommonOptions& options) {
  add_lora(command, options.lora, "Apply a LoRA adapter: a PEFT folder or a GGUF file; may be repeated");
}
// --ctx
Option add_context(Command command, int64_t& context);
// --kv-type
Option add_kv_type(Command command, std::optional<std::string>& kv_type);
// Options of llama.cpp and Ollama that do nothing here: each gives a note.
void accept_options_of_other_programs(Command command);

// Options of generation, the same in every command.
struct GenerationOptions {
  GenerateOptions generate;
  int64_t context = 0;
  std::optional<std::string> kv_type;
  std::string system;
  bool raw = false;
  bool parse_special = false;                            // of a raw text
  std::string chat_template;                             // a file or a name; empty: the model's own
  std::vector<std::string> template_variables;           // NAME=VALUE
  std::vector<std::pair<std::string, Option>> declared;  // by name: to see which were given
  std::set<std::string> of_source;                       // names of those that the model's source has set
  // Role and content of messages that precede each conversation (MESSAGE of a Modelfile).
  std::vector<std::pair<std::string, std::string>> examples;
  std::vector<std::string> logit_bias;

  bool is_given(const std::string& name) const;  // on the command line
};
void add_generation_options(Command command, GenerationOptions& options);
// The options that a chat can change between two answers. The options' values at this time are the defaults.
void add_sampling_options(Command command, GenerationOptions& options);

// The resulting options. Throws bad_input that names the option for a value that cannot be, before anything is loaded.
void finish(GenerationOptions& options);
// Takes what was not given as an option from the model's file, else what suits the use: an answer to one prompt is
// always the same, a chat is not. Returns a line that says where the settings come from.
std::string apply_sampling_defaults(GenerationOptions& options, const SamplingDefaults& defaults, bool interactive);
LoadOptions load_options(const CommonOptions& common, int64_t context = 0,
                         const std::optional<std::string>& kv_type = std::nullopt);

// "1,2,3" (spaces allowed) as token ids; throws bad_input that names `option`.
std::vector<int32_t> parse_token_list(const std::string& text, const char* option);

}  // namespace gabbro::cli
