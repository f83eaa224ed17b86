// `testgen`: tests of Hugging Face models on the user's own device, and running them.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "apps/cli/commands.h"
#include "apps/cli/input_files.h"
#include "apps/cli/signals_held.h"
#include "apps/cli/terminal.h"
#include "apps/cli/testgen_options.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/testgen/write_pack.h"

namespace gabbro::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json describe(const testgen::Pack& pack, const std::string& folder) {
  Json files = Json::array();
  for (const auto& [name, text] : pack.files) files.push_back(name);
  return {{"type", pack.type},     {"class", pack.model_class}, {"task", pack.task},
          {"family", pack.family}, {"inputs", pack.recipe},     {"checks", pack.checks},
          {"notes", pack.notes},   {"folder", folder},          {"files", files}};
}

struct Written {
  Json document = {{"types", Json::array()}, {"skipped", Json::array()}, {"failed", Json::array()}};
  std::string lines;
};

// Writes one pack for each target, with `alone` straight to o.out. With --all and --family, types that no test can be
// made of are lines of the list; for a target that was asked for by name they are the error.
Written write_packs(const TestgenOptions& o, testgen::PackOptions options, const std::vector<std::string>& targets,
                    bool by_name, const InputFiles& inputs) {
  Written written;
  for (const std::string& target : targets) {
    testgen::Pack pack;
    bool can_be_made = false;
    try {
      const testgen::Source source = read_source(target);
      options.command = command_of(o, source);
      options.engines = engines_of(o, source);
      testgen::check_source(source, options.task);
      can_be_made = true;
      pack = testgen::make_pack(source, options);
    } catch (const Error& error) {
      const bool is_fault = o.verify && can_be_made;
      if (!is_fault && (by_name || error.code() != ErrorCode::kBadInput)) throw;
      written.document[is_fault ? "failed" : "skipped"].push_back({{"type", target}, {"reason", error.what()}});
      written.lines += fmt::format("{}: no tests: {}\n", target, error.what());
      continue;
    }
    if (!o.family.empty() && pack.family != o.family) {
      if (by_name) throw bad_input("{}: its family is {}, not {}", target, pack.family, o.family);
      continue;
    }
    const bool alone = targets.size() == 1 && !o.verify;
    const std::string folder = alone ? o.out : (fs::path(o.out) / pack.type).string();
    inputs.refuse_folder(folder);
    {
      const SignalsHeld held;  // a pack is there as a whole, or not at all
      const bool is_first = written.document["types"].empty();
      if (is_first && !alone) testgen::write_shared(o.out, o.force || o.verify);
      testgen::write_pack(pack, folder, o.force || o.verify, alone);
    }
    written.document["types"].push_back(describe(pack, folder));
    written.lines += fmt::format("{}: {}, {} checks, {}\n", pack.type, pack.model_class, pack.checks.size(), folder);
    if (!o.verify && by_name) {
      for (const std::string& note : pack.notes) report("note", note);
    }
  }
  return written;
}

// The configurations of the targets, and --from.
InputFiles inputs_of(const TestgenOptions& o) {
  InputFiles inputs;
  if (!o.from.empty()) inputs.add(o.from, "the file of --from");
  for (const std::string& target : o.targets) {
    const bool is_folder = fs::is_directory(target) && fs::exists(fs::path(target) / "config.json");
    if (testgen::TypeTable::get().find(target) && !is_folder) continue;
    inputs.add(is_folder ? (fs::path(target) / "config.json").string() : target, "the configuration");
  }
  return inputs;
}

int generate(const TestgenOptions& o) {
  const testgen::PackOptions options = pack_options(o);
  if (o.out.empty()) throw bad_input("-o is missing: the folder to write to");
  const std::vector<std::string> targets = all_targets(o);
  if (targets.empty()) throw bad_input("nothing to write tests for: give a model type, a config.json, or --all");
  Written written = write_packs(o, options, targets, targets.size() <= o.targets.size(), inputs_of(o));
  written.document.erase("failed");
  o.common.json ? print_json(written.document) : print(written.lines);
  return 0;
}

