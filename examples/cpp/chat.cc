// Answers one question with a model in a GGUF file, or continues a text where the model has no chat template:
//   chat MODEL.gguf TEXT [TOKENS]
#include <gabbro/llm.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

using namespace gabbro;

namespace {

int run(const std::string& path, const std::string& text, int tokens) {
  const auto engine = Engine::load(path, {.device = "auto", .context = 2048});
  const ModelFacts& facts = engine->facts();
  std::fprintf(stderr, "%s (%s, %s) on %s\n", facts.name.c_str(), facts.architecture.c_str(),
               facts.quantization.c_str(), facts.device_id.c_str());

  const std::vector<ChatMessage> messages{{"system", "Answer in one sentence."}, {"user", text}};
  const std::vector<int32_t> prompt =
      has_chat_template(*engine) ? chat_prompt(*engine, messages) : encode(*engine, text);

  GenerateOptions options{.max_tokens = tokens, .stop = {"\n\n"}, .sampler = default_sampling(*engine)};
  options.sampler.temperature = 0.7f;
  options.sampler.seed = 1;
  Session session(engine);
  const GenerateResult result = generate(session, prompt, options, [](std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  });
  std::printf("\n");
  std::fprintf(stderr, "%lld prompt tokens, %zu generated, ended by: %s\n",
               static_cast<long long>(result.prompt_tokens), result.token_ids.size(),
               stop_reason_name(result.stop_reason));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: chat MODEL.gguf TEXT [TOKENS]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 200);
  } catch (const Error& error) {
    std::fprintf(stderr, "chat: error: %s\n", error.what());
    if (!error.hint().empty()) std::fprintf(stderr, "hint: %s\n", error.hint().c_str());
    return static_cast<int>(error.code());
  }
}
