// `logits`: the model's output for every one of the given tokens, as a NumPy file, and with --trace that of every
// layer.
#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "apps/cli/commands.h"
#include "apps/cli/engine_loading.h"
#include "apps/cli/finite_output.h"
#include "apps/cli/input_files.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/split_options.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/base/npy.h"
#include "src/engine/traced_pass.h"

namespace gabbro::cli {
namespace {

struct LogitsOptions {
  CommonOptions common;
  std::string model;
  std::string tokens;
  std::string out, trace;
  std::vector<std::string> operations;  // of each layer, with trace
  std::optional<std::string> kv_type;
  int step = 0;  // tokens of a pass; 0: as many as prompts have
};

// The outputs of one layer, of all passes: float32 [tokens, width].
struct Output {
  std::vector<float> values;
  int64_t width = 0;
};

void check_tokens(std::span<const int32_t> tokens, int64_t vocabulary) {
  for (const int32_t token : tokens) {
    if (token >= vocabulary) {
      throw bad_input("--tokens: {} is outside the vocabulary of {} tokens", token, vocabulary);
    }
  }
}

void write_array(const std::string& path, std::span<const float> values, int64_t width) {
  const int64_t shape[] = {std::ssize(values) / width, width};
  const std::string start = npy_start(path, values, shape);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(start)), std::as_bytes(values)};
  write_output(path, pieces);
}

std::vector<float> run_steps(const std::shared_ptr<Engine>& engine, std::span<const int32_t> tokens,
                             const LogitsOptions& o) {
  Session session(engine);
  const Cancelable cancelable;
  const size_t step = o.step == 0 ? tokens.size() : static_cast<size_t>(o.step);
  std::vector<float> logits;
  for (; !tokens.empty(); tokens = tokens.subspan(std::min(step, tokens.size()))) {
    const auto rows = session.append_all_logits(tokens.first(std::min(step, tokens.size())), cancelable.flag());
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return logits;  // [tokens, V]
}

// Writes DIR/embed.npy, DIR/layers.0.npy ..., DIR/logits.npy, and with `operations` DIR/layers.0.attn_norm.npy ...;
// returns the logits. The first output that is not a number is an error, after all are written: they show why.
std::vector<float> run_traced(const std::shared_ptr<Engine>& engine, std::span<const int32_t> tokens,
                              const std::string& model, const std::string& folder,
                              std::span<const std::string> operations, const InputFiles& inputs) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw failed("{}: cannot be created: {}", folder, error.message());
  const Cancelable cancelable;
  std::map<std::string, Output> outputs;
  std::vector<std::string> order;  // the names, as the model computes them
  const auto keep = [&](const std::string& block, std::span<const float> values, std::span<const int64_t> shape) {
    if (!outputs.contains(block)) order.push_back(block);
    Output& output = outputs[block];
    output.width = shape.back();
    output.values.insert(output.values.end(), values.begin(), values.end());
  };
  Sequence sequence(engine);
  TracedRunner(engine, {.visit = keep, .operations = operations}).append(sequence, tokens, cancelable.flag());
  for (const std::string& name : operations) {
    const auto is_it = [&](const auto& output) { return output.first.ends_with("." + name); };
    if (name != "all" && std::ranges::none_of(outputs, is_it))
      throw bad_input("--operations: no layer has an operation '{}'; 'all' writes those that there are", name);
  }
  const auto path_of = [&](const std::string& block) {
    return (std::filesystem::path(folder) / (block + ".npy")).string();
  };
  for (const auto& [block, output] : outputs) inputs.refuse_output(path_of(block));
  for (const auto& [block, output] : outputs) write_array(path_of(block), output.values, output.width);
  for (const std::string& block : order) {
    const std::string place = find_damage(outputs.at(block).values, outputs.at(block).width);
    if (!place.empty()) throw not_a_number(model, block, place);
  }
  return std::move(outputs.at("logits").values);
}

int run(const LogitsOptions& o, const InputFiles& inputs) {
  if (o.out.empty() && o.trace.empty()) throw bad_input("--out or --trace is missing: where to write to");
  if (!o.operations.empty() && o.trace.empty()) throw bad_input("--operations needs --trace DIR");
  if (!o.trace.empty() && o.step != 0) throw bad_input("--trace and --step exclude each other");
  if (is_standard_output(o.out) && o.common.json)
    throw bad_input("--json and --out {} both write standard output", o.out);
  const auto tokens = parse_token_list(o.tokens, "--tokens");
  const auto engine =
      load_engine(o.model, o.common, {.context = std::ssize(tokens), .kv_type = o.kv_type, .exact = true});
  const int64_t vocabulary = engine->facts().vocabulary;
  check_tokens(tokens, vocabulary);
  const std::vector<float> logits = o.trace.empty()
                                        ? run_steps(engine, tokens, o)
                                        : run_traced(engine, tokens, o.model, o.trace, o.operations, inputs);
  if (o.out.empty()) return 0;
  const std::string place = find_damage(logits, vocabulary);
  if (!place.empty()) throw not_a_number(o.model, "logits", place);
  write_array(o.out, logits, vocabulary);
  if (o.common.verbose()) {
    report("note", fmt::format("{}: float32 [{}, {}]", o.out, tokens.size(), vocabulary));
  }
  return 0;
}

}  // namespace

void add_logits(Command root) {
  Command command = root.subcommand("logits", "Write the logits after each of the given tokens");
  const auto o = std::make_shared<LogitsOptions>();
  add_model(command, o->model);
  command.option("--tokens", o->tokens, "The tokens").placeholder("1,2,3").required();
  command.option("--out", o->out, "File to write: float32 [tokens, vocabulary]; -: standard output")
      .placeholder("FILE.npy")
      .file(FileUse::kStream);
  command.option("--trace", o->trace, "Write the output of every layer, too: embed.npy, layers.0.npy ... logits.npy")
      .placeholder("DIR")
      .file(FileUse::kFolder);
  command
      .option(
          "--operations", o->operations,
          "With --trace: this result inside of layers, too, as layers.0.NAME.npy, such as attn_norm; or all. May be "
          "repeated. What is written is not fused with what follows")
      .placeholder("NAME");
  command.number("--step", o->step, "Tokens of a pass: 1 is what generation does")
      .range(0, 65536)
      .default_text("as a prompt");
  add_kv_type(command, o->kv_type).default_text("f16; f32 with weights in f32");
  add_device_options(command, o->common);
  add_memory_options(command, o->common);
  add_split_options(command, o->common.several);
  add_check_weights(command, o->common);
  add_quantize(command, o->common);
  add_lora(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro logits MODEL --tokens 1,2,3 --out logits.npy");
  command.example("gabbro logits MODEL --tokens 1,2,3 --trace layers");
  command.runs([o, command] { return run(*o, inputs_of(command.spec())); });
}

}  // namespace gabbro::cli
