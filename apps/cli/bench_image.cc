// `bench image`: times of a picture's parts, and pictures for hours.
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/cli/bench_image_measure.h"
#include "apps/cli/commands.h"
#include "apps/cli/image_options.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"
#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/base/seconds_since.h"
#include "src/pictures/pipeline_conversion.h"
#include "src/pictures/random_pipeline.h"

namespace gabbro::cli {
namespace {

using OrderedDocument = nlohmann::ordered_json;
using pictures::PictureRequest;
using pictures::Pipeline;

struct ImageBenchOptions {
  CommonOptions common;
  std::string model, shape, save, type = "f16", size, sampler, bands = "auto", precision = "auto";
  int64_t steps = 20, batch = 1;
  int repetitions = 3;
  float guidance = 7.5f, soak = 0;
};

// "768" or "768x512" as width and height; nothing: the model's.
std::pair<int64_t, int64_t> parse_sides(const std::string& text) {
  if (text.empty()) return {0, 0};
  const size_t cross = std::min(text.find('x'), text.size());
  const auto side = [&](std::string_view digits) {
    int64_t value = 0;
    const bool is_number = !digits.empty() && digits.size() <= 5 &&
                           std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) value = std::stoll(std::string(digits));
    if (value < 1) throw bad_input("--size: '{}' is neither a side nor WIDTHxHEIGHT in pixels", text);
    return value;
  };
  const int64_t width = side(std::string_view(text).substr(0, cross));
  return {width, cross < text.size() ? side(std::string_view(text).substr(cross + 1)) : width};
}

DType random_type(const std::string& name) {
  return name == "f32" ? DType::f32 : name == "bf16" ? DType::bf16 : DType::f16;
}

PictureRequest bench_request(const ImageBenchOptions& o, const std::atomic<bool>* cancel) {
  PictureRequest request{.prompt = "a photograph of an astronaut riding a horse", .negative = "blurry"};
  std::tie(request.width, request.height) = parse_sides(o.size);
  request.steps = o.steps;
  request.guidance = o.guidance;
  request.seed = 1;
  request.sampler = o.sampler;
  request.batch = o.batch;
  request.bands = decode_bands_of(o.bands);
  request.cancel = cancel;
  return request;
}

std::shared_ptr<Pipeline> load_for_bench(const ImageBenchOptions& o) {
  if (o.shape.empty() && o.model.empty())
    throw Error(ErrorCode::kBadInput, "MODEL is missing", "--shape sd15 does without one");
  pictures::PipelineOptions options{.device = o.common.device,
                                    .threads = o.common.threads,
                                    .check_weights = o.common.check_weights && o.shape.empty(),
                                    .precision = pictures::parse_precision(o.precision)};
  if (!o.common.memory.empty()) options.memory = parse_size(o.common.memory, "--memory");
  std::tie(options.width, options.height) = parse_sides(o.size);
  options.bands = decode_bands_of(o.bands);
  ProgressBar bar("loading", true);
  options.progress = [&](const std::string&, double done) { bar.show(done); };
  if (o.shape.empty()) return Pipeline::load(o.model, options);
  return Pipeline::load(pictures::random_pipeline(o.shape, random_type(o.type)), options);
}

std::optional<uint64_t> peak_of(const Pipeline& pipeline) {
  if (!pipeline.device().counts_memory()) return std::nullopt;
  return pipeline.device().memory(abi::MemoryKind::kDevice).reserved_peak;
}

OrderedDocument json_of(const std::vector<double>& seconds) {
  const Spread spread = spread_of(seconds);
  return {{"median", spread.median}, {"min", spread.least}, {"max", spread.most}, {"count", seconds.size()}};
}

// The pipeline that was measured, and the request.
struct BenchSubject {
  const ImageBenchOptions& options;
  const Pipeline& pipeline;
  PictureRequest request;  // with the sides of the picture
  double load_seconds = 0;
};

OrderedDocument facts_document(const BenchSubject& subject) {
  const ImageBenchOptions& o = subject.options;
  const pictures::PipelineFacts& facts = subject.pipeline.facts();
  return {{"model", facts.name},
          {"class", facts.class_name},
          {"shape", o.shape.empty() ? OrderedDocument(nullptr) : OrderedDocument(o.shape)},
          {"type", o.shape.empty() ? OrderedDocument(nullptr) : OrderedDocument(o.type)},
          {"precision", facts.precision},
          {"device", facts.device_id},
          {"device_name", facts.device_name},
          {"width", subject.request.width},
          {"height", subject.request.height},
          {"steps", o.steps},
          {"batch", o.batch},
          {"guidance", o.guidance},
          {"placement", facts.placement.empty() ? OrderedDocument(nullptr) : OrderedDocument(facts.placement)}};
}

std::string title_of(const BenchSubject& subject) {
  const ImageBenchOptions& o = subject.options;
  const pictures::PipelineFacts& facts = subject.pipeline.facts();
  return fmt::format("{}{} in {} on {} ({}), {} x {} pixels, {} steps\n\n", printable(facts.name),
                     o.shape.empty() ? "" : fmt::format(" of random {} weights", o.type), facts.precision,
                     facts.device_id, printable(facts.device_name), subject.request.width, subject.request.height,
                     o.steps) +
         (facts.placement.empty() ? "" : facts.placement + "\n\n");
}

int print_times(const BenchSubject& subject, const PictureTimes& times) {
  const std::optional<uint64_t> peak = peak_of(subject.pipeline);
  const std::pair<const char*, const std::vector<double>*> rows[] = {
      {"text states", &times.text}, {"step", &times.step}, {"decode", &times.decode}, {"picture", &times.picture}};
  if (subject.options.common.json) {
    OrderedDocument document = facts_document(subject);
    document["evaluations"] = times.evaluations;
    document["load_seconds"] = subject.load_seconds;
    document["first_picture_seconds"] = times.first;
    for (const auto& [name, seconds] : rows)
      document[(std::string_view(name) == "text states" ? "text" : std::string(name)) + "_seconds"] = json_of(*seconds);
    document["memory_peak"] = peak ? OrderedDocument(*peak) : OrderedDocument(nullptr);
    print_json(document);
    return 0;
  }
  std::string out = title_of(subject) +
                    fmt::format("{:<12} {:>12} {:>12} {:>12} {:>8}\n", "part", "median ms", "min", "max", "times");
  for (const auto& [name, seconds] : rows) {
    const Spread spread = spread_of(*seconds);
    out += fmt::format("{:<12} {:>12.3f} {:>12.3f} {:>12.3f} {:>8}\n", name, 1e3 * spread.median, 1e3 * spread.least,
                       1e3 * spread.most, seconds->size());
  }
  out += fmt::format("\nloaded in {:.2f} s, first picture in {:.2f} s; {} calls of the U-Net for a picture\n",
                     subject.load_seconds, times.first, times.evaluations);
  if (peak) out += fmt::format("allocated on {} at most: {}\n", subject.pipeline.facts().device_id, human_bytes(*peak));
  print(out);
  return 0;
}

int print_soak(const BenchSubject& subject, const SoakResult& soaked) {
  const bool flat = soaked.is_flat(), good = flat && soaked.differing == 0;
  if (subject.options.common.json) {
    OrderedDocument document = facts_document(subject);
    const auto memory = [](std::optional<uint64_t> before, std::optional<uint64_t> after) {
      if (!before) return OrderedDocument(nullptr);
      return OrderedDocument{{"before", *before}, {"after", *after}};
    };
    document["soak"] = {{"pictures", soaked.pictures},
                        {"rounds", soaked.rounds},
                        {"seconds", soaked.seconds},
                        {"differing", soaked.differing},
                        {"host_bytes", memory(soaked.host_before, soaked.host_after)},
                        {"device_bytes", memory(soaked.device_before, soaked.device_after)},
                        {"flat", flat}};
    print_json(document);
    return good ? 0 : 1;
  }
  std::string out = title_of(subject);
  out += fmt::format("{} pictures in {} rounds and {:.0f} s; {} differ from the first round\n", soaked.pictures,
                     soaked.rounds, soaked.seconds, soaked.differing);
  out += fmt::format("host: {} after two rounds, {} at the end\n", human_bytes(soaked.host_before),
                     human_bytes(soaked.host_after));
  if (soaked.device_before) {
    out += fmt::format("{}: {} after two rounds, {} at the end\n", subject.pipeline.facts().device_id,
                       human_bytes(*soaked.device_before), human_bytes(*soaked.device_after));
  }
  print(out + (flat ? "memory stays flat\n" : "memory grows\n"));
  return good ? 0 : 1;
}

// The random weights as a single file, for other programs.
int save_random(const ImageBenchOptions& o) {
  if (!o.save.ends_with(".safetensors")) throw bad_input("--save {}: the name does not end with .safetensors", o.save);
  const Cancelable cancelable;
  ProgressBar bar("writing", true);
  const pictures::ConvertedPipeline written = pictures::convert_to_single_file(
      pictures::random_pipeline(o.shape, random_type(o.type)), o.save, *find_file_type(std::string_view(o.type)),
      {.progress = [&](double done) { bar.show(done); }, .cancel = cancelable.flag()});
  say(fmt::format("{}: {} tensors, {}\n", o.save, written.tensors, human_bytes(written.bytes)));
  return 0;
}

int measure_image(const ImageBenchOptions& o) {
  if (!o.save.empty()) return save_random(o);
  if (!(o.soak >= 0 && o.soak <= 1000)) throw bad_input("--soak {} is not in 0 to 1000 hours", o.soak);
  const Cancelable cancelable;
  PictureRequest request = bench_request(o, cancelable.flag());
  const auto started = std::chrono::steady_clock::now();
  const std::shared_ptr<Pipeline> pipeline = load_for_bench(o);
  const double load_seconds = seconds_since(started);
  pipeline->check(request);
  if (request.width == 0)
    std::tie(request.width, request.height) = std::pair(pipeline->facts().width, pipeline->facts().height);
  const BenchSubject subject{o, *pipeline, request, load_seconds};
  constexpr double kHour = 3600;
  if (o.soak > 0) return print_soak(subject, soak(*pipeline, request, kHour * o.soak));
  return print_times(subject, measure_pictures(*pipeline, request, o.repetitions));
}

}  // namespace

