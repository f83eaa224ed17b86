// `bench ops`: time of single ops on a device, with the bytes that their kernels move and the operations that they
// compute per second. `python -m gabbro.bench` measures the same next to PyTorch.
#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/cli/bench_ops_cases.h"
#include "apps/cli/bench_ops_measure.h"
#include "apps/cli/bench_report.h"
#include "apps/cli/commands.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/options.h"
#include "apps/cli/read_bandwidth.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/backend/registry.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

struct OpsOptions {
  CommonOptions common;
  std::map<std::string, bool> groups;
  bool all = false;
  std::string filter;
  std::string size;  // empty: the device's
  std::vector<std::string> dtypes;
  OpMeasuring measuring;
  std::optional<std::string> html;
};

struct OpRow {
  OpCase op_case;
  DType dtype;
  std::optional<OpResult> result;
  std::string skipped;  // why there is none
};

// Facts common to all rows of the table and the document.
struct OpsRun {
  std::shared_ptr<Device> device;
  int threads;  // 0: not a CPU
  std::string size;
  double read_bandwidth = 0;  // bytes per second that the CPU's threads read; 0: not measured
};

std::string size_for(const Device& device) {
  if (std::string_view(device.facts().id).starts_with("sim")) return "tiny";  // simulated GPUs are slow
  return device.host_accessible() ? "small" : "large";
}

// How many threads a CPU has that was opened with `asked`; 0 for other devices.
int cpu_threads(const Device& device, int asked) {
  if (std::string_view(device.facts().id) != "cpu") return 0;
  return asked > 0 ? asked : device.facts().compute_units;
}

std::vector<OpRow> chosen_rows(const OpsOptions& o, const std::string& size) {
  const bool some_groups = !o.all && std::ranges::any_of(o.groups, [](const auto& group) { return group.second; });
  std::vector<OpRow> rows;
  for (const OpCase& one : op_cases(size)) {
    if (some_groups && !o.groups.at(one.group)) continue;
    if (one.name.find(o.filter) == std::string::npos) continue;
    for (const DType dtype : one.dtypes) {
      if (o.dtypes.empty() || std::ranges::find(o.dtypes, dtype_name(dtype)) != o.dtypes.end())
        rows.push_back({one, dtype, {}, {}});
    }
  }
  if (rows.empty()) throw bad_input("there is no case of these groups, dtypes and names");
  return rows;
}

void measure_rows(std::vector<OpRow>& rows, const OpsRun& run, const OpMeasuring& options) {
  const Cancelable cancelable;
  ProgressBar bar("measuring", true);
  for (size_t i = 0; i < rows.size(); ++i) {
    bar.show(static_cast<double>(i) / static_cast<double>(rows.size()));
    OpRow& row = rows[i];
    try {
      row.result = measure_op(run.device, row.op_case, row.dtype, options, cancelable.flag());
    } catch (const OutOfMemory& error) {
      row.skipped = error.what();
    }
  }
}