int print_list(const TestgenOptions& o) {
  const testgen::TypeTable& table = testgen::TypeTable::get();
  std::vector<std::pair<std::string, std::string>> rows;
  if (o.list == "types") {
    for (const std::string& type : table.types()) rows.emplace_back(type, table.find(type)->at("family"));
  } else if (o.list == "tasks") {
    for (const auto& [task, name] : table.tasks()) rows.emplace_back(task, name);
  } else if (o.list == "checks") {
    rows = testgen::all_checks();
  } else {
    for (const std::string& family : testgen::all_families()) rows.emplace_back(family, "");
  }
  Json document = {{o.list, Json::array()}, {"transformers", table.version()}};
  std::string text;
  for (const auto& [name, about] : rows) {
    document[o.list].push_back({{"name", name}, {"about", about}});
    text += about.empty() ? name + "\n" : fmt::format("{:<28} {}\n", name, about);
  }
  o.common.json ? print_json(document) : print(text);
  return 0;
}

// The arguments that all Python sides have in common.
std::vector<std::string> python_arguments(const TestgenOptions& o) {
  std::vector<std::string> words = o.targets;
  words.insert(words.end(),
               {"--device", o.devices, "--limit", std::to_string(o.limit), "--jobs", std::to_string(o.jobs)});
  if (!o.report.empty()) words.insert(words.end(), {"--report", o.report});
  if (!o.require.empty()) words.insert(words.end(), {"--require", o.require});
  if (o.common.json) words.push_back("--json");
  return words;
}

int bisect(const TestgenOptions& o) {
  if (o.targets.size() != 1) throw bad_input("--bisect: name the folder of the pack that has the test");
  std::vector<std::string> words = {
      o.targets[0], o.bisect, "--output", o.out.empty() ? "." : o.out, "--limit", std::to_string(o.limit)};
  if (o.common.json) words.push_back("--json");
  return run_python(o, "bisection.py", words);
}

// Whether a file is what --golden wrote, perhaps next to the model.
bool is_golden(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  const Json document = Json::parse(read_input(path), nullptr, false);
  return document.is_object() && document.contains("blocks") && document.contains("tokens");
}

int golden(const TestgenOptions& o) {
  if (o.targets.size() != 1) throw bad_input("--golden: name the folder of one model");
  InputFiles inputs;
  inputs.add_model(o.targets[0]);
  if (o.force && !is_golden(o.golden)) inputs.refuse_output(o.golden);
  std::vector<std::string> words = {o.targets[0], o.golden, "--program", fs::read_symlink("/proc/self/exe").string()};
  if (o.force) words.push_back("--force");
  if (o.common.json) words.push_back("--json");
  return run_python(o, "golden.py", words);
}

// Renders the packs of all types, or of the types of --from, with every template, and checks them.
int verify_all(TestgenOptions o, std::vector<std::string> words) {
  o.all = o.from.empty();
  std::optional<TemporaryFolder> temporary;
  if (o.out.empty()) o.out = temporary.emplace().path().string();
  if (o.lengths.empty()) o.lengths = {1, 31};  // each length is the same test again
  o.engines = "transformers,gabbro";           // or test_parity.py would not be rendered
  const Written written = write_packs(o, pack_options(o), all_targets(o), false, inputs_of(o));
  const std::string text = written.document.dump();
  const std::string path = (fs::path(o.out) / "rendered.json").string();
  write_output(path, std::as_bytes(std::span(text)));
  words.insert(words.end(), {"--rendered", path});
  return run_python(o, "verify.py", words);
}

int verify(const TestgenOptions& o) {
  std::vector<std::string> words = python_arguments(o);
  if (o.mutate) words.push_back("--mutate");
  if (o.force) words.push_back("--force");
  const std::string journal = (fs::path(o.out) / "verified.jsonl").string();
  inputs_of(o).refuse_output(journal);
  if (!o.out.empty()) words.insert(words.end(), {"--journal", journal});
  if (o.seconds > 0) words.insert(words.end(), {"--seconds", std::to_string(o.seconds)});
  const bool folders = !o.targets.empty();
  if (folders && (o.all || !o.from.empty())) throw bad_input("--verify: give folders of packs, or --all or --from");
  return folders ? run_python(o, "verify.py", words) : verify_all(o, words);
}

// Files of --report are written by Python.
void check_report(const TestgenOptions& o) {
  const InputFiles inputs = inputs_of(o);
  for (const char* const name : {"results.json", "junit.xml", "index.html", "issue.md"})
    inputs.refuse_output((fs::path(o.report) / name).string());
}

