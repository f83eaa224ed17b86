#include "src/text/chat/chat_prompt.h"

#include <algorithm>
#include <optional>

#include "src/base/error.h"

namespace gabbro::text {
namespace {

using nlohmann::ordered_json;

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Templates trim and indent, so space does not count.
size_t count_visible(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_blank(c); }));
}

std::string role_of(const ordered_json& message) {
  const auto role = message.is_object() ? message.find("role") : message.end();
  return message.is_object() && role != message.end() && role->is_string() ? role->get<std::string>() : "";
}

// The text of a string, or of the text parts of a list.
size_t count_visible_content(const ordered_json& message) {
  const auto content = message.is_object() ? message.find("content") : message.end();
  if (!message.is_object() || content == message.end()) return 0;
  if (content->is_string()) return count_visible(content->get_ref<const std::string&>());
  size_t count = 0;
  if (!content->is_array()) return count;
  for (const ordered_json& part : *content) {
    if (!part.is_object()) continue;
    const auto text = part.find("text");
    if (text != part.end() && text->is_string()) count += count_visible(text->get_ref<const std::string&>());
  }
  return count;
}

bool is_system_role(std::string_view role) { return role == "system" || role == "developer"; }
bool is_system(const ordered_json& message) { return is_system_role(role_of(message)); }

struct Rendering {
  jinja::MarkedText text;
  std::vector<size_t> lost;       // as in ChatPrompt
  std::vector<size_t> shortened;  // a part of them is missing
  std::vector<size_t> absent;     // the lost ones and an assistant's, whose thoughts a template may leave out
  bool is_mixed = false;          // JSON of messages, say: nothing tells what is missing
};

const ordered_json kNoTools = nullptr;

struct Conversation {
  const ChatTemplate& chat_template;
  const ordered_json& tools;
  bool add_generation_prompt;
  const ordered_json& extra;

  Rendering render(const ordered_json& messages) const {
    Rendering result{.text = chat_template.render(messages, tools, add_generation_prompt, extra)};
    std::vector<size_t> kept(messages.size());
    for (const jinja::InputSpan& span : result.text.spans()) {
      const std::string_view piece = std::string_view(result.text.bytes()).substr(span.begin, span.end - span.begin);
      if (span.source >= 0) kept[static_cast<size_t>(span.source)] += count_visible(piece);
      result.is_mixed = result.is_mixed || span.source == jinja::kMixedInput;
    }
    if (result.is_mixed || !messages.is_array()) return result;
    for (size_t i = 0; i < messages.size(); ++i) {
      const size_t visible = count_visible_content(messages[i]);
      if (kept[i] >= visible) continue;
      if (kept[i] == 0) result.absent.push_back(i);
      if (role_of(messages[i]) != "assistant") (kept[i] == 0 ? result.lost : result.shortened).push_back(i);
    }
    return result;
  }

  // With content as text. A template that reads it as parts gets what is lost then, or all of it where the template
  // fails, as parts. Throws the template's error about the unchanged conversation.
  Rendering render_either_way(const ordered_json& messages) const {
    std::optional<Rendering> plain;
    std::optional<Error> error;
    try {
      plain = render(messages);
      if (plain->lost.empty()) return std::move(*plain);
    } catch (const Error& refused) {
      error = refused;
    }
    if (reads_parts(messages)) {
      try {
        Rendering parts = render(with_parts(messages, plain ? &plain->absent : nullptr));
        if (parts.lost.empty() && !parts.is_mixed) return parts;
      } catch (const Error&) {  // the first one says more
      }
    }
    if (!plain) throw Error(*error);
    return std::move(*plain);
  }

  // A short conversation: a user message, with one of `role` before it where that is not "user". Without tools.
  static ordered_json probe_of(const std::string& role) {
    auto probe = ordered_json::array();
    if (role != "user") probe.push_back({{"role", role}, {"content", "Answer briefly."}});
    probe.push_back({{"role", "user"}, {"content", "Hello"}});
    return probe;
  }

