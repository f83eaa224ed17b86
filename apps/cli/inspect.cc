// `inspect`: what a model file says of itself, and its tensors. Works for files that we cannot run, too.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/inspect_picture.h"
#include "apps/cli/inspect_pipeline.h"
#include "apps/cli/inspect_single_file.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/options.h"
#include "apps/cli/source_layers.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/formats/checkpoint.h"
#include "src/formats/quant/finite.h"
#include "src/formats/zero_tensors.h"
#include "src/hub/model_cache.h"
#include "src/pictures/pipeline_folder.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  CommonOptions common;
  std::string model;
  bool tensors = false;
  bool check = false;
  bool explain = false;
};

constexpr size_t kShownElements = 6;      // of an array in the table
constexpr size_t kShownCharacters = 100;  // of a string in the table

// An array appears as its first elements; the whole vocabulary would drown the rest.
Json as_json(const MetadataValue& value) {
  if (value.is_array()) {
    Json first = Json::array();
    for (const MetadataValue& element : value.elements(kShownElements)) first.push_back(as_json(element));
    return {{"type", value.element_type_name()}, {"count", value.size()}, {"first", first}};
  }
  if (const auto text = value.as<std::string_view>()) return std::string(*text);
  if (const auto integer = value.as<int64_t>()) return *integer;
  if (const auto integer = value.as<uint64_t>()) return *integer;
  if (const auto number = value.as<double>())
    return std::isfinite(*number) ? Json(*number) : Json(fmt::format("{}", *number));
  if (const auto flag = value.as<bool>()) return *flag;
  return nullptr;
}

std::string as_text(const MetadataValue& value) {
  if (value.is_array()) {
    std::string text;
    for (const MetadataValue& element : value.elements(kShownElements))
      text += (text.empty() ? "" : ", ") + as_text(element);
    if (value.size() > kShownElements) text += ", ...";
    return fmt::format("[{}] ({} of {})", text, value.size(), value.element_type_name());
  }
  const auto whole = value.as<std::string_view>();
  if (!whole) return one_line_json(as_json(value));
  return printable(whole->substr(0, kShownCharacters)) + (whole->size() > kShownCharacters ? "..." : "");
}

struct Totals {
  uint64_t parameters = 0;
  uint64_t bytes = 0;
  std::vector<std::pair<std::string, size_t>> formats;  // by falling number of tensors
};

Totals total(const Checkpoint& checkpoint) {
  Totals totals;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    totals.parameters += static_cast<uint64_t>(tensor.elements());
    totals.bytes += tensor.data.size();
    auto at = std::find_if(totals.formats.begin(), totals.formats.end(),
                           [&](const auto& f) { return f.first == tensor.format; });
    if (at == totals.formats.end()) at = totals.formats.insert(at, {std::string(tensor.format), 0});
    ++at->second;
  }
  std::stable_sort(totals.formats.begin(), totals.formats.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return totals;
}

// The layers of an Ollama manifest by the words of its Modelfile.
Json layers_document(const hub::OllamaLayers& layers) {
  Json document = {{"name", layers.name}};
  if (!layers.adapters.empty()) document["adapter"] = layers.adapters;
  if (layers.chat_template) document["template"] = *layers.chat_template;
  if (!layers.system.empty()) document["system"] = layers.system;
  if (!layers.parameters.empty()) document["parameter"] = layers.parameters;
  for (const auto& [role, content] : layers.messages)
    document["message"].push_back({{"role", role}, {"content", content}});
  if (!layers.licenses.empty()) document["license"] = layers.licenses;
  return document;
}

// A line for each, below the file's fields; texts are shown whole.
std::string layers_text(const hub::OllamaLayers& layers, size_t width) {
  std::string out;
  const Json document = layers_document(layers);
  const auto add = [&](const std::string& key, const Json& value) {
    out += fmt::format("{:<{}}  {}\n", printable("ollama." + key), width,
                       value.is_string() ? printable(value.get<std::string>()) : one_line_json(value));
  };
  for (const auto& [key, value] : document.items()) {
    if (key == "parameter") {
      for (const auto& [name, number] : value.items()) add("parameter." + name, number);
    } else if (value.is_array()) {
      for (const Json& entry : value) add(key, entry);
    } else {
      add(key, value);
    }
  }
  return out;
}

void print_document(const Checkpoint& checkpoint, const SourceLayers& layers, const InspectOptions& o) {
  const Totals totals = total(checkpoint);
  const bool gguf = checkpoint.layout() == CheckpointLayout::kGguf;
  Json document = {{"path", checkpoint.path()},
                   {"format", gguf ? "gguf" : "safetensors"},
                   {"version", gguf ? Json(checkpoint.gguf_version()) : Json(nullptr)},
                   {"parts", checkpoint.file_count()},
                   {"tensor_count", checkpoint.tensors().size()},
                   {"parameters", totals.parameters},
                   {"tensor_bytes", totals.bytes},
                   {"formats", Json::object()},
                   {"metadata", Json::object()}};
  for (const auto& [name, count] : totals.formats) document["formats"][name] = count;
  for (const MetadataField& field : checkpoint.metadata().fields())
    document["metadata"][std::string(field.key)] = as_json(field.value);
  if (layers != nullptr) document["ollama"] = layers_document(*layers);
  if (o.tensors) {
    document["tensors"] = Json::array();
    for (const CheckpointTensor& tensor : checkpoint.tensors()) {
      document["tensors"].push_back(
          {{"name", tensor.name}, {"format", tensor.format}, {"shape", tensor.shape}, {"bytes", tensor.data.size()}});
    }
  }
  print_json(document);
}

