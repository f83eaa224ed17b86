#include "src/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "src/jinja/operators.h"
#include "src/jinja/runtime.h"

namespace gabbro::jinja {
namespace {

std::string text_key(std::string_view text) {
  std::string key = "s";
  return key.append(text);
}

}  // namespace

Value Value::undefined(std::string message) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(message))};
  return value;
}

Value Value::markup(MarkedText text) {
  Value value;
  value.data_ = Markup{std::make_shared<const MarkedText>(std::move(text))};
  return value;
}

Kind Value::kind() const {
  switch (data_.index()) {
    case 1:
      return Kind::kBool;
    case 2:
      return Kind::kInt;
    case 3:
      return Kind::kFloat;
    case 4:
    case 9:
      return Kind::kString;
    case 5:
      return sequence().is_tuple ? Kind::kTuple : Kind::kList;
    case 6:
      return Kind::kDict;
    case 7:
      return Kind::kObject;
    case 8:
      return Kind::kUndefined;
    default:
      return Kind::kNone;
  }
}

bool Value::is_number() const { return is_integer() || std::holds_alternative<double>(data_); }

bool Value::is_integer() const { return std::holds_alternative<bool>(data_) || std::holds_alternative<int64_t>(data_); }

int64_t Value::integer() const {
  if (const bool* flag = std::get_if<bool>(&data_)) return *flag ? 1 : 0;
  return std::get<int64_t>(data_);
}

double Value::number() const {
  if (const double* number = std::get_if<double>(&data_)) return *number;
  return static_cast<double>(integer());
}

const MarkedText& Value::text() const {
  if (const auto* markup = std::get_if<Markup>(&data_)) return *markup->text;
  return *std::get<std::shared_ptr<const MarkedText>>(data_);
}

const std::vector<Value>& Value::items() const { return sequence().items; }

bool Value::same_as(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  switch (kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return boolean() == other.boolean();
    case Kind::kInt:
      return integer() == other.integer();
    case Kind::kFloat:
      return number() == other.number();
    case Kind::kString:
      return string() == other.string();
    case Kind::kList:
    case Kind::kTuple:
      return &sequence() == &other.sequence();
    case Kind::kDict:
      return &dict() == &other.dict();
    case Kind::kObject:
      return object() == other.object();
    case Kind::kUndefined:
      return &message() == &other.message();
  }
  return false;
}

int Value::depth() const {
  switch (kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return sequence().depth;
    case Kind::kDict:
      return dict().depth();
    case Kind::kObject:
      return object()->depth();
    default:
      return 0;
  }
}

std::string Value::type_name() const {
  switch (kind()) {
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return is_markup() ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return object()->type_name();
    case Kind::kUndefined:
      return "Undefined";
  }
  return {};
}

std::string hash_key(Runtime& runtime, const Value& key) {
  runtime.step();
  switch (key.kind()) {
    case Kind::kNone:
      return "n";
    case Kind::kBool:
    case Kind::kInt:
      return fmt::format("i{}", key.integer());
    case Kind::kFloat: {
      const double number = key.number();
      const bool whole = std::abs(number) < 9e18 && number == std::floor(number);
      return whole ? fmt::format("i{}", static_cast<int64_t>(number)) : fmt::format("f{}", repr_float(number));
    }
    case Kind::kString:
      runtime.scan(key.string());
      return text_key(key.string());
    case Kind::kTuple: {
      std::string text = "t";
      for (const Value& item : key.items()) {
        const std::string part = hash_key(runtime, item);
        text += fmt::format("{}:{}", part.size(), part);
        runtime.reserve_text(text.size());
      }
      return text;
    }
    case Kind::kObject:
      return fmt::format("o{}", reinterpret_cast<uintptr_t>(key.object().get()));
    case Kind::kUndefined:
      return "u";
    default:
      throw runtime.error("unhashable type: '{}'", key.type_name());
  }
}

void Dict::set_hashed(std::string hashed, const Value& key, Value value) {
  depth_ = std::max({depth_, value.depth() + 1, key.depth() + 1});
  const auto [found, inserted] = index_.try_emplace(std::move(hashed), entries_.size());
  if (inserted) {
    entries_.emplace_back(key, std::move(value));
  } else {
    entries_[found->second].second = std::move(value);  // the first key stays, as in Python
  }
}

const Value* Dict::find_hashed(const std::string& hashed) const {
  const auto found = index_.find(hashed);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

void Dict::set(Runtime& runtime, const Value& key, Value value) {
  std::string hashed = hash_key(runtime, key);
  runtime.reserve(hashed.size() + 128);
  runtime.checked(value);
  set_hashed(std::move(hashed), key, std::move(value));
}

void Dict::set(std::string_view key, Value value) { set_hashed(text_key(key), Value(key), std::move(value)); }

void Dict::set_marked(MarkedText key, Value value) {
  std::string hashed = text_key(key.bytes());
  set_hashed(std::move(hashed), Value(std::move(key)), std::move(value));
}

const Value* Dict::find(Runtime& runtime, const Value& key) const { return find_hashed(hash_key(runtime, key)); }

const Value* Dict::find(std::string_view key) const { return find_hashed(text_key(key)); }

std::string Object::repr(Runtime&) const { return fmt::format("<{} object>", type_name()); }

Value Object::call(Runtime& runtime, const Args&) { throw runtime.error("'{}' object is not callable", type_name()); }

}  // namespace gabbro::jinja
