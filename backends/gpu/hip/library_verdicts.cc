#include "backends/gpu/hip/library_verdicts.h"

#include <fmt/format.h>

#include <utility>

#include "backends/gpu/tuning/autotune.h"

namespace gabbro::gpu::hip {
namespace {

constexpr const char* kWorks = "works";
constexpr const char* kAnyShape = "any shape";

const char* name_of(api::Activation activation) {
  switch (activation) {
    case api::Activation::kRelu:
      return ", relu";
    case api::Activation::kGeluTanh:
      return ", gelu_tanh";
    case api::Activation::kSilu:
      return ", silu";
    case api::Activation::kNone:
      break;
  }
  return "";
}

std::pair<std::string, std::string> key_of(const std::string& device, const std::string& library,
                                           const std::string& shape) {
  return {fmt::format("{}, {}", device, library), fmt::format("{}products: {}", kCheckPrefix, shape)};
}

}  // namespace

std::string class_of(const api::GemmShape& shape) {
  return fmt::format("{} to {}, {} x {} x {}{}{}{}{}{}", dtype_name(shape.dtype), dtype_name(shape.result),
                     length_class(shape.tokens), length_class(shape.rows), length_class(shape.depth),
                     shape.batches > 1 ? fmt::format(", batch of {}", length_class(shape.batches)) : "",
                     shape.w.transposed ? ", w transposed" : "", shape.x.transposed ? ", x transposed" : "",
                     shape.bias ? ", bias" : "", name_of(shape.activation));
}

LibraryVerdicts::LibraryVerdicts(std::string device, TuningFile file)
    : device_(std::move(device)), file_(std::move(file)) {
  std::string ignored;  // the device's own table reports it
  table_ = file_.load(ignored);
}

std::string LibraryVerdicts::problem(const std::string& library, const std::string& shape, const Check& check) {
  if (std::string known = fault(library); !known.empty()) return known;
  if (const TuningEntry* entry = find(library, shape)) return entry->chosen == kWorks ? "" : entry->chosen;
  const std::optional<LibraryVerdict> verdict = check();
  if (!verdict) return "it could not be tried";
  if (verdict->problem.empty()) {
    keep(library, shape, kWorks);
  } else {
    keep(library, verdict->is_fault ? kAnyShape : shape,
         verdict->is_fault ? fmt::format("{} ({})", verdict->problem, shape) : verdict->problem);
  }
  return verdict->problem;
}

std::string LibraryVerdicts::fault(const std::string& library) const {
  const TuningEntry* entry = find(library, kAnyShape);
  return entry == nullptr ? "" : entry->chosen;
}

const TuningEntry* LibraryVerdicts::find(const std::string& library, const std::string& shape) const {
  const auto found = table_.find(key_of(device_, library, shape));
  return found == table_.end() ? nullptr : &found->second;
}

void LibraryVerdicts::keep(const std::string& library, const std::string& shape, const std::string& text) {
  // An entry of the file has the choice among its candidates.
  const TuningTable entries = {{key_of(device_, library, shape), {.chosen = text, .candidates = {{text, 1}}}}};
  table_.insert(entries.begin(), entries.end());
  if (!file_.path().empty()) file_.store(entries);  // a verdict that is not kept is found again
}

}  // namespace gabbro::gpu::hip
