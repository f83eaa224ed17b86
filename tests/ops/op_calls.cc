#include "tests/ops/op_calls.h"

#include <map>

#include "src/ops/ops.h"

namespace gabbro {

using nlohmann::json;

OpCall family_op(const std::string& op) {
  static const std::map<std::string, OpCall> kOps = {
      {"sort", [](const Inputs& i, const json& a) { return sort(i[0], a.at("axis"), a.at("descending")); }},
      {"argsort", [](const Inputs& i, const json& a) { return argsort(i[0], a.at("axis"), a.at("descending")); }},
      {"topk",
       [](const Inputs& i, const json& a) { return topk(i[0], a.at("k"), a.at("axis"), a.at("largest")).values; }},
      {"topk_indices",
       [](const Inputs& i, const json& a) { return topk(i[0], a.at("k"), a.at("axis"), a.at("largest")).indices; }},
  };
  return kOps.at(op);
}

DType dtype_of(const std::string& name) {
  for (int type = 0; type < kDTypeCount; ++type) {
    if (dtype_name(static_cast<DType>(type)) == name) return static_cast<DType>(type);
  }
  throw std::out_of_range("no dtype " + name);
}

}  // namespace gabbro
