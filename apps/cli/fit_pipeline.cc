#include "apps/cli/fit_pipeline.h"

#include <nlohmann/json.hpp>

#include "apps/cli/image_options.h"
#include "apps/cli/picture_parts.h"
#include "apps/cli/terminal.h"
#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/engine/model_needs.h"
#include "src/pictures/placement.h"
#include "src/pictures/random_pipeline.h"

namespace gabbro::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;
using pictures::MemoryQuestion;
using pictures::PipelineMemory;

// The side of the largest square of common sizes, smaller than `size`, that fits; 0: none does.
int64_t fitting_side(const pictures::PipelineParts& parts, const std::shared_ptr<Device>& device,
                     const MemoryQuestion& question, uint64_t available) {
  for (const int64_t side : {1536, 1024, 768, 512, 384, 256, 128}) {
    if (side * side >= question.size.width * question.size.height) continue;
    MemoryQuestion smaller = question;
    smaller.size = {.width = side, .height = side};
    if (forecast_memory(parts, device, smaller).total_bytes() <= available) return side;
  }
  return 0;
}

OrderedJson document_of(const PipelineMemory& memory) {
  OrderedJson rows = OrderedJson::array();
  for (const pictures::PartMemory& part : memory.parts) {
    rows.push_back({{"part", part.name},
                    {"parameters", part.parameters},
                    {"weight_bytes", part.weight_bytes},
                    {"work_bytes", part.work_bytes}});
  }
  return rows;
}

std::string table_of(const PipelineMemory& memory) {
  std::string out = fmt::format("{:<16} {:>12} {:>12} {:>12}\n", "part", "parameters", "weights", "work");
  for (const pictures::PartMemory& part : memory.parts) {
    out += fmt::format("{:<16} {:>10.1f} M {:>12} {:>12}\n", part.name, static_cast<double>(part.parameters) / 1e6,
                       human_bytes(part.weight_bytes), human_bytes(part.work_bytes));
  }
  return out + fmt::format("{:<16} {:>12} {:>12} {:>12}  = {}\n", "together", "", human_bytes(memory.weight_bytes),
                           human_bytes(memory.work_bytes), human_bytes(memory.total_bytes()));
}

pictures::PipelineParts parts_of(const std::string& model, const PipelineFit& options) {
  if (!options.shape.empty()) {
    refuse_picture_parts(options.given);
    return pictures::random_pipeline(options.shape, DType::f16);
  }
  pictures::GivenParts given = options.given;
  given.needs_tokenizer = false;
  return pictures::open_pipeline(model, given);
}

}  // namespace

void add_pipeline_options(Command command, PipelineFit& options) {
  command.number("-W,--width", options.size.width, "Of a pipeline of pictures: width in pixels")
      .default_text("the model's")
      .range(1, 1 << 16);
  command.number("-H,--height", options.size.height, "Of a pipeline of pictures: height in pixels")
      .default_text("the model's")
      .range(1, 1 << 16);
  add_precision(command, options.precision);
  add_picture_parts(command, options.given);
}

void refuse_pipeline_options(const PipelineFit& options) {
  refuse_picture_parts(options.given);
  if (options.size.width > 0 || options.size.height > 0)
    throw bad_input("--{} is for pipelines of pictures only", options.size.width > 0 ? "width" : "height");
  if (options.precision != "auto") throw bad_input("--precision is for pipelines of pictures only");
}

int fit_pipeline(const std::string& model, const CommonOptions& common, const PipelineFit& options) {
  const pictures::PipelineParts parts = parts_of(model, options);
  const std::shared_ptr<Device> device = open_device(common.device, {.threads = common.threads});
  const uint64_t available = plannable_memory(device->facts());  // before anything is allocated there
  MemoryQuestion question{.size = options.size, .precision = pictures::parse_precision(options.precision)};
  PipelineMemory memory = forecast_memory(parts, device, question);
  const pictures::PictureSize& size = question.size;
  std::string placement;
  if (!common.memory.empty()) {
    const uint64_t budget = parse_size(common.memory, "--memory");
    const pictures::Placement placed = place_pipeline(parts, device, question, budget);
    memory = placed.forecast;
    placement = placed.describe();
  }
  const bool fits = available > 0 && memory.total_bytes() <= available;
  const bool asks_side = !fits && available > 0 && common.memory.empty();
  const int64_t side = asks_side ? fitting_side(parts, device, question, available) : 0;
  if (common.json) {
    print_json({{"model", parts.name},
                {"class", parts.class_name},
                {"width", size.width},
                {"height", size.height},
                {"precision", memory.precision},
                {"decodes_in_bands", memory.decodes_in_bands},
                {"placement", placement.empty() ? OrderedJson(nullptr) : OrderedJson(placement)},
                {"device", device->facts().id},
                {"parts", document_of(memory)},
                {"weight_bytes", memory.weight_bytes},
                {"work_bytes", memory.work_bytes},
                {"total_bytes", memory.total_bytes()},
                {"memory_free", available},
                {"fits", available > 0 ? OrderedJson(fits) : OrderedJson(nullptr)},
                {"fitting_side", side > 0 ? OrderedJson(side) : OrderedJson(nullptr)}});
    return 0;
  }
  std::string out = fmt::format("{}: {}, {} x {} pixels in {} on {}\n\n", parts.name, parts.class_name, size.width,
                                size.height, memory.precision, device->facts().id);
  out += table_of(memory);
  out += placement.empty() ? "\nAll weights stay loaded; the parts work in turn, in the same memory.\n"
                           : fmt::format("\n--memory {}: {}.\n", common.memory, placement);
  if (memory.decodes_in_bands) out += "Pictures are decoded in bands of rows.\n";
  if (available > 0) {
    out += fmt::format("{} of {} free on {}: {}\n", human_bytes(memory.total_bytes()), human_bytes(available),
                       device->facts().name, fits ? "fits" : "does not fit");
  }
  if (side > 0) out += fmt::format("{} x {} would fit.\n", side, side);
  print(out);
  return 0;
}

}  // namespace gabbro::cli
