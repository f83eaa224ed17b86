// Modules under numbers, as torch.nn.ModuleList has them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gabbro/nn/module.h"

namespace gabbro::diffusion {

template <class M>
class ModuleList : public nn::Module {
 public:
  // Makes the next module with the factory of its number: append(make, options...).
  template <class... Options>
  M& append(const nn::Factory& make, const Options&... options) {
    const std::string name = std::to_string(modules_.size());
    auto module = std::make_shared<M>(make.at(name), options...);
    add_module(name, module);
    return *modules_.emplace_back(std::move(module));
  }
  // A module under any name: "proj".
  void set(const std::string& name, std::shared_ptr<M> module) {
    add_module(name, module);
    modules_.push_back(std::move(module));
  }

  size_t size() const { return modules_.size(); }
  M& operator[](size_t i) const { return *modules_.at(i); }
  M& back() const { return *modules_.back(); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

 private:
  std::vector<std::shared_ptr<M>> modules_;
};

}  // namespace gabbro::diffusion
