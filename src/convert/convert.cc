#include "src/convert/convert.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/base/resumable_file.h"
#include "src/convert/plan.h"
#include "src/convert/recipe.h"
#include "src/convert/target.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quantized_folders/derived_data.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

using Target = ConvertTarget;

class Conversion {
 public:
  Conversion(const Checkpoint& checkpoint, const Convertible& model, const std::string& path,
             const ConvertOptions& options)
      : checkpoint_(checkpoint),
        path_(path),
        options_(options),
        plan_(checkpoint, model, options),
        targets_(plan_.targets()) {}

  Converted run() {
    ResumableFile file(path_, recipe_of(checkpoint_, options_, plan_.header(), targets_), plan_.bytes());
    file_ = &file;
    try {
      write();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kBadInput) file.discard();  // another attempt would end there too
      throw;
    }
    return {.bytes = plan_.bytes(), .tensors = targets_.size(), .tensors_found = found_, .warnings = plan_.warnings()};
  }

 private:
  // Rows of a target that a thread converts at a time.
  struct Chunk {
    Target* target;
    int64_t first, count;
  };
  struct ByteRange {
    uint64_t offset;
    size_t size;
  };

  void write();
  void check_written() const;
  std::vector<Chunk> chunks_of(Target& target) const;
  ByteRange range_of(const Chunk& chunk) const;  // in the new file
  std::string part_of(const Target& target) const;
  void drop_damaged_parts();
  std::vector<Chunk> open_chunks();
  void convert_all();
  void convert(const Chunk& chunk, std::vector<std::byte>& out);
  void release(const Target& target);

  const Checkpoint& checkpoint_;
  const std::string& path_;
  const ConvertOptions& options_;
  ConvertPlan plan_;
  const std::span<Target> targets_;
  uint64_t done_ = 0;
  size_t found_ = 0;                                 // parts of an earlier attempt
  std::mutex mutex_;                                 // of done_ and unfinished_
  std::map<const DerivedData*, size_t> unfinished_;  // targets that read it
  ResumableFile* file_ = nullptr;
};

void Conversion::write() {
  drop_damaged_parts();
  found_ = file_->parts_found();
  file_->write(0, std::as_bytes(std::span(plan_.header())));
  convert_all();
  file_->sync();
  if (!is_unchanged(checkpoint_)) {
    file_->discard();
    throw failed("{}: changed while it was converted", checkpoint_.path());
  }
  check_written();
  file_->finish(options_.replaces);
}

void Conversion::check_written() const {
  try {
    const Checkpoint written = Checkpoint::open(file_->partial_path());
    if (options_.check) options_.check(file_->partial_path());
  } catch (const Error& error) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: not written, since it could not be read: {}", path_, error.what()), error.hint());
  }
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

// Depends on nothing but the source's formats, so that another attempt has the same ones.
std::vector<Conversion::Chunk> Conversion::chunks_of(Target& target) const {
  constexpr size_t kChunk = size_t{4} << 20;  // bytes of the source that a thread takes at a time
  const int64_t rows = target.rows();
  const size_t per_row =
      target.source != nullptr ? dtype_bytes(target.source->dtype(), static_cast<size_t>(target.columns())) : kChunk;
  const int64_t step = std::clamp<int64_t>(static_cast<int64_t>(kChunk / std::max<size_t>(per_row, 1)), 1, rows);
  std::vector<Chunk> chunks;
  for (int64_t first = 0; first < rows; first += step) chunks.push_back({&target, first, std::min(step, rows - first)});
  return chunks;
}

std::string Conversion::part_of(const Target& target) const { return std::to_string(&target - targets_.data()); }

// Parts of an earlier attempt whose bytes are other ones by now are converted again.
void Conversion::drop_damaged_parts() {
  for_row_ranges(std::ssize(targets_), 1, [&](int64_t begin, int64_t end) {
    std::vector<std::byte> bytes;
    for (int64_t i = begin; i < end; ++i) {
      Target& target = targets_[static_cast<size_t>(i)];
      const auto digest = file_->digest_of(part_of(target));
      if (!digest) continue;
      uint64_t found = 0;
      for (const Chunk& chunk : chunks_of(target)) {
        const ByteRange range = range_of(chunk);
        bytes.resize(range.size);
        file_->read(range.offset, bytes);
        found += digest_of(bytes, range.offset);
      }
      if (fmt::format("{:x}", found) != *digest) file_->drop(part_of(target));
    }
  });
}

Conversion::ByteRange Conversion::range_of(const Chunk& chunk) const {
  const uint64_t row = chunk.target->bytes / static_cast<uint64_t>(chunk.target->rows());
  return {chunk.target->offset + static_cast<uint64_t>(chunk.first) * row, static_cast<size_t>(chunk.count) * row};
}

// The rows of all tensors that are not in the file yet, in its order.
std::vector<Conversion::Chunk> Conversion::open_chunks() {
  std::vector<Chunk> chunks;
  for (Target& target : targets_) {
    if (file_->digest_of(part_of(target))) {
      done_ += target.bytes;
      continue;
    }
    for (const CheckpointTensor* source : target.sources()) ++unfinished_[source->derived.get()];
    target.state = std::make_unique<Target::State>();
    target.state->rows_left = target.rows();
    std::ranges::copy(chunks_of(target), std::back_inserter(chunks));
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
  const uint64_t offset = range_of(chunk).offset;
  file_->write(offset, out);
  target.state->digest += digest_of(out, offset);
  if (target.state->rows_left.fetch_sub(chunk.count) == chunk.count) {
    file_->complete(part_of(target), fmt::format("{:x}", target.state->digest.load()));
    release(target);
  }
  const std::lock_guard lock(mutex_);
  done_ += out.size();
  if (options_.progress) options_.progress(done_, plan_.bytes());
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
  std::vector<std::string> notes;
  if (const std::string note = unused_layers(checkpoint, read_shape(checkpoint)); !note.empty())
    notes.push_back(checkpoint.path() + ": " + note);
  return {.architecture = std::string(family.architectures.front()),
          .names = family.names,
          .plan = plan_of(checkpoint),
          .notes = std::move(notes),
          .write_fields = [&](GgufFields& fields) { family.write_fields(checkpoint, fields); }};
}

void check_tensors(const Checkpoint& checkpoint, const Convertible& model) {
  for (const RequestedTensor& requested : model.plan.tensors) {
    if (requested.experts.experts > 0) {
      const ExpertTensors experts(model.names, checkpoint, requested.name, requested.experts);
      continue;
    }
    if (requested.heads.heads > 0) {
      const HeadTensors heads(model.names, checkpoint, requested.name, requested.heads);
      continue;
    }
    const CheckpointTensor& tensor = checkpoint.require_tensor(weight_name(model.names, checkpoint, requested.name));
    static_cast<void>(tensor.dtype());
    const auto front = std::ranges::find_if(tensor.shape, [](int64_t length) { return length != 1; });
    const auto wanted = std::ranges::find_if(requested.shape, [](int64_t length) { return length != 1; });
    if (!std::equal(front, tensor.shape.end(), wanted, requested.shape.end())) {
      throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint.path(),
                      quote(tensor.name), fmt::join(tensor.shape, ", "), fmt::join(requested.shape, ", "));
    }
  }
}

Converted convert(const Checkpoint& checkpoint, const Convertible& model, const std::string& path,
                  const ConvertOptions& options) try {
  return Conversion(checkpoint, model, path, options).run();
} catch (const Error& error) {
  if (error.code() != ErrorCode::kInterrupted) checkpoint.require_unchanged();  // then this is the reason
  throw;
}

}  // namespace gabbro::llm
