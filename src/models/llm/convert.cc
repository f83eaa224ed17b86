#include "src/models/llm/convert.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "src/base/error.h"
#include "src/base/resumable_file.h"
#include "src/base/round_up.h"
#include "src/formats/ggml_type.h"
#include "src/formats/gguf_parse.h"
#include "src/formats/gguf_writer.h"
#include "src/formats/quant/quant.h"
#include "src/models/llm/config_reader.h"
#include "src/models/llm/convert_fields.h"
#include "src/models/llm/convert_target.h"
#include "src/models/llm/gguf_fields.h"
#include "src/models/llm/model_plan.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

bool has_encoder(DType dtype) { return !is_quantized(dtype) || quant_format(dtype).encode != nullptr; }

void check_size(const CheckpointTensor& source, const PlannedTensor& planned, const TransformersLayout& theirs) {
  const int64_t skipped =
      planned.shape.size() == 2 ? (theirs.skipped_rows + theirs.trailing_rows) * planned.shape[1] : 0;
  if (source.elements() == planned.elements() + skipped) return;
  throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", source.file->path(),
                  gguf::quote(source.name), fmt::join(source.shape, ", "), fmt::join(planned.shape, ", "));
}

using Target = ConvertTarget;

class Conversion {
 public:
  Conversion(const Checkpoint& checkpoint, const Convertible& model, const std::string& path,
             const ConvertOptions& options)
      : checkpoint_(checkpoint), model_(model), path_(path), options_(options) {}

  Converted run() {
    plan();
    lay_out();
    ResumableFile file(path_, recipe_of(checkpoint_, options_, header_), total_);
    file_ = &file;
    result_.tensors_found = file.parts_found();
    file.write(0, std::as_bytes(std::span(header_)));
    convert_all();
    checkpoint_.require_unchanged();
    file.finish();
    return result_;
  }

 private:
  // Rows of a target that a thread converts at a time.
  struct Chunk {
    Target* target;
    int64_t first, count;
  };

  void plan();
  void add(Target target);
  void add_table(const RequestedTensor& requested, const std::vector<float>& values);
  void add_computed(const RequestedTensor& requested, const CheckpointTensor& source);
  std::vector<float> importance_of(const PlannedTensor& planned) const;
  MergedRows merged_rows(const RequestedTensor& requested);
  void lay_out();
  std::vector<Chunk> open_chunks();
  void convert_all();
  void convert(const Chunk& chunk, std::vector<std::byte>& out);
  void release(const Target& target);

  const Checkpoint& checkpoint_;
  const Convertible& model_;
  const std::string& path_;
  const ConvertOptions& options_;
  std::vector<Target> targets_;
  std::map<std::string, std::vector<float>> tables_, computed_;
  gguf::Writer writer_;
  std::string header_;
  uint64_t total_ = 0, done_ = 0;
  std::mutex mutex_;                                 // of done_ and unfinished_
  std::map<const DerivedData*, size_t> unfinished_;  // targets that read it
  ResumableFile* file_ = nullptr;
  Converted result_;
  bool requantized_ = false;
  std::vector<const AdapterPair*> adapter_pairs_;  // that were merged
};

