// `imatrix`: an importance matrix of a text, as llama.cpp's llama-imatrix computes it: the text is cut into chunks of
// --ctx tokens, each begins with bos where the model wants one, and what remains at the end is left out.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/engine_loading.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/models/weights/input_squares.h"
#include "src/text/tokenizer.h"

namespace gabbro::cli {
namespace {

struct ImatrixOptions {
  CommonOptions common;
  std::string model;
  std::string text;
  std::string out = "imatrix.gguf";
  int context = 512;
  int chunks = 0;  // 0: all
  bool force = false;
};

constexpr size_t kLogitsAtOnce = 512;  // tokens whose logits are held at once

// The text's whole chunks.
std::vector<std::vector<int32_t>> read_chunks(const ImatrixOptions& o, const text::Tokenizer& tokenizer) {
  const std::vector<int32_t> tokens = tokenizer.encode(read_input(o.text));
  const auto context = static_cast<size_t>(o.context);
  if (tokens.size() < context) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: {} tokens are less than one chunk of {}", o.text, tokens.size(), context),
                "give a longer text, or a smaller --ctx");
  }
  size_t count = tokens.size() / context;
  if (o.chunks > 0) count = std::min(count, static_cast<size_t>(o.chunks));
  std::vector<std::vector<int32_t>> chunks;
  for (size_t i = 0; i < count; ++i) {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(i * context);
    chunks.emplace_back(first, first + static_cast<std::ptrdiff_t>(context));
    if (tokenizer.adds_bos()) chunks.back()[0] = tokenizer.bos();
  }
  return chunks;
}

ImportanceMatrix compute(const ImatrixOptions& o, const std::shared_ptr<Engine>& engine, llm::InputSquares& observer) {
  const std::vector<std::vector<int32_t>> chunks = read_chunks(o, engine->tokenizer());
  Session session(engine);
  const Cancelable cancelable;
  ProgressBar bar("imatrix", !o.common.json);
  for (size_t i = 0; i < chunks.size(); ++i) {
    session.truncate(0);
    // Logits of all tokens, without which the last layer computes less.
    const std::span<const int32_t> chunk = chunks[i];
    for (size_t first = 0; first < chunk.size(); first += kLogitsAtOnce)
      session.append_all_logits(chunk.subspan(first, std::min(kLogitsAtOnce, chunk.size() - first)), cancelable.flag());
    bar.show(static_cast<double>(i + 1) / static_cast<double>(chunks.size()));
  }
  ImportanceMatrix matrix = observer.result();
  matrix.datasets = {std::filesystem::path(o.text).filename().string()};
  matrix.chunks = static_cast<uint32_t>(chunks.size());
  matrix.chunk_tokens = static_cast<uint32_t>(o.context);
  return matrix;
}

int run(const ImatrixOptions& o) {
  const bool to_output = is_standard_output(o.out);
  if (to_output && o.common.json) throw bad_input("--json and --out {} both write standard output", o.out);
  if (!o.force && !to_output && std::filesystem::exists(o.out))
    throw Error(ErrorCode::kBadInput, fmt::format("{}: is there already", o.out), "replace it with --force");
  const auto observer = std::make_shared<llm::InputSquares>();
  const auto engine = load_engine(o.model, o.common, {.context = o.context, .observer = observer});
  const ImportanceMatrix matrix = compute(o, engine, *observer);
  write_output(o.out, matrix.bytes(o.out));
  size_t unused = 0;  // experts without tokens
  for (const auto& [name, entry] : matrix.entries)
    unused += static_cast<size_t>(std::ranges::count(entry.counts, 0.0f));
  if (unused > 0)
    report("warning", fmt::format("{} matrices of experts got no tokens; a longer text reaches more", unused));
  if (o.common.json) {
    print_json({{"path", o.out},
                {"entries", matrix.entries.size()},
                {"chunks", matrix.chunks},
                {"ctx", o.context},
                {"experts_without_tokens", unused}});
  } else if (!to_output) {
    print(fmt::format("{}: {} matrices, {} chunks of {} tokens\n", o.out, matrix.entries.size(), matrix.chunks,
                      o.context));
  }
  return 0;
}

}  // namespace

void add_imatrix(Command root) {
  Command command = root.subcommand("imatrix", "Compute an importance matrix of a text, for convert --imatrix");
  const auto o = std::make_shared<ImatrixOptions>();
  add_model(command, o->model);
  command.option("-f,--text", o->text, "The text; -: standard input")
      .alias("--file")
      .placeholder("FILE")
      .file(FileUse::kInput)
      .required();
  command.option("-o,--out", o->out, "File to write, which llama.cpp reads too; -: standard output")
      .placeholder("FILE.gguf")
      .file(FileUse::kStream);
  command.number("-c,--ctx", o->context, "Tokens in a chunk").alias("--ctx-size").range(8, 1 << 24);
  command.number("--chunks", o->chunks, "Chunks that are used, at most; 0: all").range(0, 1 << 30);
  command.flag("--force", o->force, "Replace a file that is there");
  add_device_options(command, o->common);
  add_check_weights(command, o->common);
  add_lora(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro imatrix Qwen3-4B --text calibration.txt -o imatrix.gguf");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
