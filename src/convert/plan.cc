#include "src/convert/plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/base/round_up.h"
#include "src/convert/fields.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quant/quant.h"

namespace gabbro::llm {
namespace {

bool has_encoder(DType dtype) { return !is_quantized(dtype) || quant_format(dtype).encode != nullptr; }

std::vector<int64_t> without_ones(std::span<const int64_t> shape) {
  std::vector<int64_t> lengths;
  std::ranges::copy_if(shape, std::back_inserter(lengths), [](int64_t length) { return length != 1; });
  return lengths;
}

// Matrices are compared by their shapes, other tensors by their number of elements.
bool has_planned_size(const CheckpointTensor& source, const PlannedTensor& planned, const TransformersLayout& theirs) {
  if (planned.shape.size() != 2) return source.elements() == planned.elements();
  std::vector<int64_t> expected = {planned.shape[0] + theirs.skipped_rows + theirs.trailing_rows, planned.shape[1]};
  if (theirs.transposed) std::swap(expected[0], expected[1]);
  const std::vector<int64_t> there = without_ones(source.shape);
  return there.size() == 2 ? there == without_ones(expected) : source.elements() == expected[0] * expected[1];
}

void check_size(const CheckpointTensor& source, const PlannedTensor& planned, const TransformersLayout& theirs) {
  if (has_planned_size(source, planned, theirs)) return;
  throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", source.file->path(),
                  quote(source.name), fmt::join(source.shape, ", "), fmt::join(planned.shape, ", "));
}

}  // namespace

ConvertPlan::ConvertPlan(const Checkpoint& checkpoint, const Convertible& model, const ConvertOptions& options)
    : checkpoint_(checkpoint), model_(model), options_(options), importance_(options) {
  plan_fields();
  for (const auto& [name, values] : tables_) add_table({.name = name, .shape = {std::ssize(values)}}, values);
  const std::vector<PlannedTensor> planned = planned_tensors(model_.plan, *options_.type);
  for (size_t i = 0; i < planned.size(); ++i) plan_tensor(model_.plan.tensors[i], planned[i]);
  for (const MergedAdapter& one : options_.adapters) one.adapter->require_used(adapter_pairs_);
  if (is_gguf()) {
    plan_copies();
  } else {
    note_unused();
  }
  std::ranges::copy(model_.notes, std::back_inserter(warnings_));
  std::ranges::copy(importance_.warnings(), std::back_inserter(warnings_));
  const std::string others = other_formats_.line(checkpoint_.path(), *options_.type, targets_.size());
  if (!others.empty()) warnings_.push_back(others);
  lay_out();
}

void ConvertPlan::plan_fields() {
  if (is_gguf()) {
    copy_fields(checkpoint_.metadata(), writer_);
  } else {
    GgufFields fields{.writer = writer_, .architecture = model_.architecture};
    note_mixtures(model_.plan, fields);
    warnings_ = write_fields(checkpoint_, model_, fields);
    if (options_.write_tokenizer) {
      std::ranges::copy(options_.write_tokenizer(model_.plan.sizes.vocabulary, writer_), std::back_inserter(warnings_));
    } else {
      writer_.add_string("tokenizer.ggml.model", "none");
    }
    tables_ = std::move(fields.tables);
  }
  writer_.add_u32("general.file_type", options_.type->number);
  writer_.add_u32("general.quantization_version", 2);
  write_importance_fields(options_, writer_);
}

void ConvertPlan::plan_tensor(const RequestedTensor& requested, const PlannedTensor& planned) {
  std::optional<ExpertTensors> experts;
  if (planned.experts.experts > 0) experts.emplace(model_.names, checkpoint_, planned.name, planned.experts);
  std::optional<HeadTensors> heads;
  if (requested.heads.heads > 0) heads.emplace(model_.names, checkpoint_, requested.name, requested.heads);
  const CheckpointTensor& source =
      experts ? experts->first() : checkpoint_.require_tensor(weight_name(model_.names, checkpoint_, planned.name));
  const bool computed = !is_gguf() && requested.theirs.is_computed();
  if (!experts && !heads && !is_gguf() && !computed) check_size(source, planned, requested.theirs);
  used_.insert(source.name);
  std::vector<float> importance = importance_.weights(planned);
  if (computed) return add_computed(requested, source);
  if (planned.shape.size() > 1) other_formats_.add(planned);
  // A vector of GGUF keeps its format.
  const DType dtype = planned.shape.size() == 1 && is_gguf() ? source.dtype() : planned.dtype;
  add({.name = planned.name,
       .shape = planned.shape,
       .type = gguf::ggml_type_number(dtype),
       .dtype = dtype,
       .source = &source,
       .theirs = is_gguf() ? TransformersLayout{} : requested.theirs,
       .experts = std::move(experts),
       .heads = std::move(heads),
       .merged = merged_rows(requested),
       .importance = std::move(importance)});
}