int run(const TestgenOptions& o) {
  check_devices(o.devices);
  if (!o.report.empty()) check_report(o);
  if (!o.list.empty()) return print_list(o);
  if (o.detect) {
    std::vector<std::string> words;
    if (o.run_model) words.push_back("--run-model");
    if (!o.require.empty()) words.insert(words.end(), {"--require", o.require});
    if (o.common.json) words.push_back("--json");
    return run_python(o, "detect.py", words);
  }
  if (!o.bisect.empty()) return bisect(o);
  if (!o.golden.empty()) return golden(o);
  if (o.verify) return verify(o);
  if (o.run) {
    if (o.targets.empty()) throw bad_input("--run: name the folder of a pack");
    return run_python(o, "runner.py", python_arguments(o));
  }
  return generate(o);
}

void add_run_options(Command command, TestgenOptions& o) {
  command.flag("--run", o.run, "Run the packs in the folders TARGET");
  command.option("--report", o.report, "Write results.json, junit.xml, index.html and issue.md")
      .placeholder("DIR")
      .file(FileUse::kFolder);
  command.option("--require", o.require, "Exit code 3 where no such device can be used").one_of({"rocm", "cuda"});
  command.number("--jobs", o.jobs, "Packs that run at a time").range(1, 64);
  command.number("--limit", o.limit, "Seconds that a test may take").range(1, 86400);
  command.flag("--detect", o.detect, "Show which GPUs torch can use, and the first broken link of each other one");
  command.flag("--run-model", o.run_model, "With --detect: run a small network on the device, too");
  command.flag("--verify", o.verify,
               "Check packs themselves, without a folder the packs of all types: they parse, type-check, are "
               "collected and run; -o keeps packs and outcomes, and a second call goes on");
  command.number("--seconds", o.seconds, "With --verify: start no pack after this time; 0: no limit").range(0, 1000000);
  command.flag("--mutate", o.mutate, "With --verify: plant faults in the subject, and count those that are found");
  command.option("--bisect", o.bisect, "Find the operation behind a failed test of the pack TARGET; -o: the reproducer")
      .placeholder("TEST");
  command
      .option("--golden", o.golden,
              "Compare Gabbro's blocks of the model folder TARGET with FILE, which is written with torch where it is "
              "missing")
      .placeholder("FILE")
      .file(FileUse::kOutput);
  command.option("--python", o.python, "The Python that has torch, transformers and pytest").placeholder("PROGRAM");
}

}  // namespace

void add_testgen(Command root) {
  Command command = root.subcommand("testgen", "Write and run tests of Hugging Face models on your device");
  const auto o = std::make_shared<TestgenOptions>();
  command.option("TARGET", o->targets, "Model types such as llama, a config.json, a model folder, a downloaded model")
      .takes_rest();
  command.option("-o,--output", o->out, "The folder to write to; with several targets, a folder each in it")
      .placeholder("DIR")
      .file(FileUse::kFolder);
  command.option("--task", o->task, "Test the class of this task: base, causal-lm ...").placeholder("TASK");
  command.option("--family", o->family, "Only types of this family").placeholder("FAMILY");
  command.flag("--all", o->all, "All model types");
  command.option("--from", o->from, "Targets from a file, one a line").placeholder("FILE").file(FileUse::kInput);
  command
      .option("--size", o->sizes,
              "Sizes of the model: tiny, heads (heads of the real size), true (real widths, 2 layers), full; auto: "
              "tiny, and "
              "heads for layers on a card")
      .placeholder("NAMES");
  command.option("--dtypes", o->dtypes, "f32, bf16, f16").placeholder("NAMES");
  command.option("--devices", o->devices, "auto, all, cpu, cuda:N, rocm:N").placeholder("NAMES");
  command.option("--checks", o->checks, "Only these checks").placeholder("NAMES");
  command.option("--without", o->without, "All checks but these").placeholder("NAMES");
  command.numbers("--lengths", o->lengths, "Lengths of padding").default_text("1,31,32,33");
  command
      .option("--engine", o->engines,
              "transformers, gabbro: also the blocks of Gabbro against f64 (parity); auto: both for the families that "
              "Gabbro runs")
      .placeholder("NAMES");
  command.number("--seed", o->seed, "Seed of weights and inputs");
  command.flag("--force", o->force, "Replace packs that are there");
  command.option("--list", o->list, "List what there is").one_of({"types", "tasks", "checks", "families"});
  add_run_options(command, *o);
  add_output_options(command, o->common);
  command.example("gabbro testgen llama -o tests");
  command.example("gabbro testgen --run tests --report report");
  command.example("gabbro testgen --bisect 'test_layers[cuda:0-f32-tiny-lively]' tests");
  command.example("gabbro testgen --detect");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
