// State of a running template: its bounds, the current line, and how to call things.
// Templates come with model files from anywhere, so steps, memory, nesting and output are all bounded.
#pragma once

#include <fmt/format.h>

#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/jinja/value.h"

namespace gabbro::jinja {

struct Limits {
  uint64_t steps = 20'000'000;       // nodes evaluated and elements touched: about two seconds
  size_t memory = size_t{1} << 30;   // bytes of values made, summed over the whole rendering
  size_t output = size_t{64} << 20;  // bytes of the result, and of any one string
  int depth = 1000;                  // nested evaluations: about a hundred nested macro calls
};

// Containers nest no deeper than this, so that walking and freeing them cannot exhaust the stack.
inline constexpr int kMaxValueDepth = 300;

// "template: line 12: ...", in one line whatever the message holds.
Error template_error(int line, std::string_view message);

class Runtime {
 public:
  explicit Runtime(Limits limits, std::optional<std::time_t> now = {}) : limits_(limits), now_(now) {}
  virtual ~Runtime() = default;

  virtual Value call(const Value& callee, const Args& args) = 0;
  virtual Value call_filter(const std::string& name, const Value& input, const Args& args) = 0;
  virtual bool call_test(const std::string& name, const Value& input, const Args& args) = 0;
  // Keeps an object that may take part in a cycle, and clears it when the rendering ends.
  virtual void keep(std::shared_ptr<Object> object) = 0;

  void step(uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) throw error("the template takes more than {} steps", limits_.steps);
  }
  // Accounts for reading through a text, which takes time and may leave nothing behind.
  void scan(std::string_view text) { step(text.size() / 64); }
  // Accounts for `bytes` before they are allocated.
  void reserve(size_t bytes);
  // A string's worth of bytes, which has a separate bound.
  void reserve_text(size_t bytes);
  void reserve_text(const MarkedText& text) {
    reserve_text(text.size());
    reserve(text.spans().size() * sizeof(InputSpan));
  }

  // Fails where a text in the making is already longer than it may become.
  void check_length(std::string_view text) {
    if (text.size() > limits_.output) reserve_text(text.size());
  }
  void check_length(const MarkedText& text) { check_length(std::string_view(text.bytes())); }

  Value text(MarkedText text) {
    reserve_text(text);
    return Value(std::move(text));
  }
  Value markup(MarkedText text) {
    reserve_text(text);
    return Value::markup(std::move(text));
  }
  // A text made of `origin`: Markup where that is.
  Value text_like(const Value& origin, MarkedText made) {
    return origin.is_markup() ? markup(std::move(made)) : text(std::move(made));
  }
  // An undefined value whose message quotes a text of the template.
  Value undefined(std::string message) {
    reserve_text(message.size());
    return Value::undefined(std::move(message));
  }
  Value list(std::vector<Value> items) { return sequence(std::move(items), false); }
  Value tuple(std::vector<Value> items) { return sequence(std::move(items), true); }
  Value dict(Dict dict);
  Value sequence(std::vector<Value> items, bool is_tuple, bool is_group = false);
  // The value itself; fails where it nests too deeply to be put into another one.
  const Value& checked(const Value& value);

  template <class... T>
  Error error(fmt::format_string<T...> format, T&&... args) const {
    return template_error(line, fmt::format(format, std::forward<T>(args)...));
  }

  const Limits& limits() const { return limits_; }
  std::time_t now() const { return now_ ? *now_ : std::time(nullptr); }

  int line = 1;   // of the node that is being evaluated
  int depth = 0;  // of nested evaluations

 private:
  Limits limits_;
  std::optional<std::time_t> now_;
  uint64_t steps_ = 0;
  size_t memory_ = 0;
};

// Counts one more nested evaluation for as long as it lives.
class Nested {
 public:
  explicit Nested(Runtime& runtime) : runtime_(runtime) {
    if (runtime.depth >= runtime.limits().depth) throw runtime.error("maximum recursion depth exceeded");
    ++runtime.depth;
  }
  ~Nested() { --runtime_.depth; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Runtime& runtime_;
};

// An iterator made of a function that stores the next value and tells whether there was one.
class Generator : public Iterator {
 public:
  using Step = std::function<bool(Runtime&, Value*)>;
  Generator(Step step, int depth) : step_(std::move(step)), depth_(depth) {}
  bool next(Runtime& runtime, Value* value) override;
  int depth() const override { return depth_; }

 private:
  Step step_;
  int depth_;
  bool done_ = false;
  bool running_ = false;
};

// A generator over something made from `source`.
Value generate(Runtime& runtime, const Value& source, Generator::Step step);

// A native function.
class Function : public Object {
 public:
  using Body = std::function<Value(Runtime&, const Args&)>;
  Function(std::string name, Body body, int depth = 1)
      : name_(std::move(name)), body_(std::move(body)), depth_(depth) {}
  std::string type_name() const override { return "builtin_function_or_method"; }
  std::string repr(Runtime& runtime) const override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override;
  int depth() const override { return depth_; }

 private:
  std::string name_;
  Body body_;
  int depth_;
};

// Arguments bound to the parameters of a native function, `names`, as Python binds them.
class Bound {
 public:
  Bound(Runtime& runtime, std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
        size_t required = 0);

  bool has(size_t index) const { return values_[index] != nullptr; }
  const Value& operator[](size_t index) const { return *values_[index]; }
  Value get(size_t index, const Value& otherwise) const { return has(index) ? *values_[index] : otherwise; }
  bool given(size_t index) const { return has(index) && !values_[index]->is_none(); }  // and not None
  int64_t integer(size_t index, int64_t otherwise) const;
  std::string string(size_t index, std::string_view otherwise) const;
  bool truth(size_t index, bool otherwise) const;

 private:
  Runtime& runtime_;
  std::vector<const Value*> values_;
};

}  // namespace gabbro::jinja
