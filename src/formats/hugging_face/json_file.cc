#include "src/formats/hugging_face/json_file.h"

#include <span>
#include <unordered_set>
#include <vector>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/base/quote.h"
#include "src/base/text_file.h"
#include "src/formats/foreign_file.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro {

namespace {

// Python writes numbers that JSON has not, outside of strings; here they become objects as transformers 5 writes them.
// Empty: the text has none.
std::string with_float_objects(std::string_view text) {
  constexpr std::string_view kNames[] = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  size_t copied = 0;
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (quoted && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      for (const std::string_view number : kNames) {
        if (!text.substr(at).starts_with(number)) continue;
        out.append(text.substr(copied, at - copied)).append("{\"__float__\":\"").append(number).append("\"}");
        at += number.size() - 1;
        copied = at + 1;
        break;
      }
    }
  }
  if (copied > 0) out.append(text.substr(copied));
  return out;
}

using Json = nlohmann::ordered_json;

// Throws Json::parse_error, and bad_input as parse_plain_json() does.
Json parse(std::string_view text, const std::string& name) {
  constexpr int kMostDepth = 100;
  std::vector<std::unordered_set<std::string>> keys;  // of the open objects
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMostDepth) throw bad_input("{}: is nested deeper than {}", name, kMostDepth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw bad_input("{}: key {} is there twice", name, quote(parsed.get<std::string>()));
    return true;
  };
  text = without_byte_order_mark(text, name);
  try {
    return Json::parse(text, check);
  } catch (const Json::out_of_range&) {
    throw bad_input("{}: a number is out of range", name);
  }
}

Error no_json(std::string_view text, const std::string& name, const Json::parse_error& error) {
  require_utf8(text, name);
  refuse_foreign(std::as_bytes(std::span(text)), name, FileKind::kJson);
  return Error(ErrorCode::kBadInput, fmt::format("{}: no JSON at byte {}", name, error.byte),
               error.byte > text.size() ? unfinished_hint(text.size()) : "");
}

}  // namespace

Json parse_plain_json(std::string_view text, const std::string& name) {
  try {
    return parse(text, name);
  } catch (const Json::parse_error& error) {
    throw no_json(text, name, error);
  }
}

Json parse_json(std::string_view text, const std::string& name) {
  try {
    return parse(text, name);
  } catch (const Json::parse_error& error) {
    if (const std::string other = with_float_objects(text); !other.empty()) return parse_json(other, name);
    throw no_json(text, name, error);
  }
}

nlohmann::ordered_json read_json_file(const std::string& path, size_t limit) {
  return parse_json(read_file(path, limit), path);
}

}  // namespace gabbro
