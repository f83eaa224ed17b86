#include "src/testgen/model_choice.h"

#include <algorithm>

#include "src/base/error.h"

namespace gabbro::testgen {
namespace {

// The class that says most about a type: it runs all of the model, and its output is what users compare.
constexpr const char* kTaskOrder[] = {"seq2seq-lm",
                                      "speech-seq2seq",
                                      "masked-lm",
                                      "causal-lm",
                                      "image-text-to-text",
                                      "multimodal-lm",
                                      "zero-shot-image-classification",  // both towers; its other classes have one
                                      "ctc",
                                      "image-classification",
                                      "object-detection",
                                      "semantic-segmentation",
                                      "universal-segmentation",
                                      "depth-estimation",
                                      "video-classification",
                                      "audio-classification",
                                      "time-series-prediction",
                                      "base"};

bool is_name(const std::string& text, const char* more) {
  const auto allowed = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           std::string_view(more).find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= 100 && std::ranges::all_of(text, allowed);
}

std::string model_type(const Source& source) {
  if (!source.config.is_object()) throw bad_input("{}: not a configuration: expected an object", source.name);
  const auto found = source.config.find("model_type");
  if (found == source.config.end()) throw bad_input("{}: field 'model_type' is missing", source.name);
  // It becomes part of Python files and of paths.
  if (!found->is_string() || !is_name(*found, "-.") || found->get<std::string>().starts_with('.')) {
    throw bad_input("{}: field 'model_type' is not a name of a model type", source.name);
  }
  return *found;
}

std::string first_architecture(const Source& source) {
  const auto found = source.config.find("architectures");
  if (found == source.config.end() || found->is_null()) return "";
  if (!found->is_array() || found->empty() || !found->front().is_string() || !is_name(found->front(), "")) {
    throw bad_input("{}: field 'architectures' is not a list of class names", source.name);
  }
  return found->front();
}

bool has_own_code(const Source& source) {
  const auto found = source.config.find("auto_map");
  return found != source.config.end() && found->is_object() && !found->empty();
}

// Quantized weights need their library's kernels and have no seeded values.
void refuse_quantized(const Source& source) {
  const auto found = source.config.find("quantization_config");
  if (source.is_default || found == source.config.end() || found->is_null()) return;
  const std::string method = found->is_object() && found->contains("quant_method") &&
                                     found->at("quant_method").is_string() && is_name(found->at("quant_method"), "-")
                                 ? found->at("quant_method").get<std::string>()
                                 : "unnamed";
  throw bad_input(
      "{}: field 'quantization_config' ({}): quantized weights are not tested; without the field the model is",
      source.name, method);
}

// A class that `architectures` names and that is not the tested one.
void note_other_class(const Source& source, const std::string& architecture, ModelChoice& choice) {
  if (architecture.empty() || architecture == choice.model_class) return;
  const Json classes = TypeTable::get().find(choice.type)->at("classes");
  if (std::ranges::any_of(classes, [&](const Json& name) { return name == architecture; })) return;  // --task chose
  choice.notes.push_back(fmt::format("{} is tested, not {}, which field 'architectures' names{}", choice.model_class,
                                     architecture,
                                     has_own_code(source) ? ": the folder's own code (field 'auto_map') is never run"
                                                          : " and transformers does not have"));
}

std::string names_of(const Json& object) {
  std::string names;
  for (const auto& [name, value] : object.items()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string choose_task(const Source& source, const std::string& type, const Json& classes, const std::string& wanted,
                        const std::string& architecture) {
  if (!wanted.empty()) {
    if (classes.contains(wanted)) return wanted;
    throw bad_input("{}: {} has no class for the task {}; it has {}", source.name, type, wanted, names_of(classes));
  }
  for (const auto& [task, name] : classes.items()) {
    if (name == architecture) return task;
  }
  for (const char* task : kTaskOrder) {
    if (classes.contains(task)) return task;
  }
  return classes.begin().key();
}

// A type that the table does not have: the name of its class says its task.
ModelChoice choose_by_suffix(const Source& source, const std::string& type, const std::string& architecture) {
  const TypeTable& table = TypeTable::get();
  if (has_own_code(source)) {
    throw bad_input(
        "{}: model type '{}' is defined by the folder's own code (field 'auto_map'), which is never run: transformers "
        "{} "
        "has no such type",
        source.name, type, table.version());
  }
  if (architecture.empty()) {
    throw bad_input("{}: model type '{}' is not in the table of transformers {}, and there is no field 'architectures'",
                    source.name, type, table.version());
  }
  const std::string task = table.task_of_suffix(architecture);
  if (task.empty())
    throw bad_input("{}: the task of class {} does not follow from its name", source.name, architecture);
  ModelChoice choice{.type = type, .model_class = architecture, .task = task, .family = "other"};
  choice.auto_class = task == "base" ? "AutoModel" : table.tasks().at(task);
  choice.signature = {.main_input = "input_ids", .arguments = {"input_ids", "attention_mask"}};
  choice.notes.push_back(
      fmt::format("model type '{}' is not in the table of transformers {}: the task {} follows from "
                  "the name of its class",
                  type, table.version(), task));
  return choice;
}

}  // namespace

ModelChoice choose_model(const Source& source, const std::string& task) {
  const TypeTable& table = TypeTable::get();
  const std::string type = model_type(source), architecture = first_architecture(source);
  refuse_quantized(source);
  const auto row = table.find(type);
  if (!row) return choose_by_suffix(source, type, architecture);
  const Json& classes = row->at("classes");
  if (classes.empty()) {
    throw bad_input("{}: {} is a part of other models: transformers {} has no model class for it alone", source.name,
                    type, table.version());
  }
  ModelChoice choice{.type = type, .family = row->at("family")};
  choice.task = choose_task(source, type, classes, task, architecture);
  choice.model_class = classes.at(choice.task);
  choice.auto_class = table.tasks().contains(choice.task) ? table.tasks().at(choice.task) : "AutoModel";
  const Json& inputs = row->at("inputs");
  if (!inputs.contains(choice.model_class)) {
    throw bad_input("{}: class {} could not be imported when the table was made (it needs another library)",
                    source.name, choice.model_class);
  }
  choice.signature = table.signature(inputs.at(choice.model_class));
  note_other_class(source, architecture, choice);
  return choice;
}

}  // namespace gabbro::testgen
