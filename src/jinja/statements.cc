#include "src/jinja/interpreter.h"
#include "src/jinja/loop.h"
#include "src/jinja/objects.h"
#include "src/jinja/operators.h"

namespace gabbro::jinja {
namespace {

template <class... T>
struct Overloaded : T... {
  using T::operator()...;
};
// As C++20 deduces it by itself, which clang 14 does not.
template <class... T>
Overloaded(T...) -> Overloaded<T...>;

}  // namespace

const Value* Frame::find(std::string_view name) const {
  for (const Frame* frame = this; frame; frame = frame->parent.get()) {
    for (const auto& [known, value] : frame->variables) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Frame::set(const std::string& name, Value value) {
  for (auto& [known, old] : variables) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

Interpreter::~Interpreter() {
  for (const auto& object : kept_) object->clear();
}

void Interpreter::keep(std::shared_ptr<Object> object) {
  reserve(256);
  kept_.push_back(std::move(object));
}

MarkedText Interpreter::render(const Body& body) {
  MarkedText out;
  root_ = std::make_shared<Frame>(nullptr);
  run(body, root_, &out);
  return out;
}

void Interpreter::append(MarkedText* out, std::string_view text) {
  reserve(text.size());
  if (out->size() + text.size() > limits().output) {
    throw error("the template writes more than {} bytes", limits().output);
  }
  out->append(text);
}

void Interpreter::append(MarkedText* out, const MarkedText& text) {
  if (!text.has_input()) return append(out, std::string_view(text.bytes()));
  reserve(text.size() + text.spans().size() * sizeof(InputSpan));
  if (out->size() + text.size() > limits().output) {
    throw error("the template writes more than {} bytes", limits().output);
  }
  out->append(text);
}

Interpreter::Flow Interpreter::run(const Body& body, const FramePtr& frame, MarkedText* out) {
  for (const auto& statement : body) {
    if (const Flow flow = run(*statement, frame, out); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Stmt& statement, const FramePtr& frame, MarkedText* out) {
  const Nested nested(*this);
  step();
  const int outer_line = line;
  line = statement.line;
  const auto inner = [&] { return std::make_shared<Frame>(frame); };
  const auto next = [](auto&&...) { return Flow::kNext; };
  const Flow flow = std::visit(
      Overloaded{
          [&](const Data& node) { return next((append(out, std::string_view(node.text)), 0)); },
          [&](const Output& node) { return next((append(out, to_text(*this, eval(*node.value, frame))), 0)); },
          [&](const If& node) { return run(node, frame, out); },
          [&](const For& node) { return next((run_loop(node, eval(*node.iterable, frame), frame, 0, out), 0)); },
          [&](const Set& node) {
            check_namespaces(node.target, frame);
            return next((set(node.target, eval(*node.value, frame), frame), 0));
          },
          [&](const SetBlock& node) { return run(node, frame); },
          [&](const Macro& node) { return next((frame->set(node.macro.name, make_macro(node.macro, frame)), 0)); },
          [&](const CallBlock& node) { return next((run(node, frame, out), 0)); },
          [&](const FilterBlock& node) { return run(node, frame, out); },
          [&](const With& node) { return run(node, frame, out); },
          [&](const Block& node) { return run(node.body, std::make_shared<Frame>(node.scoped ? frame : root_), out); },
          [&](const Scope& node) { return run(node.body, inner(), out); },
          [&](const LoopControl& node) { return node.is_break ? Flow::kBreak : Flow::kContinue; },
          [&](const Unsupported& node) -> Flow {
            throw error("{{% {} %}} is not supported: a template stands alone", node.tag);
          },
      },
      statement.node);
  line = outer_line;
  return flow;
}

Interpreter::Flow Interpreter::run(const If& node, const FramePtr& frame, MarkedText* out) {
  for (const auto& [test, body] : node.branches) {
    if (truth(eval(*test, frame))) return run(body, frame, out);
  }
  return run(node.otherwise, frame, out);
}

Interpreter::Flow Interpreter::run(const FilterBlock& node, const FramePtr& frame, MarkedText* out) {
  const auto inner = std::make_shared<Frame>(frame);
  MarkedText text_of_block;
  const Flow flow = run(node.body, inner, &text_of_block);
  if (flow == Flow::kNext) {
    append(out, to_text(*this, filter_text(*node.filter, std::move(text_of_block), inner)));
  }
  return flow;
}

Interpreter::Flow Interpreter::run(const With& node, const FramePtr& frame, MarkedText* out) {
  const auto inner = std::make_shared<Frame>(frame);
  for (const auto& [target, value] : node.variables) set(target, eval(*value, frame), inner);
  return run(node.body, inner, out);
}

Interpreter::Flow Interpreter::run(const SetBlock& node, const FramePtr& frame) {
  const auto inner = std::make_shared<Frame>(frame);
  MarkedText text_of_block;
  const Flow flow = run(node.body, inner, &text_of_block);
  if (flow != Flow::kNext) return flow;
  const Value value =
      node.filter ? filter_text(*node.filter, std::move(text_of_block), inner) : text(std::move(text_of_block));
  set(node.target, value, frame);
  return flow;
}

void Interpreter::run(const CallBlock& node, const FramePtr& frame, MarkedText* out) {
  const auto& call_node = std::get<Call>(node.call->node);
  const Value callee = eval(*call_node.callee, frame);
  Args args = eval_args(call_node.args, frame);
  for (const auto& [name, value] : args.named) {
    if (name == "caller") throw error("got multiple values for keyword argument 'caller'");
  }
  args.named.emplace(args.named.begin(), "caller", make_macro(node.macro, frame));
  append(out, to_text(*this, call(callee, args)));
}

void Interpreter::check_namespaces(const Target& target, const FramePtr& frame) {
  for (const Target& item : target.items) check_namespaces(item, frame);
  if (target.attribute.empty()) return;
  const Value* value = frame->find(target.name);
  if (!value) value = variables_.find(target.name);
  if (!value || !value->as<Namespace>()) throw error("cannot assign attribute on non-namespace object");
}

void Interpreter::set(const Target& target, const Value& value, const FramePtr& frame) {
  if (!target.is_tuple) return set_variable(target, value, frame);
  const auto iterator = try_iterate(*this, value);
  if (!iterator) throw error("cannot unpack non-iterable {} object", value.type_name());
  std::vector<Value> items;
  for (Value item; iterator->next(*this, &item);) {
    if (items.size() == target.items.size()) {
      throw error("too many values to unpack (expected {})", target.items.size());
    }
    items.push_back(std::move(item));
  }
  if (items.size() < target.items.size()) {
    throw error("not enough values to unpack (expected {}, got {})", target.items.size(), items.size());
  }
  for (size_t i = 0; i < items.size(); ++i) set(target.items[i], items[i], frame);
}

void Interpreter::set_variable(const Target& target, const Value& value, const FramePtr& frame) {
  if (target.attribute.empty()) return frame->set(target.name, value);
  check_namespaces(target, frame);
  const Value* found = frame->find(target.name);
  found->as<Namespace>()->attributes.set(*this, Value(target.attribute), value);
}

void Interpreter::run_loop(const For& node, const Value& iterable, const FramePtr& frame, int loop_depth,
                           MarkedText* out) {
  Value source = iterable;
  if (node.filter) {
    const auto items = iterate(*this, iterable);
    source = generate(*this, iterable, [this, items, &node, frame](Runtime&, Value* value) {
      while (items->next(*this, value)) {
        const auto inner = std::make_shared<Frame>(frame);
        set(node.target, *value, inner);
        if (truth(eval(*node.filter, inner))) return true;
      }
      return false;
    });
  }
  const auto loop = std::make_shared<Loop>(source, iterate(*this, source), node, frame, loop_depth);
  keep(loop);
  bool finished_one = false;  // Jinja runs `else` also where every round ends with break or continue
  while (loop->advance(*this)) {
    const auto inner = std::make_shared<Frame>(frame);
    set(node.target, loop->current(), inner);
    inner->set("loop", Value(std::static_pointer_cast<Object>(loop)));
    const Flow flow = run(node.body, inner, out);
    if (flow == Flow::kBreak) break;
    finished_one = finished_one || flow == Flow::kNext;
  }
  if (!finished_one) run(node.otherwise, std::make_shared<Frame>(frame), out);
}

}  // namespace gabbro::jinja
