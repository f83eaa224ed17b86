#include "gabbro/nn/module.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/ranges.h>

#include "src/base/error.h"
#include "src/ops/grad.h"
#include "src/plan/eval.h"

namespace gabbro::nn {
namespace {

// A separate tensor of the same value, without a history.
Tensor without_history(const Tensor& x) {
  if (!x.has_value()) return detach(x);
  auto state = std::make_shared<TensorState>(x.state());
  state->history.reset();
  return Tensor(std::move(state));
}

// `value` in the place of `member`: a leaf where the old one is, with its gradient.
void replace(Tensor& member, const Tensor& value) {
  const bool leaf = member.defined() && needs_gradient(member);
  std::shared_ptr<Tensor> gradient = leaf ? gradient_object(member) : nullptr;
  member = without_history(value);
  if (!leaf) return;
  require_gradient(member);
  if (gradient == nullptr) return;
  *gradient = cast(to_device(*gradient, member.device()), member.dtype());
  take_gradient(member, std::move(gradient));
}

// "missing a, b; unexpected c", the first few of each.
void list(std::string& text, const char* what, const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;  // one line has to hold them
  if (names.empty()) return;
  text += fmt::format(
      "{}{} {}", text.empty() ? "" : "; ", what,
      fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())), ", "));
  if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
}

}  // namespace

void Module::check_name(const std::string& name) const {
  const bool known = std::ranges::any_of(entries_, [&](const Entry& e) { return e.name == name; }) ||
                     std::ranges::any_of(children_, [&](const Child& c) { return c.name == name; });
  if (known || name.empty() || name.find('.') != std::string::npos) {
    throw bad_input("[module] '{}' cannot be the name of a tensor or module{}", name, known ? ": it is taken" : "");
  }
}

void Module::add_parameter(std::string name, Tensor& member, Tensor value) {
  member = std::move(value);
  if (!member.defined()) return;
  check_name(name);
  require_gradient(member);
  entries_.push_back({.name = std::move(name), .tensor = &member, .is_parameter = true, .persistent = true});
}

void Module::add_buffer(std::string name, Tensor& member, Tensor value, bool persistent) {
  member = std::move(value);
  if (!member.defined()) return;
  check_name(name);
  entries_.push_back({.name = std::move(name), .tensor = &member, .is_parameter = false, .persistent = persistent});
}

void Module::add_parameter(const Factory& make, std::string name, Tensor& member, Tensor initial) {
  if (make.weights == nullptr) return add_parameter(std::move(name), member, std::move(initial));
  add_buffer(make, std::move(name), member, std::move(initial));
}

void Module::add_buffer(const Factory& make, std::string name, Tensor& member, Tensor initial) {
  if (make.weights != nullptr) initial = make.weights->tensor(make.prefix + name, initial.shape(), initial.dtype());
  add_buffer(std::move(name), member, std::move(initial));
}

Tensor& Module::add_parameter(const Factory& make, std::string name, Tensor initial) {
  Tensor& member = owned_.emplace_back();
  add_parameter(make, std::move(name), member, std::move(initial));
  return member;
}

Tensor& Module::add_parameter(std::string name, Tensor value) {
  Tensor& member = owned_.emplace_back();
  add_parameter(std::move(name), member, std::move(value));
  return member;
}

Tensor& Module::add_buffer(std::string name, Tensor value, bool persistent) {
  Tensor& member = owned_.emplace_back();
  add_buffer(std::move(name), member, std::move(value), persistent);
  return member;
}

void Module::add_module(std::string name, std::shared_ptr<Module> module) {
  if (module == nullptr) return;
  check_name(name);
  if (module->contains(*this)) throw bad_input("[module] '{}' contains the module that it would be a part of", name);
  children_.push_back({.name = std::move(name), .module = std::move(module)});
}

bool Module::contains(const Module& other) const {
  return this == &other ||
         std::ranges::any_of(children_, [&](const Child& child) { return child.module->contains(other); });
}

void Module::keep(const std::string& name, std::shared_ptr<void> owner) {
  for (Entry& entry : entries_)
    if (entry.name == name) entry.owner = std::move(owner);
}

void Module::remove(const std::string& name) {
  std::erase_if(entries_, [&](const Entry& e) { return e.name == name; });
  std::erase_if(children_, [&](const Child& c) { return c.name == name; });
}

void Module::find(const std::string& prefix, std::vector<Found>& found) const {
  for (const bool parameters : {true, false})
    for (const Entry& entry : entries_)
      if (entry.is_parameter == parameters) found.push_back({prefix + entry.name, &entry});
  for (const Child& child : children_) child.module->find(prefix + child.name + ".", found);
}

std::vector<Module::Found> Module::all() const {
  std::vector<Found> found;
  find("", found);
  return found;
}

// Computes initial values that no one has read yet, in sequence: tensors of the same shape share a plan.
std::vector<Module::Found> Module::computed() const {
  std::vector<Found> found = all();
  for (const Found& f : found) compute_deferred(*f.entry->tensor);
  return found;
}

