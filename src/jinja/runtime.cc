#include "src/jinja/runtime.h"

#include <algorithm>

#include "src/jinja/operators.h"

namespace gabbro::jinja {

Error template_error(int line, std::string_view message) {
  std::string text(message);
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return bad_input("template: line {}: {}", line, text);
}

void Runtime::reserve(size_t bytes) {
  memory_ += bytes;
  if (bytes > limits_.memory || memory_ > limits_.memory) {
    throw error("the template makes more than {} bytes of values", limits_.memory);
  }
}

void Runtime::reserve_text(size_t bytes) {
  if (bytes > limits_.output) throw error("a text of {} bytes is longer than the {} allowed", bytes, limits_.output);
  reserve(bytes + 64);
}

const Value& Runtime::checked(const Value& value) {
  if (value.depth() >= kMaxValueDepth) throw error("values nest more than {} deep", kMaxValueDepth);
  return value;
}

Value Runtime::sequence(std::vector<Value> items, bool is_tuple, bool is_group) {
  reserve(items.size() * sizeof(Value) + 64);
  Sequence result{.items = std::move(items), .is_tuple = is_tuple, .is_group = is_group};
  for (const Value& item : result.items) result.depth = std::max(result.depth, checked(item).depth() + 1);
  return Value(std::make_shared<const Sequence>(std::move(result)));
}

Value Runtime::dict(Dict dict) {
  reserve(64);
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

bool Generator::next(Runtime& runtime, Value* value) {
  if (done_) return false;
  if (running_) throw runtime.error("generator already executing");
  runtime.step();
  running_ = true;
  try {
    done_ = !step_(runtime, value);
  } catch (...) {
    running_ = false;
    done_ = true;
    throw;
  }
  running_ = false;
  return !done_;
}

Value generate(Runtime& runtime, const Value& source, Generator::Step step) {
  runtime.reserve(256);
  return Value(std::static_pointer_cast<Object>(
      std::make_shared<Generator>(std::move(step), runtime.checked(source).depth() + 1)));
}

std::string Function::repr(Runtime&) const { return fmt::format("<function {}>", name_); }

Value Function::call(Runtime& runtime, const Args& args) { return body_(runtime, args); }

Bound::Bound(Runtime& runtime, std::string_view function, const Args& args,
             std::initializer_list<std::string_view> names, size_t required)
    : runtime_(runtime), values_(names.size(), nullptr) {
  if (args.positional.size() > names.size()) {
    throw runtime.error("{}() takes at most {} arguments ({} given)", function, names.size(), args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) throw runtime.error("{}() got an unexpected keyword argument '{}'", function, name);
    const Value*& slot = values_[static_cast<size_t>(found - names.begin())];
    if (slot) throw runtime.error("{}() got multiple values for argument '{}'", function, name);
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!values_[i]) throw runtime.error("{}() missing required argument: '{}'", function, names.begin()[i]);
  }
}

int64_t Bound::integer(size_t index, int64_t otherwise) const {
  return has(index) ? to_index(runtime_, *values_[index]) : otherwise;
}

std::string Bound::string(size_t index, std::string_view otherwise) const {
  if (!has(index)) return std::string(otherwise);
  const Value& value = *values_[index];
  require_defined(runtime_, value);
  if (!value.is_string()) throw runtime_.error("expected a string, not '{}'", value.type_name());
  runtime_.scan(value.string());
  return value.string();
}

bool Bound::truth(size_t index, bool otherwise) const { return has(index) ? jinja::truth(*values_[index]) : otherwise; }

}  // namespace gabbro::jinja
