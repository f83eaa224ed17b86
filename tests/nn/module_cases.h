// The modules of tests/data/nn/modules.json: how each is made, and called.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gabbro/nn/module.h"

namespace gabbro::nn {

struct ModuleCase {
  std::shared_ptr<Module> module;
  std::function<std::vector<Tensor>(const std::vector<Tensor>& x)> forward;
};
using MakeCase = std::function<ModuleCase(const Factory& make)>;
using ModuleCases = std::map<std::string, MakeCase>;

ModuleCases module_cases();
void add_sequence_cases(ModuleCases& cases);  // sequence_cases.cc: attention and recurrent networks

// A layer without changes.
template <class M, class... Arguments>
ModuleCase layer_case(Arguments&&... arguments) {
  const auto layer = std::make_shared<M>(std::forward<Arguments>(arguments)...);
  return {layer, [layer](const std::vector<Tensor>& x) { return std::vector{layer->forward(x[0])}; }};
}

}  // namespace gabbro::nn
