// Modules: named tensors and the modules inside of them, with PyTorch's names, so that state dicts can be exchanged.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "gabbro/nn/factory.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
using StateDict = std::vector<NamedTensor>;  // in the order of registration

// The place of a module's tensor, which keeps the module alive. Tensors never change: a new value is another tensor in
// this place.
struct Slot {
  std::string name;  // "encoder.layers.0.linear1.weight"
  std::shared_ptr<Tensor> tensor;
};

// Base of modules. The constructor of a derived class registers its members by reference: parameters, which are trained
// and have gradients; buffers, which are not; and modules. Held by a shared_ptr; does not move.
class Module : public std::enable_shared_from_this<Module> {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Slots of this module, then of the modules inside; each slot once.
  std::vector<Slot> parameters();
  std::vector<Slot> buffers();
  // All of their tensors: what a training step has to evaluate besides the loss.
  std::vector<Tensor> tensors();
  // The device of the first tensor; null: the module has no tensors.
  std::shared_ptr<Device> tensor_device() const;

  struct Child {
    std::string name;
    std::shared_ptr<Module> module;
  };
  const std::vector<Child>& children() const { return children_; }
  // The member of this name that is registered here, and not in a module inside; null: no such member.
  Tensor* own_tensor(const std::string& name) const;

  // The values under their names, without their histories.
  StateDict state_dict() const;
  // Replaces the values by these, brought to the dtype and device of the old ones. Throws bad_input, before anything
  // was replaced, that names tensors of other shapes and (strict) those that are missing or not known. Not strict, it
  // leaves these be.
  // Initial values that are replaced before they were read are never computed.
  void load_state_dict(const StateDict& state, bool strict = true);

  // Whether dropout drops and batch norm looks at the batch; so for all modules inside.
  void train(bool on = true);
  bool is_training() const { return training_; }

  // How often an option was changed after the module was made, as compiled functions want to know it.
  uint64_t changes() const { return changes_; }
  void note_change() { ++changes_; }

  // Forgets the gradients of all parameters, or makes their elements 0.
  void zero_grad(bool set_to_none = true);
  void requires_grad(bool required);  // frozen parameters have no gradient
  void to_device(const std::shared_ptr<Device>& device);
  void to_dtype(DType dtype);  // of what is floating: f32, f16, bf16 or f64

 protected:
  // `member` gets the value, and is a leaf from now on. An undefined value is none: a bias that was not asked for.
  void add_parameter(std::string name, Tensor& member, Tensor value);
  // The factory's weight of this name instead of the initial value, if it has weights: then a buffer.
  void add_parameter(const Factory& make, std::string name, Tensor& member, Tensor initial);
  Tensor& add_parameter(const Factory& make, std::string name, Tensor initial);
  void add_buffer(const Factory& make, std::string name, Tensor& member, Tensor initial);
  // One that is not persistent is missing in state dicts.
  void add_buffer(std::string name, Tensor& member, Tensor value, bool persistent = true);
  // As above, without a member: the tensor lives in the module.
  Tensor& add_parameter(std::string name, Tensor value);
  Tensor& add_buffer(std::string name, Tensor value, bool persistent = true);
  template <class M>
  void add_module(std::string name, std::shared_ptr<M>& member, std::shared_ptr<M> module) {
    member = module;
    add_module(std::move(name), std::move(module));
  }
  void add_module(std::string name, std::shared_ptr<Module> module);
  void keep(const std::string& name, std::shared_ptr<void> owner);  // of a member that does not live in the module
  void remove(const std::string& name);  // forgets the tensor or module of this name, if there is one

 private:
  struct Entry {
    std::string name;
    Tensor* tensor;
    bool is_parameter;
    bool persistent;
    std::shared_ptr<void> owner = nullptr;
  };
  struct Found {
    std::string name;
    const Entry* entry;
  };

  void check_name(const std::string& name) const;
  void find(const std::string& prefix, std::vector<Found>& found) const;
  bool contains(const Module& other) const;
  std::vector<Found> all() const;
  std::vector<Found> computed() const;
  std::vector<Slot> slots(bool parameters);

  std::vector<Entry> entries_;
  std::vector<Child> children_;
  std::deque<Tensor> owned_;
  bool training_ = true;
  uint64_t changes_ = 0;
};

// A module of one tensor, which gives one tensor.
class Layer : public Module {
 public:
  virtual Tensor forward(const Tensor& x) = 0;
  Tensor operator()(const Tensor& x) { return forward(x); }
};

// Layers in sequence, under the names "0", "1", ...
class Sequential : public Layer {
 public:
  Sequential(std::initializer_list<std::shared_ptr<Layer>> layers);
  explicit Sequential(const std::vector<std::shared_ptr<Layer>>& layers);

  Tensor forward(const Tensor& x) override;
  void append(std::shared_ptr<Layer> layer);
  size_t size() const { return layers_.size(); }
  const std::shared_ptr<Layer>& operator[](size_t i) const { return layers_.at(i); }

 private:
  std::vector<std::shared_ptr<Layer>> layers_;
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
