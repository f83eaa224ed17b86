// Any bytes as the body of a request, a file of keys, the head of a request, or an answer in pieces: an error of the
// request, or a value within the bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "src/base/error.h"
#include "src/server/answer/anthropic_fields.h"
#include "src/server/answer/output_fields.h"
#include "src/server/answer/prompt.h"
#include "src/server/answer/responses_fields.h"
#include "src/server/answer/sampling_fields.h"
#include "src/server/answer/tool_fields.h"
#include "src/server/http/access.h"
#include "src/server/http/url.h"
#include "src/server/routes/openai_common.h"
#include "tests/fuzz/input.h"
#include "tests/server/scripted_model.h"

namespace {

using namespace gabbro::server;

const LoadedModel& model() {
  static const auto* const loaded = [] {
    // A template that teaches calls.
    const char* const chat_template =
        "<tool_call>{% for m in messages %}{{ m.role }}{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";
    Json script = Json::parse(R"({"m": {"answers": [{"tokens": ["a"]}]}})");
    script["m"]["model"]["template"] = chat_template;
    gabbro::test::ScriptedModels models(script);
    return new LoadedModel(models.load(*models.find("m")));
  }();
  return *loaded;
}

template <class Call>
void try_call(const Call& call) {
  try {
    call();
  } catch (const ApiError&) {
  } catch (const gabbro::Error&) {
  }
}

void read_body(const std::string& text) {
  Json body;
  try {
    body = parse_request(text);
  } catch (const ApiError&) {
    return;
  }
  Fields fields(body);
  try_call([&] { read_openai_request(fields); });
  try_call([&] { refuse_unsupported(fields); });
  try_call([&] { read_keep_alive(fields, "keep_alive"); });
  try_call([&] {
    const gabbro::GenerateOptions options = read_openai_sampling(fields, model());
    if (options.stop.size() > 2 * kMostStops) std::abort();
    gabbro::check_request({.prompt = {1}, .options = options}, model().generator->facts(),
                          model().generator->tokenizer());
  });
  try_call([&] {
    int64_t context = 0;
    read_ollama_options(fields.object("options"), model(), context);
  });
  try_call([&] { render_chat(model(), read_messages(fields), read_template_variables(fields)); });
  for (const auto read : {read_openai_tools, read_ollama_tools, read_responses_tools, read_anthropic_tools})
    try_call([&] { prepare_tools(read(fields), model()); });
  for (const auto read : {read_output_format, read_ollama_format, read_anthropic_format, read_responses_format})
    try_call([&] { read(fields, model()); });
  try_call([&] {
    const AnthropicMessages given = read_anthropic_messages(fields);
    render_chat(model(), given.messages, read_anthropic_variables(fields), nullptr, given.prefill);
  });
  try_call([&] { refuse_unsupported_responses(fields); });
  try_call([&] { render_chat(model(), read_responses_messages(fields), read_responses_variables(fields)); });
  fields.unknown();
}

void check_head(gabbro::fuzz::Input& input) {
  static auto* const access =
      new Access({.allowed_origins = {"https://a.example"}, .keys = parse_keys("a-key-of-tests-1", "keys")});
  HttpRequest request{.method = input.boolean() ? "GET" : "OPTIONS"};
  split_target(input.text(100), request.path, request.query);
  for (const char* const name : {"host", "origin", "authorization", "access-control-request-method"}) {
    if (input.boolean()) request.headers.emplace_back(name, input.text(100));
  }
  access->check(request);
  access->done(request);
}

void split_answer(gabbro::fuzz::Input& input) {
  const gabbro::text::ThoughtForm form{.is_harmony = input.boolean()};
  const std::string text = input.text(1000);
  const auto split = [&](size_t step) {
    ThoughtSplitter splitter(ThoughtSplitter::Mode::kDetect, form);
    std::string parts[2];
    const auto take = [&](const std::vector<AnswerPiece>& pieces) {
      for (const AnswerPiece& piece : pieces) parts[piece.is_thought ? 1 : 0] += piece.text;
    };
    for (size_t at = 0; at < text.size(); at += step) take(splitter.feed(std::string_view(text).substr(at, step)));
    take(splitter.finish());
    return parts[0] + '\0' + parts[1];
  };
  if (split(1) != split(text.size() + 1) || split(3) != split(1)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gabbro::fuzz::Input input(data, size);
  switch (input.number(0, 3)) {
    case 0:
      // All but the last byte, so that corpus files can be written by hand.
      read_body(std::string(reinterpret_cast<const char*>(data), size > 0 ? size - 1 : 0));
      break;
    case 1:
      try_call([&] { parse_keys(input.text(1000), "keys"); });
      break;
    case 2:
      check_head(input);
      break;
    default:
      split_answer(input);
  }
  return 0;
}
