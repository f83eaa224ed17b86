// Text encoders: the part of gabbro.llm.TextEncoder that is not Python. The GIL is released while a model loads and
// runs.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "gabbro/engine/text_encoder.h"
#include "python/src/checked.h"
#include "python/src/fork.h"
#include "src/base/error.h"
#include "src/hub/model_cache.h"
#include "src/hub/ollama_layers.h"

namespace gabbro::python {
namespace {

struct Encoder {
  std::shared_ptr<TextEncoder> model;
};

Encoder load(const std::string& model, const std::string& device, int threads) {
  const WithoutGil without_gil;
  const ResolvedModel found = resolve_with_layers(model);
  if (found.layers != nullptr && !found.layers->adapters.empty())
    throw bad_input("{}: its adapter cannot be applied to a text encoder", found.layers->name);
  return {TextEncoder::load(found.path, {.device = device, .threads = threads})};
}

nb::dict facts_of(const Encoder& encoder) {
  const TextEncoderFacts& f = encoder.model->facts();
  nb::dict facts;
  facts["name"] = f.name;
  facts["architecture"] = f.architecture;
  facts["pooling"] = f.pooling;
  facts["normalized"] = f.normalized;
  facts["dimensions"] = f.dimensions;
  facts["most_tokens"] = f.most_tokens;
  facts["labels"] = f.labels;
  facts["prompts"] = f.prompts;
  facts["default_prompt"] = f.default_prompt;
  facts["device"] = f.device_id;
  facts["device_name"] = f.device_name;
  facts["warnings"] = f.warnings;
  return facts;
}

Tensor on_host(const std::vector<float>& values, const Shape& shape) {
  return device_argument(nb::str("cpu"))->upload(DType::f32, shape, values.data());
}

// f32 [texts, dimensions] on the CPU.
Tensor embed(const Encoder& encoder, const std::vector<std::string>& texts, const std::string& pooling,
             std::optional<bool> normalized, const std::string& prompt, int64_t dimensions, int64_t batch,
             bool truncated) {
  EmbedOptions options{.pooling = pooling,
                       .normalized = normalized,
                       .prompt = prompt,
                       .dimensions = dimensions,
                       .batch = batch,
                       .truncated = truncated};
  std::vector<float> vectors;
  run_interruptibly([&](const std::atomic<bool>* cancel) {
    options.cancel = cancel;
    vectors = encoder.model->embed(texts, options);
  });
  const int64_t width = dimensions > 0 ? dimensions : encoder.model->facts().dimensions;
  return on_host(vectors, Shape{std::ssize(texts), width});
}

std::vector<float> rerank(const Encoder& encoder, const std::string& query, const std::vector<std::string>& documents,
                          bool raw, int64_t batch, bool truncated) {
  RerankOptions options{.raw = raw, .batch = batch, .truncated = truncated};
  std::vector<float> scores;
  run_interruptibly([&](const std::atomic<bool>* cancel) {
    options.cancel = cancel;
    scores = encoder.model->rerank(query, documents, options);
  });
  return scores;
}

}  // namespace

void bind_text_encoders(nb::module_& m) {
  nb::class_<Encoder>(m, "_TextEncoder")
      .def_static("load", load, nb::arg("model"), nb::arg("device"), nb::arg("threads"))
      .def("facts", facts_of, nb::sig("def facts(self) -> dict[str, Any]"))
      .def("embed", embed, nb::arg("texts"), nb::arg("pooling"), nb::arg("normalized").none(), nb::arg("prompt"),
           nb::arg("dimensions"), nb::arg("batch"), nb::arg("truncated"))
      .def("rerank", rerank, nb::arg("query"), nb::arg("documents"), nb::arg("raw"), nb::arg("batch"),
           nb::arg("truncated"));
}

}  // namespace gabbro::python
