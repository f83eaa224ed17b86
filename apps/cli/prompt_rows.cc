#include "apps/cli/prompt_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "apps/cli/text_files.h"
#include "apps/cli/usage.h"
#include "src/base/error.h"
#include "src/base/text_file.h"
#include "src/formats/hugging_face/json_file.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

// Fields of a row that are not in kSamplingOptions.
constexpr const char* kOthers[] = {
    "prompt", "messages", "system", "tools", "max_tokens", "stop", "seed", "dry_sequence_breakers", "logit_bias", "id"};

std::vector<std::string> known_fields() {
  std::vector<std::string> names(std::begin(kOthers), std::end(kOthers));
  for (const SamplingOption& option : kSamplingOptions) {
    names.emplace_back(option.name);
    if (option.alias != nullptr) names.emplace_back(option.alias);
  }
  return names;
}

// A value as an error shows it: on one line, and short.
std::string shown(const Json& value) {
  constexpr size_t kMost = 40;
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

Error wrong(const std::string& name, const Json& value, const std::string& wanted) {
  return bad_input("\"{}\" is {}, expected {}", name, shown(value), wanted);
}

double number_of(const std::string& name, const Json& value) {
  if (!value.is_number()) throw wrong(name, value, "a number");
  return value.get<double>();
}

// A whole number, which may be written as 5.0.
template <class T>
T integer_of(const std::string& name, const Json& value, T least, const char* wanted) {
  constexpr T kMost = std::numeric_limits<T>::max();
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (std::in_range<T>(number) && static_cast<T>(number) >= least) return static_cast<T>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    if (std::in_range<T>(number) && static_cast<T>(number) >= least) return static_cast<T>(number);
  } else if (value.is_number_float()) {
    const double number = value.get<double>();
    const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);  // kMost + 1
    if (number == std::floor(number) && number >= static_cast<double>(least) && number < end)
      return std::min(static_cast<T>(number), kMost);
  }
  throw wrong(name, value, wanted);
}

const std::string& text_of(const std::string& name, const Json& value) {
  if (!value.is_string()) throw wrong(name, value, "a text");
  return value.get_ref<const std::string&>();
}

std::vector<std::string> texts_of(const std::string& name, const Json& value) {
  std::vector<std::string> texts;
  const auto add = [&](const Json& text) {
    if (!text.is_string()) throw wrong(name, value, "a text or a list of texts");
    if (text.get_ref<const std::string&>().empty()) throw bad_input("\"{}\" has an empty text", name);
    texts.push_back(text.get<std::string>());
  };
  if (value.is_array()) {
    std::ranges::for_each(value, add);
  } else {
    add(value);
  }
  return texts;
}

// {"17": -5}, as OpenAI has it.
std::vector<std::pair<int32_t, float>> biases_of(const Json& value) {
  if (!value.is_object()) throw wrong("logit_bias", value, "an object of token ids and numbers");
  std::vector<std::pair<int32_t, float>> biases;
  for (const auto& [key, bias] : value.items()) {
    int32_t token = 0;
    const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || stop != key.data() + key.size() || token < 0)
      throw bad_input("\"logit_bias\" has the key \"{}\", expected a token id", key);
    biases.emplace_back(token, static_cast<float>(number_of("logit_bias", bias)));
  }
  return biases;
}

void apply_settings(const Json& fields, GenerateOptions& options) {
  SamplerOptions& sampler = options.sampler;
  const auto with = [&](const char* name, const auto& apply) {
    if (const auto found = fields.find(name); found != fields.end() && !found->is_null()) apply(*found);
  };
  for (const auto& [name, value] : fields.items()) {
    const SamplingOption* const option = find_sampling_option(name);
    if (option == nullptr || value.is_null()) continue;
    constexpr int kLeast = std::numeric_limits<int>::min();
    option->set(sampler, option->is_integer() ? integer_of(name, value, kLeast, "a whole number below 2^31")
                                              : number_of(name, value));
  }
  with("max_tokens", [&](const Json& value) {
    options.max_tokens = integer_of<int>("max_tokens", value, -1, "a whole number from -1 on");
  });
  with("seed", [&](const Json& value) {
    sampler.seed = integer_of<uint64_t>("seed", value, 0, "a whole number from 0 to 2^64 - 1");
  });
  with("stop", [&](const Json& value) { options.stop = texts_of("stop", value); });
  with("dry_sequence_breakers",
       [&](const Json& value) { sampler.dry_sequence_breakers = texts_of("dry_sequence_breakers", value); });
  with("logit_bias", [&](const Json& value) { sampler.logit_bias = biases_of(value); });
}

void require_known(const Json& fields) {
  static const std::vector<std::string> kKnown = known_fields();
  for (const auto& [name, value] : fields.items()) {
    if (std::ranges::find(kKnown, name) != kKnown.end()) continue;
    const std::string meant = closest(name, kKnown);
    throw bad_input("field \"{}\" is not known{}", name,
                    meant.empty() ? "" : fmt::format(": did you mean \"{}\"?", meant));
  }
}