void Conversion::plan() {
  const ModelPlan& model = model_.plan;
  const std::vector<PlannedTensor> planned = planned_tensors(model, *options_.type);
  const bool gguf = checkpoint_.layout() == CheckpointLayout::kGguf;
  if (gguf) {
    copy_fields(checkpoint_.metadata(), writer_);
  } else {
    GgufFields fields{.writer = writer_, .architecture = model_.architecture};
    note_mixtures(model, fields);
    write_fields(checkpoint_, model_, fields);
    if (options_.write_tokenizer) {
      result_.warnings = options_.write_tokenizer(model.sizes.vocabulary, writer_);
    } else {
      writer_.add_string("tokenizer.ggml.model", "none");
    }
    tables_ = std::move(fields.tables);
  }
  writer_.add_u32("general.file_type", options_.type->number);
  writer_.add_u32("general.quantization_version", 2);
  write_importance_fields(options_, writer_);
  for (const auto& [name, values] : tables_) {
    add({.name = name,
         .shape = {std::ssize(values)},
         .type = gguf::ggml_type_number(DType::f32),
         .dtype = DType::f32,
         .table = &values});
  }
  std::map<std::string_view, size_t> used;
  for (size_t i = 0; i < planned.size(); ++i) {
    const RequestedTensor& requested = model.tensors[i];
    std::optional<ExpertTensors> experts;
    if (planned[i].experts.experts > 0) experts.emplace(model_.names, checkpoint_, planned[i].name, planned[i].experts);
    std::optional<HeadTensors> heads;
    if (requested.heads.heads > 0) heads.emplace(model_.names, checkpoint_, requested.name, requested.heads);
    const CheckpointTensor& source =
        experts ? experts->first()
                : checkpoint_.require_tensor(weight_name(model_.names, checkpoint_, planned[i].name));
    if (!experts && !heads && !gguf && !requested.theirs.is_computed())
      check_size(source, planned[i], model.tensors[i].theirs);
    used.emplace(source.name, i);
    if (!gguf && requested.theirs.is_computed()) {
      add_computed(requested, source);
      continue;
    }
    // A vector of GGUF stays as it is, whatever its format.
    const DType dtype = planned[i].shape.size() == 1 && gguf ? source.dtype() : planned[i].dtype;
    add({.name = planned[i].name,
         .shape = planned[i].shape,
         .type = gguf::ggml_type_number(dtype),
         .dtype = dtype,
         .source = &source,
         .theirs = gguf ? TransformersLayout{} : requested.theirs,
         .experts = std::move(experts),
         .heads = std::move(heads),
         .merged = merged_rows(requested),
         .importance = importance_of(planned[i])});
  }
  for (const MergedAdapter& one : options_.adapters) one.adapter->require_used(adapter_pairs_);
  if (!gguf) return;
  for (const CheckpointTensor& source : checkpoint_.tensors()) {  // those that the family does not ask for
    if (used.contains(source.name)) continue;
    if (!source.known_dtype) {
      throw bad_input("{}: tensor {}: format {} cannot be converted", checkpoint_.path(), gguf::quote(source.name),
                      source.format);
    }
    add({.name = std::string(source.name),
         .shape = source.shape,
         .type = gguf::ggml_type_number(source.dtype()),
         .source = &source});
  }
}

// Columns of the embeddings are inputs of no product.
std::vector<float> Conversion::importance_of(const PlannedTensor& planned) const {
  if (options_.importance == nullptr || planned.shape.size() < 2) return {};
  return options_.importance->weights(planned.name, std::max<int64_t>(planned.experts.experts, 1), planned.shape.back(),
                                      options_.importance_path);
}

MergedRows Conversion::merged_rows(const RequestedTensor& requested) {
  if (requested.shape.size() != 2 || requested.heads.heads > 0) return {};
  MergedRows merged(options_.adapters, model_.names, requested.name, {requested.shape[0], requested.shape[1]},
                    requested.theirs);
  for (const MergedRows::Term& term : merged.terms()) {
    adapter_pairs_.push_back(term.pair);
    const bool gguf = checkpoint_.layout() == CheckpointLayout::kGguf;
    if (!gguf && term.adapter->in_gguf() && (requested.theirs.column || requested.theirs.factor)) {
      throw bad_input("{}: tensor {} is for GGUF's columns of '{}', which {} has in another order or with a factor",
                      term.adapter->path(), gguf::quote(term.pair->tensor), requested.name, checkpoint_.path());
    }
  }
  return merged;
}

// A small tensor whose values are not those of the source.
void Conversion::add_computed(const RequestedTensor& requested, const CheckpointTensor& source) {
  std::vector<float>& values = computed_[requested.name];
  if (requested.theirs.stacked) {
    const int64_t rows = requested.shape[0], columns = requested.shape[1];
    for (const CheckpointTensor* row : stacked_tensors(model_.names, checkpoint_, requested.name, rows, columns))
      std::ranges::copy(float_values(*row, columns, {}), std::back_inserter(values));
    return add_table(requested, values);
  }
  int64_t count = 1, there = 1;
  for (const int64_t length : requested.shape) count *= length;
  for (const int64_t length : requested.theirs.shape) there *= length;
  if (requested.theirs.shape.empty() ? source.elements() != count : source.elements() != there) {
    throw bad_input("{}: tensor {} has {} elements, the model's sizes ask for {}", checkpoint_.path(),
                    gguf::quote(source.name), source.elements(), requested.theirs.shape.empty() ? count : there);
  }
  values = float_values(source, count, requested.theirs);
  add_table(requested, values);
}

void Conversion::add_table(const RequestedTensor& requested, const std::vector<float>& values) {
  add({.name = requested.name,
       .shape = requested.shape,
       .type = gguf::ggml_type_number(DType::f32),
       .dtype = DType::f32,
       .table = &values});
}

