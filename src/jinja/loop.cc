#include "src/jinja/loop.h"

#include <algorithm>

#include "src/jinja/operators.h"

namespace gabbro::jinja {

bool Loop::advance(Runtime& runtime) {
  Value value;
  if (next_) {
    value = std::move(*next_);
    next_.reset();
  } else if (!iterator_->next(runtime, &value)) {
    return false;
  }
  ++index_;
  previous_ = std::move(current_);
  current_ = std::move(value);
  return true;
}

bool Loop::peek(Runtime& runtime) {
  if (next_) return true;
  Value value;
  if (!iterator_->next(runtime, &value)) return false;
  next_ = std::move(value);
  return true;
}

int64_t Loop::count(Runtime& runtime) {
  if (count_ >= 0) return count_;
  const bool sized = source_.kind() != Kind::kObject || source_.object()->length() >= 0;
  if (sized) {
    count_ = jinja::length(runtime, source_);
    return count_;
  }
  // A generator: read the rest, and go on from there.
  std::vector<Value> rest;
  for (Value value; iterator_->next(runtime, &value);) rest.push_back(std::move(value));
  count_ = static_cast<int64_t>(rest.size()) + index_ + 1 + (next_ ? 1 : 0);
  iterator_ = jinja::iterate(runtime, runtime.list(std::move(rest)));
  return count_;
}

std::string Loop::repr(Runtime&) const { return fmt::format("<LoopContext {}/{}>", index_ + 1, count_); }

Value Loop::method(Value (Loop::*body)(Runtime&, const Args&)) {
  const auto self = std::static_pointer_cast<Loop>(shared_from_this());
  return Value(std::static_pointer_cast<Object>(std::make_shared<Function>(
      "loop", [self, body](Runtime& runtime, const Args& args) { return ((*self).*body)(runtime, args); })));
}

bool Loop::attribute(Runtime& runtime, std::string_view name, Value* value) {
  if (name == "index") {
    *value = index_ + 1;
  } else if (name == "index0") {
    *value = index_;
  } else if (name == "first") {
    *value = index_ == 0;
  } else if (name == "last") {
    *value = !peek(runtime);
  } else if (name == "length") {
    *value = count(runtime);
  } else if (name == "revindex") {
    *value = count(runtime) - index_;
  } else if (name == "revindex0") {
    *value = count(runtime) - index_ - 1;
  } else if (name == "depth") {
    *value = depth_ + 1;
  } else if (name == "depth0") {
    *value = depth_;
  } else if (name == "previtem") {
    *value = index_ == 0 ? Value::undefined("there is no previous item") : previous_;
  } else if (name == "nextitem") {
    *value = peek(runtime) ? *next_ : Value::undefined("there is no next item");
  } else if (name == "changed") {
    *value = method(&Loop::changed);
  } else if (name == "cycle") {
    *value = method(&Loop::cycle);
  } else {
    return false;
  }
  return true;
}

Value Loop::changed(Runtime& runtime, const Args& args) {
  Value value = runtime.tuple(args.positional);
  const bool changed = !last_changed_ || !equal(runtime, *last_changed_, value);
  if (changed) last_changed_ = std::move(value);
  return changed;
}

Value Loop::cycle(Runtime& runtime, const Args& args) {
  if (args.positional.empty()) throw runtime.error("no items for cycling given");
  return args.positional[static_cast<size_t>(index_) % args.positional.size()];
}

Value Loop::call(Runtime& runtime, const Args& args) {
  if (!node_.recursive) {
    throw runtime.error("The loop must have the 'recursive' marker to be called recursively.");
  }
  const Bound bound(runtime, "loop", args, {"iterable"}, 1);
  const Nested nested(runtime);
  MarkedText out;
  static_cast<Interpreter&>(runtime).run_loop(node_, bound[0], frame_, depth_ + 1, &out);
  return runtime.text(std::move(out));
}

void Loop::clear() {
  frame_.reset();
  iterator_.reset();
  source_ = previous_ = current_ = Value();
  next_.reset();
  last_changed_.reset();
}

bool MacroObject::attribute(Runtime& runtime, std::string_view name, Value* value) {
  if (name == "name") {
    *value = node_.name;
  } else if (name == "arguments") {
    *value = runtime.tuple(std::vector<Value>(node_.parameters.begin(), node_.parameters.end()));
  } else if (name == "catch_kwargs") {
    *value = node_.uses_kwargs;
  } else if (name == "catch_varargs") {
    *value = node_.uses_varargs;
  } else if (name == "caller") {
    *value = node_.uses_caller;
  } else {
    return false;
  }
  return true;
}

Value MacroObject::call(Runtime& runtime, const Args& args) {
  const Nested nested(runtime);
  const FramePtr frame = frame_;  // the macro may be replaced while it runs
  return static_cast<Interpreter&>(runtime).run_macro(node_, frame, args);
}

Value Interpreter::make_macro(const MacroNode& macro, const FramePtr& frame) {
  const auto object = std::make_shared<MacroObject>(macro, frame);
  keep(object);
  return Value(std::static_pointer_cast<Object>(object));
}

// Binds the arguments as Jinja's Macro.__call__ does, then renders the body.
Value Interpreter::run_macro(const MacroNode& macro, const FramePtr& frame, const Args& args) {
  const auto inner = std::make_shared<Frame>(frame);
  std::vector<std::pair<std::string, Value>> named = args.named;
  const auto take = [&](std::string_view name, Value* value) {
    const auto found = std::find_if(named.begin(), named.end(), [&](const auto& entry) { return entry.first == name; });
    if (found == named.end()) return false;
    *value = found->second;
    named.erase(found);
    return true;
  };
  const size_t count = macro.parameters.size();
  const bool found_caller =
      std::find(macro.parameters.begin(), macro.parameters.end(), "caller") != macro.parameters.end();
  std::vector<Value> values(count);
  std::vector<bool> given(count);
  for (size_t i = 0; i < count; ++i) {
    given[i] = i < args.positional.size() || take(macro.parameters[i], &values[i]);
    if (i < args.positional.size()) values[i] = args.positional[i];
  }
  if (macro.uses_caller && !found_caller) {
    Value caller;
    take("caller", &caller);
    inner->set("caller", caller.is_none() ? Value::undefined("No caller defined") : caller);
  }
  if (macro.uses_kwargs) {
    Dict kwargs;
    for (auto& [name, value] : named) kwargs.set(*this, Value(name), std::move(value));
    inner->set("kwargs", dict(std::move(kwargs)));
  } else if (!named.empty()) {
    throw error("macro '{}' takes no keyword argument '{}'", macro.name, named[0].first);
  }
  if (macro.uses_varargs) {
    const size_t used = std::min(count, args.positional.size());
    inner->set("varargs", tuple({args.positional.begin() + static_cast<std::ptrdiff_t>(used), args.positional.end()}));
  } else if (args.positional.size() > count) {
    throw error("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro.parameters[i];
    if (!given[i]) {
      values[i] = macro.defaults[i] ? eval(*macro.defaults[i], inner)
                                    : Value::undefined(fmt::format("parameter '{}' was not provided", name));
    }
    inner->set(name, std::move(values[i]));
  }
  MarkedText out;
  run(macro.body, inner, &out);
  return text(std::move(out));
}

}  // namespace gabbro::jinja