void print_table(const Checkpoint& checkpoint, const SourceLayers& layers, const InspectOptions& o) {
  const Totals totals = total(checkpoint);
  std::string formats;
  for (const auto& [name, count] : totals.formats) formats += fmt::format(" {}x{}", count, name);
  std::string out =
      fmt::format("{}: {}, {} tensors, {:.1f} M parameters, {}{}\n\n", printable(checkpoint.path()),
                  checkpoint.description(), checkpoint.tensors().size(), static_cast<double>(totals.parameters) / 1e6,
                  human_bytes(totals.bytes), formats.empty() ? "" : "," + formats);
  size_t width = 0;
  for (const MetadataField& field : checkpoint.metadata().fields())
    width = std::max(width, printable(field.key).size());
  width = std::min<size_t>(width, 48);
  for (const MetadataField& field : checkpoint.metadata().fields()) {
    out += fmt::format("{:<{}}  {}\n", printable(field.key), width, as_text(field.value));
  }
  if (layers != nullptr) out += layers_text(*layers, width);
  if (o.tensors) {
    out += fmt::format("\n{:<40} {:>8} {:>20} {:>10}\n", "tensor", "format", "shape", "size");
    for (const CheckpointTensor& tensor : checkpoint.tensors()) {
      out += fmt::format("{:<40} {:>8} {:>20} {:>10}\n", printable(tensor.name), tensor.format,
                         fmt::format("{}", fmt::join(tensor.shape, " x ")), human_bytes(tensor.data.size()));
    }
  }
  print(out);
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShownNames = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShownNames); ++i) text += (i > 0 ? ", " : "") + printable(names[i]);
  return text + (names.size() > kShownNames ? fmt::format(" and {} more", names.size() - kShownNames) : "");
}

// Throws bad_input where the file has holes.
void report_zeros(const Checkpoint& checkpoint, const ZeroTensors::Found& zeros) {
  if (!zeros.single.empty()) {
    report("warning",
           fmt::format("{}: zeros throughout, which may be meant: {}", checkpoint.path(), listed(zeros.single)));
  }
  if (zeros.holes.empty()) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: {} tensors are zeros throughout: {}", checkpoint.path(), zeros.holes.size(),
                          listed(zeros.holes)),
              "an unfinished download leaves such holes in a file that was made in full size: fetch the file again");
}

// "nan at (3, 17)", or empty. The tensor is prepared.
std::string find_tensor_damage(const CheckpointTensor& tensor) {
  std::optional<FoundValue> found;
  if (tensor.known_dtype && (is_floating(*tensor.known_dtype) || is_quantized(*tensor.known_dtype))) {
    found = find_non_finite(*tensor.known_dtype, tensor.data.data(), tensor.elements());
  } else {
    found = find_non_finite_f8(tensor.format, tensor.data);
  }
  return found ? describe(*found, tensor.shape) : "";
}

// Throws bad_input that names the first tensor with values that are not numbers, the first of them, and how many other
// tensors there are; then the tensors in holes.
void check_tensors(const Checkpoint& checkpoint) {
  ProgressBar bar("reading", true);
  ZeroTensors zeros;
  std::string_view name;
  std::string place;
  size_t damaged = 0;
  uint64_t done = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    tensor.prepare();
    const std::string found = find_tensor_damage(tensor);
    if (!found.empty() && damaged++ == 0) {
      name = tensor.name;
      place = found;
    }
    zeros.add(tensor);
    tensor.release();
    done += tensor.data.size();
    bar.show(static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(1, checkpoint.file_bytes())));
  }
  checkpoint.require_unchanged();  // then this is the reason
  if (damaged == 0) return report_zeros(checkpoint, zeros.find());
  const std::string more = damaged > 1 ? fmt::format(" and {} other tensors have", damaged - 1) : " has";
  throw bad_input("{}: tensor '{}'{} values that are not numbers; the file is damaged: {}{}", checkpoint.path(),
                  printable(name), more, place, damaged > 1 ? " of the first" : "");
}

}  // namespace

void add_inspect(Command root) {
  Command command = root.subcommand("inspect", "Show the metadata and the tensors of a model file");
  const auto o = std::make_shared<InspectOptions>();
  add_model(command, o->model);
  command.flag("--tensors", o->tensors, "List the tensors too");
  command.flag("--check", o->check, "Read all weights, and name the tensors that are damaged");
  command.flag("--explain", o->explain,
               "Say what a single file of Stable Diffusion is, and which of its tensors decided");
  add_output_options(command, o->common);
  command.alias("show");
  command.example("gabbro inspect MODEL --tensors");
  command.runs([o] {
    if (is_picture_file(o->model)) {
      inspect_picture(o->model, o->common.json);
      return 0;
    }
    if (pictures::is_pipeline_folder(pictures::find_pipeline(o->model))) {
      if (o->tensors || o->check || o->explain) {
        throw Error(ErrorCode::kBadInput,
                    fmt::format("{}: is a pipeline's folder, which itself has no tensors", o->model),
                    "name the folder of a part, such as unet/, for --tensors and --check");
      }
      inspect_pipeline(o->model, o->common.json);
      return 0;
    }
    if (o->explain) {
      explain_single_file(o->model, o->common.json);
      return 0;
    }
    const auto [path, layers] = resolve_with_layers(o->model);
    const Checkpoint checkpoint = Checkpoint::open(path);
    if (o->check) check_tensors(checkpoint);
    checkpoint.require_unchanged();
    report_layers(layers);
    o->common.json ? print_document(checkpoint, layers, *o) : print_table(checkpoint, layers, *o);
    return 0;
  });
}

}  // namespace gabbro::cli