  // The rendering; nothing where the template fails.
  std::optional<Rendering> try_render(const ordered_json& messages) const {
    try {
      return render(messages);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // A probe as parts, where that keeps what is lost as text; nothing where the template reads text.
  std::optional<Rendering> render_probe_as_parts(const ordered_json& probe) const {
    const std::optional<Rendering> plain = try_render(probe);
    if (plain && plain->lost.empty()) return std::nullopt;
    std::optional<Rendering> parts = try_render(with_parts(probe, plain ? &plain->absent : nullptr));
    return parts && parts->lost.empty() && !parts->is_mixed ? std::move(parts) : std::nullopt;
  }

  // Whether probes of a user message, or of a system and a user message, keep text as parts alone.
  bool reads_parts(const ordered_json& messages) const {
    const auto begins = messages.is_array() && !messages.empty() ? role_of(messages[0]) : "";
    const Conversation probed{chat_template, kNoTools, add_generation_prompt, extra};
    return probed.render_probe_as_parts(probe_of("user")) ||
           (is_system_role(begins) && probed.render_probe_as_parts(probe_of(begins)));
  }

  // Whether a probe of a message of `role` and a user message is accepted, and the text of the first is kept.
  bool takes_system(const std::string& role) const {
    const Conversation probed{chat_template, kNoTools, add_generation_prompt, extra};
    const std::optional<Rendering> plain = probed.try_render(probe_of(role));
    if (plain && (plain->lost.empty() || plain->lost[0] != 0)) return true;
    return probed.render_probe_as_parts(probe_of(role)).has_value();
  }

  // The string content of the messages `which`, or of all, as a list of one part.
  static ordered_json with_parts(ordered_json messages, const std::vector<size_t>* which) {
    for (size_t i = 0; messages.is_array() && i < messages.size(); ++i) {
      ordered_json& message = messages[i];
      if (which != nullptr && std::find(which->begin(), which->end(), i) == which->end()) continue;
      if (!message.is_object() || !message.contains("content") || !message["content"].is_string()) continue;
      ordered_json part = {{"type", "text"}, {"text", message["content"]}};
      message["content"] = ordered_json::array({std::move(part)});
    }
    return messages;
  }
};

// Without the first message, whose text stands before that of the first user message; nullopt where that cannot be.
std::optional<ordered_json> merge_system(const ordered_json& messages) {
  if (!messages.is_array() || messages.size() < 2 || !is_system(messages[0]) || !messages[0].contains("content"))
    return std::nullopt;
  const ordered_json& system = messages[0]["content"];
  ordered_json merged = ordered_json::array();
  bool done = false;
  for (size_t i = 1; i < messages.size(); ++i) {
    merged.push_back(messages[i]);
    ordered_json& message = merged.back();
    if (done || role_of(message) != "user" || !message.contains("content")) continue;
    if (!system.is_string() || !message["content"].is_string()) return std::nullopt;
    message["content"] = system.get<std::string>() + "\n\n" + message["content"].get<std::string>();
    done = true;
  }
  return done ? std::optional(std::move(merged)) : std::nullopt;
}

}  // namespace

ChatPrompt render_prompt(const ChatTemplate& chat_template, const ordered_json& messages, const ordered_json& tools,
                         bool add_generation_prompt, const ordered_json& extra) {
  ChatTemplate::check_nesting(messages);  // deeper messages could not even be copied for a retry
  const Conversation conversation{chat_template, tools, add_generation_prompt, extra};
  const bool has_system = messages.is_array() && !messages.empty() && is_system(messages[0]);
  ChatPrompt prompt;
  std::optional<Rendering> rendering;
  std::optional<Error> refusal;
  try {
    rendering = conversation.render_either_way(messages);
  } catch (const Error& error) {
    if (!has_system) throw;
    refusal = error;
  }
  // A template that keeps a system message in a probe is followed where it leaves one out: some show it only in the
  // last turn, or refuse another message.
  const bool system_lost = !rendering || (!rendering->lost.empty() && rendering->lost[0] == 0);
  const bool no_system = has_system && system_lost && !conversation.takes_system(role_of(messages[0]));
  const auto merged = no_system ? merge_system(messages) : std::nullopt;
  if (merged) {
    try {
      Rendering with_merged = conversation.render_either_way(*merged);
      if (with_merged.lost.empty()) {
        prompt.text = std::move(with_merged.text);
        prompt.notes.emplace_back(
            "the chat template takes no system message: its text stands before the first user message");
        return prompt;
      }
    } catch (const Error&) {
    }
  }
  if (!rendering && !no_system) throw Error(*refusal);
  if (!rendering) {
    throw Error(refusal->code(), refusal->what(), "the template may refuse a system message: try without one");
  }
  prompt.text = std::move(rendering->text);
  prompt.lost = std::move(rendering->lost);
  for (const size_t i : rendering->shortened) {
    prompt.notes.push_back(
        fmt::format("the chat template leaves out a part of message {} ({})", i + 1, role_of(messages[i])));
  }
  return prompt;
}

bool shows_tools(const ChatTemplate& chat_template, const ordered_json& messages, const ordered_json& tools,
                 const ordered_json& extra) {
  const auto rendered = [&](const ordered_json& given) {
    return render_prompt(chat_template, messages, given, true, extra).text.bytes();
  };
  const std::string with_tools = rendered(tools);
  try {
    return with_tools != rendered(nullptr);
  } catch (const Error&) {  // it cannot do without
    return true;
  }
}

void require_user_text(const ChatPrompt& prompt, const ordered_json& messages) {
  for (const size_t i : prompt.lost) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("the chat template leaves out the text of message {} ({})", i + 1, role_of(messages[i])),
                "--chat-template FILE|NAME uses another template, --raw none");
  }
}

}  // namespace gabbro::text