std::vector<Slot> Module::slots(bool parameters) {
  const std::shared_ptr<Module> self = shared_from_this();  // which keeps the modules inside of it
  std::vector<Slot> slots;
  std::unordered_set<const Tensor*> known;  // a module may be inside of several
  for (const Found& found : computed()) {
    if (found.entry->is_parameter != parameters || !known.insert(found.entry->tensor).second) continue;
    slots.push_back({found.name, std::shared_ptr<Tensor>(self, found.entry->tensor)});
  }
  return slots;
}

std::vector<Slot> Module::parameters() { return slots(true); }
std::vector<Slot> Module::buffers() { return slots(false); }

std::vector<Tensor> Module::tensors() {
  std::vector<Tensor> tensors;
  for (const Found& found : computed()) tensors.push_back(*found.entry->tensor);
  return tensors;
}

Tensor* Module::own_tensor(const std::string& name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  return found == entries_.end() ? nullptr : found->tensor;
}

std::shared_ptr<Device> Module::tensor_device() const {
  const std::vector<Found> found = all();
  return found.empty() ? nullptr : found.front().entry->tensor->device();
}

StateDict Module::state_dict() const {
  StateDict state;
  for (const Found& found : computed())
    if (found.entry->persistent) state.push_back({found.name, without_history(*found.entry->tensor)});
  return state;
}

void Module::load_state_dict(const StateDict& state, bool strict) {
  std::unordered_map<std::string, Tensor> given;
  for (const NamedTensor& named : state) given[named.name] = named.tensor;
  std::vector<std::string> missing, unexpected, unlike;
  std::unordered_set<std::string> known;
  const std::vector<Found> places = all();
  for (const Found& found : places) {
    if (!found.entry->persistent) continue;
    known.insert(found.name);
    const auto value = given.find(found.name);
    const Shape& shape = found.entry->tensor->shape();
    if (value == given.end()) {
      missing.push_back(found.name);
    } else if (!(value->second.shape() == shape)) {
      unlike.push_back(
          fmt::format("{} {} instead of {}", found.name, value->second.shape().to_string(), shape.to_string()));
    }
  }
  for (const NamedTensor& named : state)
    if (!known.contains(named.name)) unexpected.push_back(named.name);
  std::string wrong;
  if (strict) {
    list(wrong, "missing", missing);
    list(wrong, "unexpected", unexpected);
  }
  list(wrong, "of another shape:", unlike);
  if (!wrong.empty()) throw bad_input("[load_state_dict] {}", wrong);
  const NoGrad no_grad;
  std::vector<Tensor> replaced;
  for (const Found& found : places) {
    const auto value = given.find(found.name);
    if (value == given.end() || !found.entry->persistent) continue;
    Tensor& member = *found.entry->tensor;
    replace(member, cast(gabbro::to_device(without_history(value->second), member.device()), member.dtype()));
    replaced.push_back(member);
  }
  if (!replaced.empty()) eval(replaced);
}

void Module::train(bool on) {
  training_ = on;
  for (const Child& child : children_) child.module->train(on);
}

void Module::zero_grad(bool set_to_none) {
  const NoGrad no_grad;
  for (const Found& found : all()) {
    if (!found.entry->is_parameter) continue;
    set_to_none ? clear_gradient(*found.entry->tensor) : zero_gradient(*found.entry->tensor);
  }
}

void Module::requires_grad(bool required) {
  for (const Found& found : computed()) {
    if (!found.entry->is_parameter) continue;
    Tensor& member = *found.entry->tensor;
    if (required == needs_gradient(member)) continue;
    member = without_history(member);
    if (required) require_gradient(member);
  }
}

void Module::to_device(const std::shared_ptr<Device>& device) {
  for (const Found& found : all()) replace(*found.entry->tensor, gabbro::to_device(*found.entry->tensor, device));
}

void Module::to_dtype(DType dtype) {
  if (!is_differentiable(dtype)) throw bad_input("[to_dtype] parameters cannot be {}", dtype_name(dtype));
  const NoGrad no_grad;
  std::vector<Tensor> all_tensors;
  for (const Found& found : computed()) {
    Tensor& member = *found.entry->tensor;
    if (is_differentiable(member.dtype())) replace(member, cast(member, dtype));
    all_tensors.push_back(member);
  }
  if (!all_tensors.empty()) eval(all_tensors);
}

Sequential::Sequential(std::initializer_list<std::shared_ptr<Layer>> layers)
    : Sequential(std::vector<std::shared_ptr<Layer>>(layers)) {}

Sequential::Sequential(const std::vector<std::shared_ptr<Layer>>& layers) {
  for (const std::shared_ptr<Layer>& layer : layers) append(layer);
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const std::shared_ptr<Layer>& layer : layers_) y = layer->forward(y);
  return y;
}

void Sequential::append(std::shared_ptr<Layer> layer) {
  if (layer == nullptr) throw bad_input("[sequential] layer {} is none", layers_.size());
  add_module(std::to_string(layers_.size()), layer);
  layers_.push_back(std::move(layer));
}

}  // namespace gabbro::nn
