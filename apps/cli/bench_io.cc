// `bench io`: the links that weights arrive by: direct reads of a file, and copies from pinned memory to a device.
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"
#include "src/backend/registry.h"
#include "src/engine/streaming/link_probe.h"
#include "src/hub/model_cache.h"

namespace gabbro::cli {
namespace {

struct IoOptions {
  CommonOptions common;
  std::string file;
  int seconds = 3;
};

std::string gb_per_second(double speed) { return fmt::format("{:.2f} GB/s", speed / 1e9); }

int measure_io(const IoOptions& o) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  std::string lines;
  if (!o.file.empty()) {
    const std::string path = resolve_model(o.file);
    const double speed = streaming::measure_file(path, o.seconds);
    document["file"] = {{"path", path}, {"bytes_per_second", speed}};
    lines += fmt::format("direct reads of {}: {}\n", path, gb_per_second(speed));
  }
  const auto device = open_device(o.common.device, {.threads = o.common.threads});
  if (!device->host_accessible()) {
    const double speed = streaming::measure_copies(*device, o.seconds / 3.0);
    document["device"] = {{"id", device->facts().id}, {"bytes_per_second", speed}};
    lines += fmt::format("pinned memory to {}: {}\n", device->facts().id, gb_per_second(speed));
  }
  if (lines.empty()) lines = "the CPU works in the memory of the host: name a file whose disk is to be measured\n";
  o.common.json ? print_json(document) : print(lines);
  return 0;
}

}  // namespace

void add_bench_io(Command bench) {
  Command command = bench.subcommand("io", "Measure what streamed weights arrive by: a file's disk, a GPU's bus");
  const auto o = std::make_shared<IoOptions>();
  command.option("FILE", o->file, "Model, or another large file, that is read").file(FileUse::kModel).optional();
  command.number("--seconds", o->seconds, "Time that reading may take").range(1, 600);
  add_device_options(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro bench io MODEL");
  command.runs([o] { return measure_io(*o); });
}

}  // namespace gabbro::cli
