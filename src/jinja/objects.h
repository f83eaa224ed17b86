// The objects that global functions and methods make: namespaces, ranges, views of dicts, cyclers, joiners.
#pragma once

#include "src/jinja/runtime.h"

namespace gabbro::jinja {

template <class T, class... A>
Value make_object(A&&... args) {
  return Value(std::static_pointer_cast<Object>(std::make_shared<T>(std::forward<A>(args)...)));
}

// An integer of the input from 2^63 to 2^64 - 1. It prints and compares as such; arithmetic refuses it.
class LargeInteger : public Object {
 public:
  explicit LargeInteger(uint64_t value) : value_(value) {}
  std::string type_name() const override { return "int"; }
  std::string repr(Runtime&) const override { return std::to_string(value_); }
  bool equals(Runtime&, const Object& other) const override {
    const auto* integer = dynamic_cast<const LargeInteger*>(&other);
    return integer != nullptr && integer->value_ == value_;
  }

 private:
  uint64_t value_;
};

class Namespace : public Object {
 public:
  explicit Namespace(Dict values) : attributes(std::move(values)) {}
  std::string type_name() const override { return "Namespace"; }
  std::string qualified_name() const override { return "jinja2.utils.Namespace"; }
  std::string repr(Runtime& runtime) const override;
  bool attribute(Runtime& runtime, std::string_view name, Value* value) override;
  void clear() override { attributes = Dict(); }

  Dict attributes;
};

class RangeObject : public Object {
 public:
  RangeObject(int64_t start, int64_t stop, int64_t step, int64_t count)
      : start_(start), stop_(stop), step_(step), count_(count) {}
  std::string type_name() const override { return "range"; }
  std::string repr(Runtime& runtime) const override;
  bool truth() const override { return count_ > 0; }
  int64_t length() const override { return count_; }
  bool item(Runtime& runtime, const Value& key, Value* value) override;
  std::shared_ptr<Iterator> iterate(Runtime&) override { return walk(false); }
  std::shared_ptr<Iterator> reversed(Runtime&) override { return walk(true); }
  bool equals(Runtime&, const Object& other) const override;

 private:
  std::shared_ptr<Iterator> walk(bool backwards) const;
  // Unsigned, because step * index alone may need more than 64 bits.
  static int64_t element(int64_t start, int64_t step, int64_t index) {
    return static_cast<int64_t>(static_cast<uint64_t>(start) +
                                static_cast<uint64_t>(step) * static_cast<uint64_t>(index));
  }

  int64_t start_, stop_, step_, count_;
};

// dict.keys(), dict.values(), dict.items().
class DictView : public Object {
 public:
  enum class Part { kKeys, kValues, kItems };
  DictView(std::shared_ptr<const Dict> dict, Part part) : dict_(std::move(dict)), part_(part) {}
  std::string type_name() const override;
  std::string repr(Runtime& runtime) const override;
  bool truth() const override { return dict_->size() > 0; }
  int64_t length() const override { return static_cast<int64_t>(dict_->size()); }
  std::shared_ptr<Iterator> iterate(Runtime& runtime) override { return walk(runtime, false); }
  std::shared_ptr<Iterator> reversed(Runtime& runtime) override { return walk(runtime, true); }
  bool equals(Runtime& runtime, const Object& other) const override;
  int depth() const override { return dict_->depth() + 1; }

 private:
  std::shared_ptr<Iterator> walk(Runtime& runtime, bool backwards) const;

  std::shared_ptr<const Dict> dict_;
  Part part_;
};

class Cycler : public Object {
 public:
  Cycler(std::vector<Value> items, int depth) : items_(std::move(items)), depth_(depth) {}
  std::string type_name() const override { return "Cycler"; }
  std::string qualified_name() const override { return "jinja2.utils.Cycler"; }
  bool attribute(Runtime& runtime, std::string_view name, Value* value) override;
  int depth() const override { return depth_; }

 private:
  std::vector<Value> items_;
  int depth_;
  size_t at_ = 0;
};

class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  std::string qualified_name() const override { return "jinja2.utils.Joiner"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override;
  int depth() const override { return separator_.depth() + 1; }

 private:
  Value separator_;
  bool used_ = false;
};

}  // namespace gabbro::jinja
