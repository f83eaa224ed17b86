// adapter_config.json of PEFT: the factors of a LoRA, and what is refused.
#pragma once

#include <map>
#include <string>

namespace gabbro::llm {

class AdapterConfig {
 public:
  // Throws bad_input that names the file and the field: another kind of adapter, or one that changes more than products
  // of low rank can.
  static AdapterConfig read(const std::string& path);

  // alpha / rank of a module's pair, or alpha / √rank (rsLoRA).
  float factor(const std::string& module, int64_t rank) const;

 private:
  float alpha_ = 0;
  bool rank_stabilized_ = false;
  std::map<std::string, float> alpha_pattern_;  // of modules that end so
};

}  // namespace gabbro::llm