void add_bench_image(Command bench) {
  Command command = bench.subcommand("image", "Measure pictures: text, steps, decoding, memory");
  const auto o = std::make_shared<ImageBenchOptions>();
  Option model = command
                     .option("MODEL,-m,--model", o->model,
                             "Stable Diffusion 1, 2 or SDXL: a folder as diffusers saves it, or a single file")
                     .file(FileUse::kInput)
                     .optional();
  const std::vector<std::string> shapes = pictures::random_pipeline_shapes();
  Option shape = command.option("--shape", o->shape, "Random weights of this shape in place of a model")
                     .one_of(shapes)
                     .placeholder(fmt::format("{}", fmt::join(shapes, "|")))
                     .excludes(model);
  command.option("--type", o->type, "Format of the random weights")
      .one_of({"f32", "f16", "bf16"})
      .placeholder("f32|f16|bf16")
      .needs(shape);
  command.option("--save", o->save, "Only write the random weights to this file, for other programs")
      .placeholder("FILE.safetensors")
      .file(FileUse::kOutput)
      .needs(shape);
  command.option("--size", o->size, "Sides in pixels").placeholder("SIDE|WIDTHxHEIGHT").default_text("the model's");
  command.number("--steps", o->steps, "Steps from noise to picture").range(1, 1000);
  command.number("--batch", o->batch, "Pictures of each repetition, drawn in sequence").range(1, 1 << 12);
  command.number("--guidance", o->guidance, "At most 1: one pass of the U-Net a step, else two in a batch");
  command.option("--sampler", o->sampler, "How steps are taken").placeholder("NAME").default_text("the pipeline's");
  command.option("--decode-bands", o->bands, "Decode in bands of rows, as `image` does")
      .one_of({"auto", "on", "off"})
      .placeholder("auto|on|off");
  add_precision(command, o->precision);
  command.number("-r,--repetitions", o->repetitions, "How often pictures are drawn, after one that is not counted")
      .range(1, 10000);
  command
      .number("--soak", o->soak,
              "Draw pictures of changing sizes and samplers for this many hours, and say whether memory stays flat")
      .placeholder("HOURS")
      .default_text("0: measure times");
  add_device_options(command, o->common);
  add_picture_memory(command, o->common);
  add_check_weights(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro bench image FOLDER --steps 20");
  command.example("gabbro bench image --shape sdxl --device cuda --json");
  command.runs([o] { return measure_image(*o); });
}

}  // namespace gabbro::cli
