// State dicts in safetensors files, as PyTorch's ecosystem exchanges them.
#pragma once

#include <map>
#include <string>

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

// All tensors of the file, on the device. Throws bad_input that names the file for one that is damaged, for dtypes that
// we do not have, and for more than six axes.
StateDict load_state(const std::string& path, const std::shared_ptr<Device>& device);
// Whole or not at all. Throws bad_input for block formats.
void save_state(const std::string& path, const StateDict& state,
                const std::map<std::string, std::string>& metadata = {});

void save(const std::string& path, const Module& module);
// On the device of the module's tensors. Throws the errors of load_state_dict, with the file's name.
void load(const std::string& path, Module& module, bool strict = true);

}  // namespace gabbro::nn
#pragma GCC visibility pop
