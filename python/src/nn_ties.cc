// Parameters that were assigned to members of C++ layers: head.weight = embedding.weight. The layer's member is given
// the parameter's value, which is a leaf with one gradient, before each call.
#include <unordered_map>

#include "python/src/nn.h"

namespace gabbro::python {
namespace {

struct Tie {
  std::string name;
  Tensor* member;
  std::shared_ptr<Tensor> place;  // keeps the object of Python
};

struct Ties {
  nb::object module;  // a weak reference of Python
  std::vector<Tie> ties;

  bool expired() const { return module().is_none(); }
};

std::unordered_map<const nn::Module*, Ties>& known() {  // guarded by the GIL
  static auto& all = *new std::unordered_map<const nn::Module*, Ties>;
  return all;
}

Ties* ties_of(const nn::Module& module) {
  const auto found = known().find(&module);
  return found == known().end() || found->second.expired() ? nullptr : &found->second;
}

}  // namespace

void tie(nb::handle self, const std::string& name, Tensor& member, nb::handle parameter) {
  std::erase_if(known(), [](const auto& entry) { return entry.second.expired(); });
  const ModulePointer module = module_of(self);
  Ties& own = known()[module.get()];
  own.module = nb::weakref(self);
  Tensor* place = &member;
  for (const Tie& old : own.ties)
    if (old.place.get() == place) place = old.member;  // the module lists the parameter in place of its member
  std::erase_if(own.ties, [&](const Tie& old) { return old.member == place; });
  own.ties.push_back({name, place, nb::cast<std::shared_ptr<Tensor>>(parameter)});
  read_ties(*module);
}

bool has_ties() { return !known().empty(); }

void read_ties(nn::Module& module) {
  if (known().empty()) return;
  if (Ties* own = ties_of(module))
    for (const Tie& one : own->ties) *one.member = *one.place;
  for (const nn::Module::Child& child : module.children()) read_ties(*child.module);
}

std::shared_ptr<Tensor> tied_to(const Tensor& member) {
  for (const auto& [module, own] : known()) {
    if (own.expired()) continue;
    for (const Tie& one : own.ties)
      if (one.member == &member) return one.place;
  }
  return nullptr;
}

nb::dict ties_of(nb::handle module) {
  nb::dict result;
  if (const Ties* own = ties_of(*module_of(module)))
    for (const Tie& one : own->ties) result[one.name.c_str()] = nb::cast(one.place);
  return result;
}

}  // namespace gabbro::python