void Conversion::add(Target target) {
  if (target.dtype && !has_encoder(*target.dtype)) {
    throw Error(ErrorCode::kBadInput, fmt::format("there is no encoder for {}", dtype_name(*target.dtype)),
                "choose another --type");
  }
  if (target.source != nullptr && target.dtype) {
    const DType from = target.source->dtype();
    if (is_quantized(from) && from != *target.dtype && !requantized_) {
      requantized_ = true;
      result_.warnings.push_back(
          fmt::format("{}: its weights are {} already; quantized again they lose more than from the original",
                      checkpoint_.path(), target.source->format));
    }
  }
  targets_.push_back(std::move(target));
}

void Conversion::lay_out() {
  for (const Target& target : targets_) writer_.declare_tensor(target.name, target.type, target.shape);
  header_ = writer_.header();
  total_ = header_.size();
  for (size_t i = 0; i < targets_.size(); ++i) {
    targets_[i].offset = total_;
    targets_[i].bytes = writer_.tensors()[i].size;
    total_ += round_up(targets_[i].bytes, writer_.alignment());
  }
  result_.bytes = total_;
  result_.tensors = targets_.size();
}

void Conversion::convert_all() {
  const std::vector<Chunk> chunks = open_chunks();
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    std::vector<std::byte> out;
    try {
      for (size_t i; (i = next.fetch_add(1)) < chunks.size();) convert(chunks[i], out);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = chunks.size();
    }
  };
  const size_t threads =
      options_.threads > 0 ? static_cast<size_t>(options_.threads) : std::max(1U, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < std::min(threads, chunks.size()); ++i) others.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

// The rows of all tensors that are not in the file yet, in its order.
std::vector<Conversion::Chunk> Conversion::open_chunks() {
  constexpr size_t kChunk = size_t{4} << 20;  // bytes of the source that a thread takes at a time
  std::vector<Chunk> chunks;
  for (Target& target : targets_) {
    if (file_->has(target.name)) {
      done_ += target.bytes;
      continue;
    }
    for (const CheckpointTensor* source : target.sources()) ++unfinished_[source->derived.get()];
    const int64_t rows = target.rows();
    target.state = std::make_unique<Target::State>();
    target.state->rows_left = rows;
    const size_t per_row =
        target.source != nullptr ? dtype_bytes(target.source->dtype(), static_cast<size_t>(target.columns())) : kChunk;
    const int64_t step = std::clamp<int64_t>(static_cast<int64_t>(kChunk / std::max<size_t>(per_row, 1)), 1, rows);
    for (int64_t first = 0; first < rows; first += step)
      chunks.push_back({&target, first, std::min(step, rows - first)});
  }
  return chunks;
}

void Conversion::convert(const Chunk& chunk, std::vector<std::byte>& out) {
  if (options_.cancel != nullptr && *options_.cancel) throw Error(ErrorCode::kInterrupted, "interrupted", "");
  Target& target = *chunk.target;
  std::call_once(target.state->prepared, [&] {
    for (const CheckpointTensor* source : target.sources()) source->prepare();
  });
  target.convert_rows(chunk.first, chunk.count, checkpoint_.path(), out);
  const uint64_t row_bytes = out.size() / static_cast<size_t>(chunk.count);
  file_->write(target.offset + static_cast<uint64_t>(chunk.first) * row_bytes, out);
  if (target.state->rows_left.fetch_sub(chunk.count) == chunk.count) {
    file_->complete(target.name);
    release(target);
  }
  const std::lock_guard lock(mutex_);
  done_ += out.size();
  if (options_.progress) options_.progress(done_, total_);
}

// Derived data is released by the last target that reads it.
void Conversion::release(const Target& target) {
  const std::lock_guard lock(mutex_);
  for (const CheckpointTensor* source : target.sources()) {
    if (--unfinished_[source->derived.get()] == 0 || source->derived == nullptr) source->release();
  }
}

}  // namespace

Convertible convertible(const Checkpoint& checkpoint) {
  const Family& family = family_of(checkpoint);
  return {.architecture = std::string(family.architectures.front()),
          .names = family.names,
          .plan = plan_of(checkpoint),
          .write_fields = [&](GgufFields& fields) { family.write_fields(checkpoint, fields); }};
}

Converted convert(const Checkpoint& checkpoint, const Convertible& model, const std::string& path,
                  const ConvertOptions& options) try {
  return Conversion(checkpoint, model, path, options).run();
} catch (const Error& error) {
  if (error.code() != ErrorCode::kInterrupted) checkpoint.require_unchanged();  // then this is the reason
  throw;
}

}  // namespace gabbro::llm
