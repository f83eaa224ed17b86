// Values of Go's text/template, as far as Ollama's templates have them: nil, bool, int, float64, string, slices, maps
// and structs. Strings remember which of their bytes are input (src/jinja/marked_text.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/jinja/marked_text.h"

namespace gabbro::text::go {

using jinja::MarkedText;

struct Value;
using List = std::vector<Value>;

// A map, or a struct, whose fields are known.
struct Object {
  struct Field {
    std::string name;       // as templates write it
    std::string json_name;  // as JSON has it; empty: not in JSON
    std::unique_ptr<Value> value;
  };
  std::vector<Field> fields;
  bool is_struct = false;  // another field is an error, of a map it is nil
  bool is_json = false;    // printed as JSON (a String() method)

  void add(const std::string& name, Value value);  // of a map
  void add(const std::string& name, const std::string& json_name, Value value);
  const Value* find(std::string_view name) const;  // null if there is none
};

struct Value {
  std::variant<std::monostate, bool, int64_t, double, MarkedText, std::shared_ptr<const List>,
               std::shared_ptr<const Object>>
      held;
  bool is_json_list = false;  // a slice that is printed as JSON; nil where it is empty

  Value() = default;
  Value(bool b) : held(b) {}                                                // NOLINT: the same value
  Value(int64_t i) : held(i) {}                                             // NOLINT
  Value(double d) : held(d) {}                                              // NOLINT
  Value(MarkedText text) : held(std::move(text)) {}                         // NOLINT
  Value(const char* text) : held(MarkedText(std::string(text))) {}          // NOLINT
  Value(std::shared_ptr<const List> list) : held(std::move(list)) {}        // NOLINT
  Value(std::shared_ptr<const Object> object) : held(std::move(object)) {}  // NOLINT

  template <class T>
  const T* as() const {
    return std::get_if<T>(&held);
  }
  const List* list() const {
    const auto* held_list = as<std::shared_ptr<const List>>();
    return held_list != nullptr ? held_list->get() : nullptr;
  }
  const Object* object() const {
    const auto* held_object = as<std::shared_ptr<const Object>>();
    return held_object != nullptr ? held_object->get() : nullptr;
  }
  bool is_nil() const { return std::holds_alternative<std::monostate>(held); }
};

// For messages.
inline std::string quote(std::string_view text) { return "'" + std::string(text) + "'"; }
const char* type_name(const Value& value);  // for messages: "string"
bool is_true(const Value& value);           // as `if` takes it

// As fmt.Print writes it. Throws bad_input for a struct, which no template prints.
MarkedText printed(const Value& value);
// As json.Marshal writes it, with <, > and & escaped. All of it is input if a string of it is.
MarkedText marshaled(const Value& value);

}  // namespace gabbro::text::go