// The row's messages. Each has a role, and with --raw also content that is text.
Json messages_of(const Json& value, bool raw) {
  if (!value.is_array() || value.empty()) throw wrong("messages", value, "a list of messages");
  for (size_t i = 0; i < value.size(); ++i) {
    const Json& message = value[i];
    const auto has_text = [&](const char* name) {
      return message.is_object() && message.contains(name) && message[name].is_string();
    };
    if (!has_text("role")) throw bad_input("\"messages\": number {} has no text \"role\"", i + 1);
    if (raw && !has_text("content")) throw bad_input("\"messages\": number {} has no text \"content\"", i + 1);
  }
  return value;
}

// After a system message of the row.
void add_examples(PromptRow& row, const std::vector<std::pair<std::string, std::string>>& examples) {
  auto at = row.messages.begin();
  if (!row.messages.empty() && row.messages[0].contains("role") && row.messages[0]["role"] == "system") ++at;
  for (const auto& [role, content] : examples) {
    at = row.messages.insert(at, Json{{"role", role}, {"content", content}});
    ++at;
  }
}

void add_system(PromptRow& row, const Json* own, const std::string& otherwise) {
  const std::string system = own != nullptr ? text_of("system", *own) : otherwise;
  const bool has_one = !row.messages.empty() && row.messages[0]["role"] == "system";
  if (has_one && own != nullptr) throw bad_input("\"system\" and a system message are both there: give one of them");
  if (has_one || system.empty()) return;
  const Json message = {{"role", "system"}, {"content", system}};
  row.messages.insert(row.messages.begin(), message);
}

void read_fields(const Json& fields, const GenerationOptions& defaults, PromptRow& row) {
  const auto find = [&](const char* name) -> const Json* {
    const auto found = fields.find(name);
    return found != fields.end() && !found->is_null() ? &*found : nullptr;
  };
  if (const Json* id = find("id")) row.id = *id;
  const Json *prompt = find("prompt"), *messages = find("messages"), *tools = find("tools");
  if (prompt != nullptr && prompt->is_string()) row.prompt = *prompt;
  require_known(fields);
  constexpr double kExact = 0x1p53;  // a larger number of more digits would be another one in the answer
  if (row.id.is_structured()) throw wrong("id", row.id, "a text or a number");
  if (row.id.is_number_float() && std::abs(row.id.get<double>()) >= kExact)
    throw wrong("id", row.id, "a text or a number up to 2^64 - 1");
  if (prompt != nullptr && messages != nullptr)
    throw bad_input("\"prompt\" and \"messages\" are both there: give one of them");
  if (messages != nullptr) {
    row.messages = messages_of(*messages, defaults.raw);
  } else {
    if (prompt == nullptr) throw bad_input("there is no \"prompt\" and no \"messages\"");
    if (text_of("prompt", *prompt).empty()) throw bad_input("the prompt is empty");
    row.messages = Json::array({{{"role", "user"}, {"content", *prompt}}});
  }
  add_examples(row, defaults.examples);
  add_system(row, find("system"), defaults.system);
  if (tools != nullptr) {
    if (!tools->is_array()) throw wrong("tools", *tools, "a list of tools");
    if (defaults.raw) throw bad_input("\"tools\" are for a chat template, which --raw does without");
    row.tools = *tools;
  }
  apply_settings(fields, row.generate);
}

std::string_view without_leading_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

// One document of JSON that is not a row: a list of rows, or an object of several lines.
void refuse_document(std::string_view text, const std::string& file) {
  const std::string_view start = without_leading_space(text);
  const std::string_view inside = without_leading_space(start.substr(std::min<size_t>(start.size(), 1)));
  const bool is_list = start.starts_with('[') && inside.starts_with('{');
  const bool is_long = start.starts_with('{') && start.find('\n') < start.find('"');
  if ((!is_list && !is_long) || !Json::accept(start)) return;
  throw Error(ErrorCode::kBadInput, fmt::format("{}: is one JSON document, expected an object in each line", file),
              is_list ? "jq -c .[] writes a list so" : "jq -c . writes it so");
}

// A row of JSON may be indented; another text with leading spaces is a prompt, unless it begins as an object does.
bool is_json_row(std::string_view line) {
  if (line.starts_with('{')) return true;
  const std::string_view start = without_leading_space(line);
  if (!start.starts_with('{')) return false;
  return without_leading_space(start.substr(1)).starts_with('"') || Json::accept(start);
}

}  // namespace

std::vector<PromptLine> read_prompt_lines(const std::string& file) {
  const std::string text = read_input(file);
  refuse_document(text, file);
  std::vector<PromptLine> lines;
  size_t number = 0;
  for (const std::string_view line : split_lines(text)) {
    ++number;
    if (!line.empty()) lines.push_back({number, std::string(line)});
  }
  if (lines.empty()) throw bad_input("{}: there is no prompt in it", file);
  return lines;
}

PromptRow read_row(const PromptLine& line, const GenerationOptions& defaults) {
  PromptRow row{.line = line.number,
                .id = {},
                .prompt = {},
                .messages = {},
                .tools = {},
                .generate = defaults.generate,
                .error = {}};
  try {
    if (!text::is_valid_utf8(line.text)) throw bad_input("the line is not valid UTF-8");
    const bool is_json = is_json_row(line.text);
    read_fields(is_json ? parse_plain_json(line.text, "the line") : Json{{"prompt", line.text}}, defaults, row);
  } catch (const Error& error) {
    row.error = error.what();
  }
  return row;
}

}  // namespace gabbro::cli
