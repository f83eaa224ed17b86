// Truth, length, iteration, equality, order and membership.
#include <algorithm>

#include "src/jinja/operators.h"
#include "src/jinja/search.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

// Walks something by index; holds on to it meanwhile.
class IndexIterator : public Iterator {
 public:
  IndexIterator(Value source, size_t size, bool backwards)
      : source_(std::move(source)), size_(size), back_(backwards) {}
  std::string type_name() const override { return source_.type_name() + (back_ ? "_reverseiterator" : "_iterator"); }
  int depth() const override { return source_.depth() + 1; }
  bool next(Runtime& runtime, Value* value) override {
    if (at_ >= size_) return false;
    runtime.step();
    const size_t index = back_ ? size_ - 1 - at_ : at_;
    ++at_;
    *value = source_.is_dict() ? source_.dict().entries()[index].first : source_.items()[index];
    return true;
  }

 private:
  Value source_;
  size_t size_;
  size_t at_ = 0;
  bool back_;
};

class TextIterator : public Iterator {
 public:
  explicit TextIterator(Value source) : source_(std::move(source)) {}
  std::string type_name() const override { return "str_iterator"; }
  bool next(Runtime& runtime, Value* value) override {
    const std::string& text = source_.string();
    if (at_ >= text.size()) return false;
    runtime.step();
    const size_t begin = at_;
    next_code_point(text, &at_);
    *value = Value(source_.text().substr(begin, at_ - begin));
    return true;
  }

 private:
  Value source_;
  size_t at_ = 0;
};

bool compare(Order order, auto left, auto right) {
  switch (order) {
    case Order::kLess:
      return left < right;
    case Order::kLessEqual:
      return left <= right;
    case Order::kGreater:
      return left > right;
    case Order::kGreaterEqual:
      return left >= right;
  }
  return false;
}

// How containers compare their elements: NaN, which differs from itself, is found in its list.
bool same_or_equal(Runtime& runtime, const Value& x, const Value& y) {
  if (x.is_string()) return equal(runtime, x, y);
  runtime.step();
  return x.same_as(y) || equal(runtime, x, y);
}

// An int and a float compare by value, not by the float that is nearest to the int.
bool equal_mixed(int64_t integer, double number) {
  return number >= -0x1p63 && number < 0x1p63 && static_cast<double>(static_cast<int64_t>(number)) == number &&
         static_cast<int64_t>(number) == integer;
}

}  // namespace

void require_defined(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) throw runtime.error("{}", value.message());
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.number() != 0;
    case Kind::kString:
      return !value.string().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.items().empty();
    case Kind::kDict:
      return value.dict().size() != 0;
    case Kind::kObject:
      return value.object()->truth();
  }
  return false;
}

int64_t length(Runtime& runtime, const Value& value) {
  int64_t result = -1;
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      runtime.scan(value.string());
      return static_cast<int64_t>(count_code_points(value.string()));
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().size());
    case Kind::kObject:
      result = value.object()->length();
      break;
    default:
      break;
  }
  if (result < 0) throw runtime.error("object of type '{}' has no len()", value.type_name());
  return result;
}

std::shared_ptr<Iterator> try_iterate(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return std::make_shared<IndexIterator>(runtime.tuple({}), 0, false);
    case Kind::kString:
      return std::make_shared<TextIterator>(value);
    case Kind::kList:
    case Kind::kTuple:
      return std::make_shared<IndexIterator>(value, value.items().size(), false);
    case Kind::kDict:
      return std::make_shared<IndexIterator>(value, value.dict().size(), false);
    case Kind::kObject:
      return value.object()->iterate(runtime);
    default:
      return nullptr;
  }
}

std::shared_ptr<Iterator> iterate(Runtime& runtime, const Value& value) {
  auto iterator = try_iterate(runtime, value);
  if (!iterator) throw runtime.error("'{}' object is not iterable", value.type_name());
  return iterator;
}

std::vector<Value> collect(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  const auto iterator = iterate(runtime, value);
  for (Value item; iterator->next(runtime, &item);) {
    runtime.reserve(sizeof(Value));
    items.push_back(std::move(item));
  }
  return items;
}

Value reversed(Runtime& runtime, const Value& value) {
  std::shared_ptr<Iterator> result;
  switch (value.kind()) {
    case Kind::kString: {  // its items by index are Markup where it is, other than those by iteration
      const Value characters = runtime.list(collect(runtime, value));
      return reversed(runtime, value.is_markup() ? as_markup(runtime, characters) : characters);
    }
    case Kind::kList:
    case Kind::kTuple:
      result = std::make_shared<IndexIterator>(value, value.items().size(), true);
      break;
    case Kind::kDict:
      result = std::make_shared<IndexIterator>(value, value.dict().size(), true);
      break;
    case Kind::kObject:
      result = value.object()->reversed(runtime);
      break;
    case Kind::kUndefined:
      result = iterate(runtime, value);
      break;
    default:
      break;
  }
  return result ? Value(std::static_pointer_cast<Object>(result)) : Value();
}

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  runtime.step();
  if (left.is_number() && right.is_number()) {
    if (left.is_integer() && right.is_integer()) return left.integer() == right.integer();
    if (left.is_integer()) return equal_mixed(left.integer(), right.number());
    if (right.is_integer()) return equal_mixed(right.integer(), left.number());
    return left.number() == right.number();
  }
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kString:
      runtime.scan(left.string());
      return left.string() == right.string();
    case Kind::kList:
    case Kind::kTuple: {
      const auto& a = left.items();
      const auto& b = right.items();
      return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [&](const Value& x, const Value& y) {
               return same_or_equal(runtime, x, y);
             });
    }
    case Kind::kDict: {
      if (left.dict().size() != right.dict().size()) return false;
      for (const auto& [key, value] : left.dict().entries()) {
        const Value* other = right.dict().find(runtime, key);
        if (!other || !same_or_equal(runtime, value, *other)) return false;
      }
      return true;
    }
    case Kind::kObject:
      return left.object()->equals(runtime, *right.object());
    default:
      return true;  // None and Undefined equal themselves
  }
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      throw runtime.error("'in <string>' requires string as left operand, not {}", item.type_name());
    }
    return find_text(runtime, container.string(), item.string()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict().find(runtime, item) != nullptr;
  const auto iterator = try_iterate(runtime, container);
  if (!iterator) throw runtime.error("argument of type '{}' is not iterable", container.type_name());
  for (Value candidate; iterator->next(runtime, &candidate);) {
    if (same_or_equal(runtime, candidate, item)) return true;
  }
  return false;
}

bool ordered(Runtime& runtime, Order order, const Value& left, const Value& right) {
  runtime.step();
  require_defined(runtime, left);
  require_defined(runtime, right);
  if (left.is_integer() && right.is_integer()) return compare(order, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return compare(order, left.number(), right.number());
  if (left.is_string() && right.is_string()) {
    runtime.scan(left.string());
    return compare(order, left.string().compare(right.string()), 0);
  }
  if (left.is_sequence() && left.kind() == right.kind()) {
    const auto& a = left.items();
    const auto& b = right.items();
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!equal(runtime, a[i], b[i])) return ordered(runtime, order, a[i], b[i]);
    }
    return compare(order, a.size(), b.size());
  }
  constexpr std::string_view kSigns[] = {"<", "<=", ">", ">="};
  throw runtime.error("'{}' not supported between instances of '{}' and '{}'", kSigns[static_cast<int>(order)],
                      left.type_name(), right.type_name());
}

}  // namespace gabbro::jinja