// Tensors that the family does not ask for.
void ConvertPlan::plan_copies() {
  for (const CheckpointTensor& source : checkpoint_.tensors()) {
    if (used_.contains(source.name)) continue;
    if (!source.known_dtype) {
      throw bad_input("{}: tensor {}: format {} cannot be converted", checkpoint_.path(), quote(source.name),
                      source.format);
    }
    if (source.shape.size() > 1 && source.dtype() != options_.type->base) other_formats_.add_copied(source.dtype());
    add({.name = std::string(source.name),
         .shape = source.shape,
         .type = gguf::ggml_type_number(source.dtype()),
         .source = &source});
  }
}

MergedRows ConvertPlan::merged_rows(const RequestedTensor& requested) {
  if (requested.shape.size() != 2 || requested.heads.heads > 0) return {};
  MergedRows merged(options_.adapters, model_.names, requested.name, {requested.shape[0], requested.shape[1]},
                    requested.theirs);
  for (const MergedRows::Term& term : merged.terms()) {
    adapter_pairs_.push_back(term.pair);
    if (!is_gguf() && term.adapter->in_gguf() && (requested.theirs.column || requested.theirs.factor)) {
      throw bad_input("{}: tensor {} is for GGUF's columns of '{}', which {} has in another order or with a factor",
                      term.adapter->path(), quote(term.pair->tensor), requested.name, checkpoint_.path());
    }
  }
  return merged;
}

// Matrices of a folder that the new file lacks, but for masks that older versions of transformers saved, and the pooler
// of encoders, whose result is not an embedding.
void ConvertPlan::note_unused() {
  constexpr std::string_view kUsual[] = {"attn.bias", "attention.bias", "position_ids", "pooler.dense.weight"};
  std::vector<std::string_view> unused;
  for (const CheckpointTensor& source : checkpoint_.tensors()) {
    const bool usual = source.shape.size() < 2 ||
                       std::ranges::any_of(kUsual, [&](auto end) { return source.name.ends_with(end); }) ||
                       (model_.plan.tied && source.name.ends_with("lm_head.weight"));
    if (!usual && !used_.contains(source.name)) unused.push_back(source.name);
  }
  if (unused.empty()) return;
  warnings_.push_back(
      fmt::format("{}: {} of {} tensors are left out, since the model does not use them; the first is {}",
                  checkpoint_.path(), unused.size(), checkpoint_.tensors().size(), quote(unused.front())));
}

// A small tensor whose values differ from the source.
void ConvertPlan::add_computed(const RequestedTensor& requested, const CheckpointTensor& source) {
  std::vector<float>& values = computed_[requested.name];
  if (requested.theirs.stacked) {
    const int64_t rows = requested.shape[0], columns = requested.shape[1];
    for (const CheckpointTensor* row : stacked_tensors(model_.names, checkpoint_, requested.name, rows, columns)) {
      used_.insert(row->name);
      std::ranges::copy(float_values(*row, columns, {}), std::back_inserter(values));
    }
    return add_table(requested, values);
  }
  int64_t count = 1, there = 1;
  for (const int64_t length : requested.shape) count *= length;
  for (const int64_t length : requested.theirs.shape) there *= length;
  if (requested.theirs.shape.empty() ? source.elements() != count : source.elements() != there) {
    throw bad_input("{}: tensor {} has {} elements, the model's sizes ask for {}", checkpoint_.path(),
                    quote(source.name), source.elements(), requested.theirs.shape.empty() ? count : there);
  }
  values = float_values(source, count, requested.theirs);
  add_table(requested, values);
}

void ConvertPlan::add_table(const RequestedTensor& requested, const std::vector<float>& values) {
  add({.name = requested.name,
       .shape = requested.shape,
       .type = gguf::ggml_type_number(DType::f32),
       .dtype = DType::f32,
       .table = &values});
}

void ConvertPlan::add(ConvertTarget target) {
  if (target.dtype && !has_encoder(*target.dtype)) {
    throw Error(ErrorCode::kBadInput, fmt::format("there is no encoder for {}", dtype_name(*target.dtype)),
                "choose another --type");
  }
  for (const CheckpointTensor* source : target.sources()) used_.insert(source->name);
  if (target.source != nullptr && target.dtype) {
    const DType from = target.source->dtype();
    if (!is_quantized(from) && !is_floating(from)) {
      throw bad_input("{}: tensor {}: weights in format {} are not supported", checkpoint_.path(),
                      quote(target.source->name), target.source->format);
    }
    const bool changed = from != *target.dtype || !target.merged.terms().empty();
    if (is_quantized(from) && changed && !requantized_) {
      requantized_ = true;
      warnings_.push_back(
          fmt::format("{}: its weights are {} already; quantized again they lose more than from the original",
                      checkpoint_.path(), target.source->format));
    }
  }
  targets_.push_back(std::move(target));
}

void ConvertPlan::lay_out() {
  for (const ConvertTarget& target : targets_) writer_.declare_tensor(target.name, target.type, target.shape);
  header_ = writer_.header();
  bytes_ = header_.size();
  for (size_t i = 0; i < targets_.size(); ++i) {
    targets_[i].offset = bytes_;
    targets_[i].bytes = writer_.tensors()[i].size;
    bytes_ += round_up(targets_[i].bytes, writer_.alignment());
  }
}

}  // namespace gabbro::llm
