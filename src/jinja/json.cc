// json.dumps of Python, as transformers' filter tojson uses it.
#include <algorithm>
#include <cmath>

#include "src/jinja/objects.h"
#include "src/jinja/operators.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  void write(const Value& value) {
    const Nested nested(runtime_);
    runtime_.step();
    if (out_.size() > runtime_.limits().output) {
      throw runtime_.error("a text is longer than the {} bytes allowed", runtime_.limits().output);
    }
    switch (value.kind()) {
      case Kind::kString:
        write_string(value.string());
        break;
      case Kind::kList:
      case Kind::kTuple:
        write_list(value.items());
        break;
      case Kind::kDict:
        write_dict(value.dict());
        break;
      case Kind::kObject:
        if (value.as<LargeInteger>() != nullptr) {
          out_ += value.object()->repr(runtime_);
          break;
        }
        [[fallthrough]];
      case Kind::kUndefined:
        throw runtime_.error("Object of type {} is not JSON serializable", value.type_name());
      default:
        out_ += scalar(value);
    }
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.kind() == Kind::kBool) return value.boolean() ? "true" : "false";
    if (value.kind() == Kind::kInt) return std::to_string(value.integer());
    const double number = value.number();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return repr_float(number);
  }

  void write_list(const std::vector<Value>& items) {
    out_ += '[';
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i);
      write(items[i]);
    }
    close(items.empty(), ']');
  }

  void write_dict(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return ordered(runtime_, Order::kLess, a->first, b->first);
      });
    }
    out_ += '{';
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      separate(i);
      write_key(entries[i]->first);
      out_ += style_.key_separator;
      write(entries[i]->second);
    }
    close(entries.empty(), '}');
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write_string(key.string());
    if (!key.is_number() && !key.is_none()) {
      throw runtime_.error("keys must be str, int, float, bool or None, not {}", key.type_name());
    }
    out_ += '"' + scalar(key) + '"';
  }

  void separate(size_t index) {
    if (index > 0) out_ += style_.item_separator;
    break_line();
  }

  void close(bool empty, char bracket) {
    --level_;
    if (!empty) break_line();
    out_ += bracket;
  }

  void break_line() {
    if (!style_.indent) return;
    out_ += '\n';
    runtime_.step(static_cast<uint64_t>(level_));
    runtime_.reserve(static_cast<size_t>(level_) * style_.indent->size());
    for (int i = 0; i < level_; ++i) out_ += *style_.indent;
  }

  void write_string(std::string_view text) {
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_code_point(text, &at);
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\f':
          out_ += "\\f";
          break;
        case '\b':
          out_ += "\\b";
          break;
        default:
          if (c < 0x20 || (style_.ascii && c >= 0x7f)) {
            write_escaped(c);
          } else {
            out_.append(text.substr(begin, at - begin));
          }
      }
    }
    out_ += '"';
  }

  void write_escaped(char32_t c) {
    if (c == 0x7f) {
      out_ += '\x7f';
    } else if (c < 0x10000) {
      out_ += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      const uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    }
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string out_;
  int level_ = 0;
};

}  // namespace

std::string dump_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  writer.write(value);
  return writer.take();
}

}  // namespace gabbro::jinja
