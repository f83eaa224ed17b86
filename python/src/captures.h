// Objects that a traced function uses without being given them: tensors, whose values are read again in each call,
// and everything else, which has to be as it was.
#pragma once

#include <optional>
#include <vector>

#include "gabbro/nn/module.h"
#include "python/src/bind.h"

namespace gabbro::python {

class Captures {
 public:
  // `places`: objects of the class Tensor.
  explicit Captures(const nb::list& places);
  // Tuples that begin with a kind, see captures.cc.
  void set_guards(const nb::list& guards);
  // Forgets the places with false.
  void keep(const std::vector<bool>& kept);

  // Whether everything but the tensors is as it was, the modes of the thread among it.
  bool hold() const;

  size_t size() const { return places_.size(); }
  Tensor& place(size_t i) const { return *places_[i].tensor; }

 private:
  enum class Kind {
    kItem,
    kCell,
    kAttribute,
    kList,
    kDict,
    kEqual,
    kBytes,
    kTraining,
    kState,
    kSize,
    kOptions,
    kAbsent,
    kBound,
    kSequence
  };
  struct Guard {
    Kind kind;
    nb::object holder, key, expected;
    const nn::Module* module = nullptr;            // the holder
    uint64_t number = 0;                           // kTraining, kSize, kOptions: the expected one
    std::shared_ptr<TensorState> state = nullptr;  // kState: the value that a tensor had
  };
  struct Place {
    nb::object holder;
    Tensor* tensor;
  };
  struct Modes {
    bool gradients = true;
    std::optional<DType> autocast;
    const Device* device = nullptr;  // of new tensors
    bool operator==(const Modes&) const = default;
  };

  static Modes modes();
  static bool holds(const Guard& guard);

  std::vector<Guard> guards_;
  std::vector<Place> places_;
  Modes modes_;
};

}  // namespace gabbro::python
