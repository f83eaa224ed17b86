// The rotary embeddings of a config.json, as transformers 5 brings all versions into one form.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace gabbro::llm {

// Rotary embeddings in a row of config_classes.inc:
//   theta            the base where none is given
//   theta_name       the name of the field that has it outside of rope_parameters
//   fraction, fraction_name   the same of the rotated part of a head
//   fraction_in_default       it counts for the type "default"
//   unset            rope_parameters if the file has none
//   renamed          types by their older names
//   refused          types that the class refuses
//   local_theta      there are two objects in rope_parameters, full_attention and sliding_attention
struct RopeFields {
  const nlohmann::ordered_json& of_class;
  const nlohmann::ordered_json& given;                                           // config.json
  const nlohmann::ordered_json& values;                                          // of the class's other fields
  std::function<void(const std::string& field, const std::string& why)> refuse;  // does not return
};

// Checks the parameters of a class without rotary embeddings: transformers keeps them, and refuses incomplete ones.
void check_foreign_rope(const nlohmann::ordered_json& given,
                        const std::function<void(const std::string& field, const std::string& why)>& refuse);

// transformers' convert_rope_params_to_dict and standardize_rope_params.
nlohmann::ordered_json standard_rope_parameters(const RopeFields& fields);

}  // namespace gabbro::llm