Json number_or_null(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json row_document(const OpRow& row) {
  Json shapes = Json::array();
  for (const Shape& shape : row.op_case.inputs)
    shapes.push_back(std::vector<int64_t>(shape.lengths().begin(), shape.lengths().end()));
  Json out = {{"name", row.op_case.name},
              {"group", row.op_case.group},
              {"op", row.op_case.op},
              {"shapes", shapes},
              {"dtype", dtype_name(row.dtype)}};
  if (!row.result) {
    out["seconds"] = nullptr;
    out["skipped"] = row.skipped;
    return out;
  }
  const auto& [timing, bytes, flops, kernels] = *row.result;
  out["seconds"] = {{"median", timing.median}, {"min", timing.least}, {"max", timing.most}};
  out["samples"] = timing.samples;
  out["runs_per_sample"] = timing.runs;
  out["bytes"] = number_or_null(bytes);
  out["flops"] = number_or_null(flops);
  out["bytes_per_second"] = number_or_null(bytes / timing.median);
  out["flops_per_second"] = number_or_null(flops / timing.median);
  out["launches"] = kernels.size();
  out["kernels"] = kernels;
  return out;
}

// "2026-03-01T12:00:00Z"
std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[sizeof "2026-03-01T12:00:00Z"];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json ops_document(const std::vector<OpRow>& rows, const OpsRun& run, const OpMeasuring& options) {
  const abi::DeviceFacts& facts = run.device->facts();
  Json out = {{"version", GABBRO_VERSION},
              {"date", utc_now()},
              {"device", facts.id},
              {"device_name", facts.name},
              {"architecture", facts.architecture},
              {"driver", facts.driver},
              {"runtime", facts.runtime},
              {"threads", run.threads > 0 ? Json(run.threads) : Json(nullptr)},
              {"size", run.size},
              {"warmup", options.warmup},
              {"read_bandwidth", number_or_null(run.read_bandwidth)},
              {"peer", nullptr},
              {"results", Json::array()}};
  for (const OpRow& row : rows) out["results"].push_back(row_document(row));
  return out;
}

// Equal launches once: "softmax avx2, elementwise mul add avx2".
std::string kernel_names(const std::vector<std::string>& kernels) {
  std::vector<std::string> names;
  for (const std::string& kernel : kernels) {
    if (std::ranges::find(names, kernel) == names.end()) names.push_back(kernel);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + printable(name);
  return text;
}

// Billions per second, with three digits that mean something.
std::string rate(double value, double seconds) {
  const double billions = value / seconds * 1e-9;
  if (value <= 0) return "-";
  return fmt::format("{:.{}f}", billions, billions >= 100 ? 0 : billions >= 10 ? 1 : billions >= 1 ? 2 : 3);
}

std::string ops_table(const std::vector<OpRow>& rows, const OpsRun& run) {
  const abi::DeviceFacts& facts = run.device->facts();
  size_t width = 0;
  for (const OpRow& row : rows) width = std::max(width, row.op_case.name.size());
  std::string out =
      fmt::format("gabbro {} on {} ({}){}: {} cases of size {}\n", GABBRO_VERSION, facts.id, printable(facts.name),
                  run.threads > 0 ? fmt::format(", {} threads", run.threads) : "", rows.size(), run.size);
  std::string group;
  for (const OpRow& row : rows) {
    if (row.op_case.group != group) {
      group = row.op_case.group;
      out += fmt::format("\n{:<{}} {:<5} {:>11} {:>11} {:>11} {:>8} {:>9} {:>8}  kernels\n", group, width, "dtype",
                         "median us", "min us", "max us", "GB/s", "GFLOP/s", "launches");
    }
    out += fmt::format("{:<{}} {:<5} ", row.op_case.name, width, dtype_name(row.dtype));
    if (!row.result) {
      out += fmt::format("skipped: {}\n", printable(row.skipped));
      continue;
    }
    const auto& [timing, bytes, flops, kernels] = *row.result;
    out += fmt::format("{:>11.2f} {:>11.2f} {:>11.2f} {:>8} {:>9} {:>8}  {}\n", timing.median * 1e6, timing.least * 1e6,
                       timing.most * 1e6, rate(bytes, timing.median), rate(flops, timing.median), kernels.size(),
                       kernel_names(kernels));
  }
  if (run.read_bandwidth > 0)
    out += fmt::format("\nmemory read by {} threads: {:.1f} GB/s\n", run.threads, run.read_bandwidth / 1e9);
  return out;
}

int run_ops(const OpsOptions& o) {
  if (o.html) require_report_path(*o.html);
  if (o.html && is_standard_output(*o.html) && o.common.json)
    throw bad_input("--json and --html {} both write standard output", *o.html);
  const auto device = open_device(o.common.device, {.threads = o.common.threads});
  OpsRun run = {.device = device,
                .threads = cpu_threads(*device, o.common.threads),
                .size = o.size.empty() ? size_for(*device) : o.size};
  std::vector<OpRow> rows = chosen_rows(o, run.size);
  measure_rows(rows, run, o.measuring);
  // Tiny shapes stay in the caches.
  if (run.threads > 0 && run.size != "tiny") run.read_bandwidth = measure_read_bandwidth(run.threads);
  const Json document = ops_document(rows, run, o.measuring);
  const bool page_only = o.html && is_standard_output(*o.html);
  if (!page_only) o.common.json ? print_json(document) : print(ops_table(rows, run));
  if (o.html) write_report(*o.html, document);
  return 0;
}

}  // namespace

void add_bench_ops(Command bench) {
  Command command = bench.subcommand("ops", "Measure single ops: time, bytes and operations per second, kernels");
  const auto o = std::make_shared<OpsOptions>();
  command.flag("--all", o->all, "Measure all groups (the default)");
  for (const std::string& group : op_groups())
    command.flag("--" + group, o->groups[group], fmt::format("Measure the cases of the group {}", group));
  command.option("--filter", o->filter, "Measure only cases with this text in their names").placeholder("TEXT");
  command.option("--dtype", o->dtypes, "Measure this dtype; may be repeated (default: all three)")
      .one_of({"f32", "f16", "bf16"})
      .placeholder("f32|f16|bf16");
  command
      .option("--size", o->size, "Size of the shapes (default: small on a CPU, large on a GPU, tiny on the simulator)")
      .one_of({"tiny", "small", "large"})
      .placeholder("tiny|small|large");
  command
      .number("--iterations", o->measuring.iterations,
              "Samples to take of each case; 0: as many as fit in a quarter of a second, 5 to 200")
      .range(0, 100000);
  command.number("--warmup", o->measuring.warmup, "Runs of each case before it is measured").range(0, 100000);
  command
      .option("--html", o->html, "Write a page with plots to this file; -: to standard output, in place of the table")
      .placeholder("FILE")
      .file(FileUse::kStream);
  add_device_options(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro bench ops --softmax --norm --dtype f16");
  command.example("gabbro bench ops --html report.html");
  command.runs([o] { return run_ops(*o); });
}

}  // namespace gabbro::cli
