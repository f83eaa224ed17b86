#include "src/engine/processes/process_pass.h"

#include <algorithm>
#include <array>

#include "src/base/error.h"
#include "src/base/mpi/ranks.h"
#include "src/engine/cache/engine_cache.h"
#include "src/engine/loaded_model.h"
#include "src/engine/model_needs.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::processes {
namespace {

// The head of hidden states and logits in a message: fixed sizes, in the byte order of the machine.
struct MatrixHead {
  static constexpr uint32_t kMagic = 0x6762'6d78, kVersion = 1;
  uint32_t magic, version, dtype, reserved;
  int64_t rows, columns;
};

MatrixHead head_of(const Tensor& x) {
  return {.magic = MatrixHead::kMagic,
          .version = MatrixHead::kVersion,
          .dtype = static_cast<uint32_t>(x.dtype()),
          .reserved = 0,
          .rows = x.shape()[0],
          .columns = x.shape()[1]};
}

// Checks the head of a matrix of f32.
void check_head(const MatrixHead& head, int64_t most_rows, int64_t most_columns) {
  if (head.magic != MatrixHead::kMagic || head.version != MatrixHead::kVersion ||
      head.dtype != static_cast<uint32_t>(DType::f32) || head.rows < 0 || head.rows > most_rows || head.columns < 0 ||
      head.columns > most_columns)
    throw failed(
        "another rank sends something else than a matrix of this step: all ranks need the same version of gabbro");
}

}  // namespace

ProcessPass::ProcessPass(const LoadedModel& loaded, const EngineCache& cache, Evaluate evaluate)
    : ModelPass(prefill_chunk(loaded.device->facts())),
      loaded_(loaded),
      cache_(cache),
      evaluate_(std::move(evaluate)) {}

Tensor ProcessPass::run(std::span<const llm::Step> parts, const std::atomic<bool>* cancel) {
  const llm::Step& step = parts.front();
  return loaded_.process->shard != nullptr ? run_shard(step, cancel) : run_layers(step, cancel);
}

// Hidden states go from rank to rank in f32, which holds the values of all dtypes; the last rank gives the logits to
// all.
Tensor ProcessPass::run_layers(const llm::Step& step, const std::atomic<bool>* cancel) {
  mpi::Ranks& ranks = mpi::Ranks::shared();
  const llm::LanguageModel& model = *loaded_.model;
  const llm::LayerRange& layers = loaded_.process->layers;
  const int64_t most_rows = std::max(prompt_chunk(), step.ids.shape().elements());
  const auto matrix = [&](const MatrixHead& head, const std::vector<float>& values) {
    return loaded_.device->upload(DType::f32, Shape{head.rows, head.columns}, values.data());
  };
  Tensor x;
  if (layers.has_first) {
    x = model.embed(step);
  } else {
    struct Received {
      MatrixHead head;
      uint32_t dtype;  // of the states before they became f32
    } received{};
    ranks.receive(&received, sizeof(received), ranks.rank() - 1, cancel);
    check_head(received.head, most_rows, model.shape().embedding);
    std::vector<float> values(static_cast<size_t>(received.head.rows * received.head.columns));
    ranks.receive(values.data(), values.size() * sizeof(float), ranks.rank() - 1, cancel);
    x = cast(matrix(received.head, values), static_cast<DType>(received.dtype));
  }
  for (int64_t i = layers.first; i < layers.end; ++i) x = model.layer(i, x, step, cache_.memory());
  if (!layers.has_last) {
    const DType dtype = x.dtype();
    const Tensor wide = cast(x, DType::f32);
    evaluate_(std::span(&wide, 1), cancel);
    const struct {
      MatrixHead head;
      uint32_t dtype;
    } sent{head_of(wide), static_cast<uint32_t>(dtype)};
    const std::vector<float> values = to_host<float>(wide);
    ranks.send(&sent, sizeof(sent), ranks.rank() + 1, cancel);
    ranks.send(values.data(), values.size() * sizeof(float), ranks.rank() + 1, cancel);
  }
  MatrixHead head{};
  std::vector<float> logits;
  if (layers.has_last) {
    x = cast(x.shape()[0] > 0 ? model.head(x) : x, DType::f32);
    evaluate_(std::span(&x, 1), cancel);
    head = head_of(x);
    if (head.rows > 0) logits = to_host<float>(x);
  }
  const size_t last = ranks.size() - 1;
  ranks.broadcast(&head, sizeof(head), last, cancel);
  check_head(head, most_rows, std::max(model.shape().vocabulary, model.shape().embedding));
  if (head.rows == 0) return {};
  logits.resize(static_cast<size_t>(head.rows * head.columns));
  ranks.broadcast(logits.data(), logits.size() * sizeof(float), last, cancel);
  return layers.has_last ? x : matrix(head, logits);
}

Tensor ProcessPass::run_shard(const llm::Step& step, const std::atomic<bool>* cancel) {
  mpi::Ranks& ranks = mpi::Ranks::shared();
  const llm::LanguageModel& model = *loaded_.model;
  Tensor x = model.embed(step);
  for (int64_t i = 0; i < model.shape().layers; ++i) x = model.layer(i, x, step, cache_.memory());
  if (x.shape()[0] == 0) {
    evaluate_(std::span(&x, 1), cancel);
    return {};
  }
  const Tensor own = cast(model.head(x), DType::f32);  // [R, V of the rank]
  evaluate_(std::span(&own, 1), cancel);
  const auto rows = static_cast<size_t>(own.shape()[0]), columns = static_cast<size_t>(own.shape()[1]);
  std::vector<uint64_t> widths(ranks.size());
  const uint64_t width = columns;
  ranks.all_gather(&width, widths.data(), sizeof(width), cancel);
  const size_t widest = *std::ranges::max_element(widths);
  std::vector<float> padded(rows * widest), all(rows * widest * ranks.size());
  const std::vector<float> values = to_host<float>(own);
  std::ranges::copy(values, padded.begin());
  ranks.all_gather(padded.data(), all.data(), padded.size() * sizeof(float), cancel);
  size_t total = 0;
  for (const uint64_t one : widths) total += one;
  std::vector<float> logits(rows * total);
  size_t before = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (size_t row = 0; row < rows; ++row)
      std::copy_n(all.data() + rank * rows * widest + row * widths[rank], widths[rank],
                  logits.data() + row * total + before);
    before += widths[rank];
  }
  return loaded_.device->upload(DType::f32, Shape{static_cast<int64_t>(rows), static_cast<int64_t>(total)},
                                logits.data());
}

// All processes have to cut a text into the same steps.
void ProcessPass::start(ModelFacts& facts) {
  mpi::Ranks& ranks = mpi::Ranks::shared();
  const std::array<int64_t, 3> own = {facts.context, facts.sequences, prompt_chunk()};
  std::vector<std::array<int64_t, 3>> all(ranks.size());
  ranks.all_gather(own.data(), all.data(), sizeof(own));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (all[rank] != own)
      throw bad_input("{} has a context of {} tokens, {} sequences and chunks of {}; {} has {}, {} and {}",
                      ranks.name_of(ranks.rank()), own[0], own[1], own[2], ranks.name_of(rank), all[rank][0],
                      all[rank][1], all[rank][2]);
  }
  facts.device_note += (facts.device_note.empty() ? "" : "; ") + describe(*loaded_.process);
}

std::unique_ptr<ModelPass> ProcessPass::traced(const LayerTrace& /*trace*/) const {
  throw bad_input("a model that is split over processes has no outputs of single layers");
}

}  // namespace gabbro::processes
