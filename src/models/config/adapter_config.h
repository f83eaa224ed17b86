// adapter_config.json of PEFT: the modules and the factors of a LoRA, and what is refused.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/models/config/name_pattern.h"

namespace gabbro::llm {

class AdapterConfig {
 public:
  // Throws bad_input that names the file and the field: another kind of adapter, or one that changes more than products
  // of low rank can.
  static AdapterConfig read(const std::string& path);

  // alpha / rank of a module's pair, or alpha / √rank (rsLoRA). Throws bad_input where the configuration says another
  // rank, or that the module is not among the adapter's.
  float factor(const std::string& module, int64_t rank) const;

 private:
  // A number for modules whose names match: the first pattern that does counts, as in PEFT's get_pattern_key.
  struct PatternValue {
    NamePattern pattern;
    double value;
  };
  using Patterns = std::vector<PatternValue>;
  // Names of modules or their ends, or one expression for whole names.
  struct ModuleChoice {
    std::optional<NamePattern> pattern;
    std::vector<std::string> names;
    bool contains(const std::string& module) const;
  };

  static Patterns read_patterns(const nlohmann::ordered_json& config, const std::string& path, const char* field);
  static std::optional<ModuleChoice> read_choice(const nlohmann::ordered_json& config, const std::string& path,
                                                 const char* field);

  std::string path_;
  float alpha_ = 0;
  std::optional<double> rank_;
  bool rank_stabilized_ = false;
  Patterns alpha_pattern_, rank_pattern_;
  std::optional<ModuleChoice> targets_, excluded_;
};

}  // namespace gabbro::llm
