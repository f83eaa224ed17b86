#include "src/text/chat/go_template/execute.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/text/chat/go_template/functions.h"

namespace gabbro::text::go {
namespace {

constexpr int64_t kMostSteps = 2'000'000;
constexpr size_t kMostBytes = size_t{64} << 20;
constexpr int kDeepestCalls = 100;  // of templates that call each other

class Execution {
 public:
  Execution(const Tree& tree, std::time_t now) : tree_(tree), now_(now) {}

  MarkedText run(const Nodes& nodes, const Value& data) {
    variables_ = {{"$", data}};
    walk(nodes, data);
    return std::move(out_);
  }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  void step() {
    if (++steps_ > kMostSteps) throw bad_input("template: it takes more than {} steps", kMostSteps);
  }
  void write(const MarkedText& text) {
    if (out_.size() + text.size() > kMostBytes) throw bad_input("template: it writes more than {} bytes", kMostBytes);
    out_.append(text);
  }

  Flow walk(const Nodes& nodes, const Value& dot) {
    for (const Node& node : nodes) {
      step();
      const Flow flow = walk(node, dot);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Flow walk(const Node& node, const Value& dot) {
    switch (node.kind) {
      case Node::Kind::kText:
        write(MarkedText(node.text));
        return Flow::kNext;
      case Node::Kind::kAction: {
        const Value value = evaluate(*node.pipe, dot);
        if (node.pipe->variables.empty()) write(printed(value));
        return Flow::kNext;
      }
      case Node::Kind::kIf:
      case Node::Kind::kWith: {
        const size_t scope = variables_.size();
        const Value value = evaluate(*node.pipe, dot);
        const Flow flow =
            is_true(value) ? walk(node.body, node.kind == Node::Kind::kWith ? value : dot) : walk(node.otherwise, dot);
        variables_.resize(scope);
        return flow;
      }
      case Node::Kind::kRange:
        return walk_range(node, dot);
      case Node::Kind::kTemplate:
        call_template(node, dot);
        return Flow::kNext;
      case Node::Kind::kBreak:
        return Flow::kBreak;
      case Node::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  void call_template(const Node& node, const Value& dot) {
    const auto found = tree_.defined.find(node.text);
    if (found == tree_.defined.end()) throw bad_input("template: {} is not defined", quote(node.text));
    if (++depth_ > kDeepestCalls) throw bad_input("template: templates call each other too deeply");
    const Value data = node.pipe ? evaluate(*node.pipe, dot) : Value();
    const auto outer = std::exchange(variables_, {{"$", data}});
    walk(found->second, data);
    variables_ = outer;
    --depth_;
  }

  Flow walk_range(const Node& node, const Value& dot) {
    const size_t outer = variables_.size();
    Pipe pipe = *node.pipe;
    const std::vector<std::string> names = std::exchange(pipe.variables, {});
    const Value value = evaluate(pipe, dot);
    bool ran = false;
    const auto iterate = [&](const Value& key, const Value& element) {
      ran = true;
      const size_t scope = variables_.size();
      const auto set = [&](const std::string& name, const Value& to) { set_variable(*node.pipe, name, to); };
      if (names.size() == 1) set(names[0], element);
      if (names.size() == 2) {
        set(names[0], key);
        set(names[1], element);
      }
      const Flow flow = walk(node.body, element);
      variables_.resize(scope);
      return flow != Flow::kBreak;
    };
    visit(value, iterate);
    Flow flow = Flow::kNext;
    if (!ran) flow = walk(node.otherwise, dot);
    variables_.resize(outer);
    return flow;
  }

  // Calls f(key, element) until it returns false.
  template <class F>
  void visit(const Value& value, const F& f) {
    if (value.is_nil()) return;
    if (const List* list = value.list()) {
      for (size_t i = 0; i < list->size(); ++i) {
        step();
        if (!f(Value(static_cast<int64_t>(i)), (*list)[i])) return;
      }
      return;
    }
    if (const auto* count = value.as<int64_t>()) {
      for (int64_t i = 0; i < *count; ++i) {
        step();
        if (!f(Value(i), Value(i))) return;
      }
      return;
    }
    const Object* object = value.object();
    if (object == nullptr || object->is_struct) throw bad_input("template: range over {}", type_name(value));
    std::vector<const Object::Field*> fields;
    for (const Object::Field& field : object->fields) fields.push_back(&field);
    std::ranges::sort(fields, {}, [](const Object::Field* field) { return field->name; });
    for (const Object::Field* field : fields) {
      step();
      if (!f(Value(MarkedText::input(field->name)), *field->value)) return;
    }
  }

  Value& variable(const std::string& name) {
    const auto found =
        std::find_if(variables_.rbegin(), variables_.rend(), [&](const auto& v) { return v.first == name; });
    if (found == variables_.rend()) throw bad_input("template: undefined variable {}", quote(name));
    return found->second;
  }
  // Assigned by the pipeline's "=" or ":=".
  void set_variable(const Pipe& pipe, const std::string& name, const Value& value) {
    if (pipe.assigns) {
      variable(name) = value;
    } else {
      variables_.emplace_back(name, value);
    }
  }

  Value evaluate(const Pipe& pipe, const Value& dot) {
    Value value;
    for (size_t i = 0; i < pipe.commands.size(); ++i) value = evaluate(pipe.commands[i], dot, i > 0 ? &value : nullptr);
    for (const std::string& name : pipe.variables) set_variable(pipe, name, value);
    return value;
  }

  // `last`: the value of the command before, which is the last argument.
  Value evaluate(const Command& command, const Value& dot, const Value* last) {
    step();
    const Operand& first = command.operands.front();
    if (first.kind != Operand::Kind::kFunction) {
      if (last != nullptr) throw bad_input("template: a value is given to something that is not a function");
      if (first.kind == Operand::Kind::kNil) throw bad_input("template: nil is not a command");
      return evaluate(first, dot);
    }
    if (first.name == "and" || first.name == "or") return logical(command, dot, last);
    std::vector<Value> arguments;
    for (size_t i = 1; i < command.operands.size(); ++i) arguments.push_back(argument(command.operands[i], dot));
    if (last != nullptr) arguments.push_back(*last);
    return call(first.name, arguments, now_);
  }

  // A function as an argument is called without arguments.
  Value argument(const Operand& operand, const Value& dot) {
    if (operand.kind != Operand::Kind::kFunction) return evaluate(operand, dot);
    return evaluate(Command{{operand}}, dot, nullptr);
  }

  // The first argument that decides, or the last one; later ones are not evaluated.
  Value logical(const Command& command, const Value& dot, const Value* last) {
    const bool stops_at = command.operands.front().name == "or";
    if (command.operands.size() == 1 && last == nullptr)
      throw bad_input("template: {}: an argument is missing", stops_at ? "or" : "and");
    Value value;
    for (size_t i = 1; i < command.operands.size(); ++i) {
      value = argument(command.operands[i], dot);
      if (is_true(value) == stops_at) return value;
    }
    return last != nullptr ? *last : value;
  }

  Value evaluate(const Operand& operand, const Value& dot) {
    switch (operand.kind) {
      case Operand::Kind::kDot:
        return dot;
      case Operand::Kind::kNil:
        return {};
      case Operand::Kind::kLiteral:
        return operand.literal;
      case Operand::Kind::kField:
        return fields_of(dot, operand.fields);
      case Operand::Kind::kVariable:
        return fields_of(variable(operand.name), operand.fields);
      case Operand::Kind::kPipe:
        return fields_of(evaluate(*operand.pipe, dot), operand.fields);
      case Operand::Kind::kFunction:
        return evaluate(Command{{operand}}, dot, nullptr);
    }
    return {};
  }

  // A field of nil is nil, but for one that is the field of another value.
  Value fields_of(Value value, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (value.is_nil() && &name == &names.front()) return {};
      const Object* object = value.object();
      const Value* found = object != nullptr ? object->find(name) : nullptr;
      if (object == nullptr || (found == nullptr && object->is_struct))
        throw bad_input("template: can't evaluate field {} in {}", quote(name), type_name(value));
      value = found != nullptr ? Value(*found) : Value();
    }
    return value;
  }

  const Tree& tree_;
  std::time_t now_;
  MarkedText out_;
  std::vector<std::pair<std::string, Value>> variables_;
  int64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace

MarkedText execute(const Nodes& nodes, const Tree& tree, const Value& data, std::time_t now) {
  return Execution(tree, now).run(nodes, data);
}

}  // namespace gabbro::text::go
