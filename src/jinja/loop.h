// The variable `loop` inside a for loop.
#pragma once

#include <optional>

#include "src/jinja/interpreter.h"

namespace gabbro::jinja {

class Loop : public Object {
 public:
  Loop(Value source, std::shared_ptr<Iterator> iterator, const For& node, FramePtr frame, int depth)
      : source_(std::move(source)),
        iterator_(std::move(iterator)),
        node_(node),
        frame_(std::move(frame)),
        depth_(depth) {}

  // Moves to the next item; false at the end.
  bool advance(Runtime& runtime);
  const Value& current() const { return current_; }

  std::string type_name() const override { return "LoopContext"; }
  std::string qualified_name() const override { return "jinja2.runtime.LoopContext"; }
  std::string repr(Runtime& runtime) const override;
  bool attribute(Runtime& runtime, std::string_view name, Value* value) override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override;  // renders the body for nested items
  void clear() override;

 private:
  int64_t count(Runtime& runtime);
  bool peek(Runtime& runtime);  // false: this is the last item
  Value changed(Runtime& runtime, const Args& args);
  Value cycle(Runtime& runtime, const Args& args);
  Value method(Value (Loop::*body)(Runtime&, const Args&));

  Value source_;
  std::shared_ptr<Iterator> iterator_;
  const For& node_;
  FramePtr frame_;
  int depth_;
  int64_t index_ = -1;
  int64_t count_ = -1;
  Value previous_, current_;
  std::optional<Value> next_;
  std::optional<Value> last_changed_;
};

// A macro, or the body of a call block, with the scope that it was defined in.
class MacroObject : public Object {
 public:
  MacroObject(const MacroNode& node, FramePtr frame) : node_(node), frame_(std::move(frame)) {}
  std::string type_name() const override { return "Macro"; }
  std::string qualified_name() const override { return "jinja2.runtime.Macro"; }
  std::string repr(Runtime&) const override { return fmt::format("<Macro '{}'>", node_.name); }
  bool attribute(Runtime& runtime, std::string_view name, Value* value) override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, const Args& args) override;
  void clear() override { frame_.reset(); }

 private:
  const MacroNode& node_;
  FramePtr frame_;
};

}  // namespace gabbro::jinja
