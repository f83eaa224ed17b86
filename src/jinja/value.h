// The values of a template: Python's plain data, Jinja's Undefined, and objects (iterators, macros, namespaces ...).
// Values are immutable and shared; only a namespace and an iterator change. Strings are UTF-8 and count in code points;
// one that `safe` or `escape` gave is markupsafe's Markup, a string that escapes what is added to it (markup.cc).
// Strings know which of their bytes are input (marked_text.h): what copies or rearranges text keeps the marks, and
// what makes new text from input marks all of it (marks.h).
// Integers are 64 bits wide: where Python would go on with a longer one, the operation fails and says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "src/jinja/marked_text.h"

namespace gabbro::jinja {

class Dict;
class Iterator;
class Object;
class Runtime;
class Value;
struct Args;

struct Sequence;

enum class Kind { kNone, kBool, kInt, kFloat, kString, kList, kTuple, kDict, kObject, kUndefined };

class Value {
 public:
  Value() = default;  // None
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(int value) : data_(static_cast<int64_t>(value)) {}
  Value(double value) : data_(value) {}
  Value(MarkedText value) : data_(std::make_shared<const MarkedText>(std::move(value))) {}
  Value(std::string value) : Value(MarkedText(std::move(value))) {}
  Value(std::string_view value) : Value(std::string(value)) {}
  Value(const char* value) : Value(std::string(value)) {}
  Value(std::shared_ptr<const Sequence> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<const Dict> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<Object> value) : data_(std::move(value)) {}

  // `message` is what using the value says, as in "'foo' is undefined".
  static Value undefined(std::string message);
  static Value markup(MarkedText text);

  Kind kind() const;
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_markup() const { return std::holds_alternative<Markup>(data_); }  // a string too
  bool is_number() const;                                                   // bool, int or float
  bool is_integer() const;                                                  // bool or int
  bool is_sequence() const { return std::holds_alternative<std::shared_ptr<const Sequence>>(data_); }
  bool is_dict() const { return kind() == Kind::kDict; }

  // Each requires the kind that it names; integer() takes a bool too, number() any number.
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const;
  double number() const;
  const MarkedText& text() const;  // of a string, Markup too
  const std::string& string() const { return text().bytes(); }
  const std::vector<Value>& items() const;
  const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(data_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  std::shared_ptr<const Dict> dict_ptr() const { return std::get<std::shared_ptr<const Dict>>(data_); }
  const std::shared_ptr<Object>& object() const { return std::get<std::shared_ptr<Object>>(data_); }
  const std::string& message() const { return *std::get<Undefined>(data_).message; }

  // The object as a T, or null where the value is something else.
  template <class T>
  std::shared_ptr<T> as() const {
    const auto* object = std::get_if<std::shared_ptr<Object>>(&data_);
    return object ? std::dynamic_pointer_cast<T>(*object) : nullptr;
  }

  bool same_as(const Value& other) const;  // Python's `is`
  int depth() const;                       // how deeply containers nest: 0 for a number
  std::string type_name() const;           // Python's name of the type, as in "NoneType"

 private:
  struct Undefined {
    std::shared_ptr<const std::string> message;
  };
  struct Markup {
    std::shared_ptr<const MarkedText> text;
  };
  std::variant<std::monostate, bool, int64_t, double, std::shared_ptr<const MarkedText>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, std::shared_ptr<Object>, Undefined, Markup>
      data_;
};

// A list or a tuple.
struct Sequence {
  std::vector<Value> items;
  bool is_tuple = false;
  bool is_group = false;  // what the filter groupby yields: has the attributes `grouper` and `list`
  int depth = 1;
};

// A dict in insertion order. Keys compare as Python's do: 1, 1.0 and true are one key.
class Dict {
 public:
  // Throws (through the runtime) for a key that Python cannot hash.
  void set(Runtime& runtime, const Value& key, Value value);
  void set(std::string_view key, Value value);
  void set_marked(MarkedText key, Value value);
  const Value* find(Runtime& runtime, const Value& key) const;  // null where it is missing
  const Value* find(std::string_view key) const;
  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

 private:
  const Value* find_hashed(const std::string& hashed) const;
  void set_hashed(std::string hashed, const Value& key, Value value);

  std::vector<std::pair<Value, Value>> entries_;
  std::unordered_map<std::string, size_t> index_;
  int depth_ = 1;
};

// The text that equal keys share. Throws for what Python cannot hash: lists, dicts.
std::string hash_key(Runtime& runtime, const Value& key);

// A value that is neither plain data nor undefined.
class Object : public std::enable_shared_from_this<Object> {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  virtual std::string qualified_name() const { return type_name(); }  // with the module, as in messages
  virtual std::string repr(Runtime& runtime) const;
  virtual bool truth() const { return true; }
  virtual int64_t length() const { return -1; }  // -1: has no length
  virtual bool attribute(Runtime&, std::string_view, Value*) { return false; }
  virtual bool item(Runtime&, const Value&, Value*) { return false; }  // false: no such element
  virtual std::shared_ptr<Iterator> iterate(Runtime&) { return nullptr; }
  virtual std::shared_ptr<Iterator> reversed(Runtime&) { return nullptr; }
  virtual bool callable() const { return false; }
  virtual Value call(Runtime& runtime, const Args& args);
  virtual bool equals(Runtime&, const Object& other) const { return this == &other; }
  virtual int depth() const { return 1; }
  // Lets go of what may refer back to this object, at the end of the rendering.
  virtual void clear() {}
};

// The arguments of a call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Something that yields values once, as Python's generators do.
class Iterator : public Object {
 public:
  virtual bool next(Runtime& runtime, Value* value) = 0;
  std::string type_name() const override { return "generator"; }
  std::shared_ptr<Iterator> iterate(Runtime&) override {
    return std::static_pointer_cast<Iterator>(shared_from_this());
  }
};

}  // namespace gabbro::jinja
