// Language models: the part of gabbro.llm that is not Python. The GIL is released while a model loads and runs.
#include <nanobind/stl/vector.h>

#include "gabbro/engine/chat.h"
#include "python/src/callback.h"
#include "python/src/checked.h"
#include "python/src/source_layers.h"
#include "src/base/error.h"
#include "src/engine/batch.h"
#include "src/hub/model_cache.h"
#include "src/ops/kv_type.h"
#include "src/text/tokenizer.h"

namespace gabbro::python {
namespace {

struct LanguageModel {
  std::shared_ptr<Engine> engine;
  SourceLayers source;
};

LanguageModel load(const std::string& model, const LoadOptions& wanted, nb::object progress) {
  LoadOptions options = wanted;
  Callback report(std::move(progress));
  options.progress = [&](double share) { report(share); };
  LanguageModel loaded;
  {
    const WithoutGil without_gil;
    const ResolvedModel found = resolve_with_layers(model);
    loaded.source = apply_layers(found.layers, options);
    loaded.engine = Engine::load(found.path, options);
  }
  report.rethrow();
  return loaded;
}

nb::dict facts_of(const LanguageModel& model) {
  const ModelFacts& f = model.engine->facts();
  nb::dict facts;
  facts["name"] = f.name;
  facts["architecture"] = f.architecture;
  facts["quantization"] = f.quantization;
  facts["parameters"] = f.parameters;
  facts["vocabulary"] = f.vocabulary;
  facts["layers"] = f.layers;
  facts["context_trained"] = f.context_trained;
  facts["context"] = f.context;
  facts["sequences"] = f.sequences;
  facts["weight_bytes"] = f.weight_bytes;
  facts["bytes_per_token"] = f.bytes_per_token;
  facts["kv_type"] = std::string(dtype_name(f.kv_type));
  facts["kv_bytes_per_token"] = f.kv_bytes_per_token;
  facts["state_bytes"] = f.state_bytes;
  facts["device"] = f.device_id;
  facts["device_name"] = f.device_name;
  std::vector<std::string> warnings = f.warnings;
  warnings.insert(warnings.end(), model.source.warnings.begin(), model.source.warnings.end());
  facts["warnings"] = warnings;
  return facts;
}

// Weights that are streamed, and the passes over them so far; empty where all stay on the device.
nb::dict streaming_of(const LanguageModel& model) {
  const StreamingFacts& f = model.engine->facts().streaming;
  nb::dict facts;
  if (f.bytes_per_pass == 0) return facts;
  const StreamingWork work = model.engine->streaming_work();
  facts["memory"] = f.memory;
  facts["planned_bytes"] = f.planned_bytes;
  facts["resident_bytes"] = f.resident_bytes;
  facts["host_bytes"] = f.host_bytes;
  facts["bytes_per_pass"] = f.bytes_per_pass;
  facts["link"] = f.link;
  facts["link_bandwidth"] = f.bandwidth;
  facts["predicted_seconds_per_token"] = f.seconds_per_pass;
  facts["passes"] = work.passes;
  facts["bytes"] = work.bytes;
  facts["seconds"] = work.seconds;
  facts["waited_seconds"] = work.waited;
  return facts;
}

template <class T>
void read_option(const nb::dict& options, const char* name, T& value) {
  if (options.contains(name)) value = value_argument<T>("generate", name, options[name]);
}

// "format": the kind and the source of the form that the text has to have.
OutputFormat format_of(const nb::dict& given) {
  using Kind = OutputFormat::Kind;
  constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"schema", Kind::kJsonSchema}, {"regex", Kind::kRegex}, {"grammar", Kind::kGrammar}, {"choices", Kind::kChoice}};
  std::vector<std::string> format;
  read_option(given, "format", format);
  if (format.size() != 2) return {};
  const auto found = std::ranges::find(kKinds, format[0], &std::pair<std::string_view, Kind>::first);
  if (found == std::end(kKinds)) throw bad_input("[generate] '{}' is not a kind of format", format[0]);
  return {.kind = found->second, .source = format[1]};
}

GenerateOptions options_of(const LanguageModel& model, const nb::dict& given) {
  GenerateOptions options;
  options.sampler = default_sampling(*model.engine);
  apply_parameters(model.source, options);
  SamplerOptions& s = options.sampler;
  read_option(given, "max_tokens", options.max_tokens);
  read_option(given, "stop", options.stop);
  for (const SamplingOption& option : kSamplingOptions) {
    if (option.is_integer()) {
      read_option(given, option.name, s.*option.integer);
    } else {
      read_option(given, option.name, s.*option.number);
    }
  }
  read_option(given, "seed", s.seed);
  options.format = format_of(given);
  return options;
}

nb::dict as_dict(const GenerateResult& result) {
  nb::dict values;
  values["text"] = result.text;
  values["token_ids"] = result.token_ids;
  values["prompt_tokens"] = result.prompt_tokens;
  values["cached_tokens"] = result.cached_tokens;
  values["prefill_seconds"] = result.prefill_seconds;
  values["decode_seconds"] = result.decode_seconds;
  values["stop_reason"] = stop_reason_name(result.stop_reason);
  return values;
}

// All prompts together, as many at a time as the cache holds. `on_text(index, piece)` may be None.
nb::list generate(const LanguageModel& model, const std::vector<std::vector<int32_t>>& prompts, const nb::dict& given,
                  nb::object on_text, CancelFlag* cancel) {
  const GenerateOptions options = options_of(model, given);
  Callback report(std::move(on_text));
  CancelFlag own;
  CancelFlag& flag = cancel != nullptr ? *cancel : own;
  std::vector<Request> requests;
  const auto make_requests = [&] {
    requests.clear();
    for (size_t i = 0; i < prompts.size(); ++i) {
      requests.emplace_back(*model.engine, prompts[i], options, [&report, &flag, i](std::string_view piece) {
        report(i, piece);
        if (report.failed()) flag.set = true;
      });
    }
  };
  make_requests();
  if (cancel != nullptr) {
    const WithoutGil without_gil;
    run_batch(model.engine, requests, {.cancel = &cancel->set});
  } else {
    run_interruptibly([&](const std::atomic<bool>* interrupted) {
      run_batch(model.engine, requests, {.cancel = interrupted != nullptr ? interrupted : &flag.set});
      if (interrupted != nullptr && *interrupted) {
        make_requests();  // where Python's handler does not raise, it starts again
        throw Error(ErrorCode::kInterrupted, "interrupted", "");
      }
    });
  }
  report.rethrow();
  nb::list results;
  for (Request& request : requests) results.append(as_dict(request.take()));
  return results;
}

// f32 [tokens, V] on the CPU.
Tensor logits(const LanguageModel& model, const std::vector<int32_t>& ids) {
  std::vector<float> values;
  run_interruptibly([&](const std::atomic<bool>* cancel) {
    Session session(model.engine);
    const std::span<const float> all = session.append_all_logits(ids, cancel);
    values.assign(all.begin(), all.end());
  });
  const auto rows = static_cast<int64_t>(ids.size());
  return device_argument(nb::str("cpu"))->upload(DType::f32, Shape{rows, std::ssize(values) / rows}, values.data());
}

std::vector<int32_t> encode(const LanguageModel& model, const std::string& text, bool add_special, bool parse_special) {
  const WithoutGil without_gil;
  return model.engine->tokenizer().encode(text, {.add_special = add_special, .parse_special = parse_special});
}

nb::str decode(const LanguageModel& model, const std::vector<int32_t>& ids, bool show_control) {
  const std::string text = model.engine->tokenizer().decode(ids, {.show_control = show_control});
  return nb::steal<nb::str>(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

std::vector<int32_t> chat(const LanguageModel& model,
                          const std::vector<std::pair<std::string, std::string>>& messages) {
  std::vector<ChatMessage> conversation;
  for (const auto& [role, content] : with_source_messages(model.source, messages))
    conversation.push_back({role, content});
  const WithoutGil without_gil;
  return chat_prompt(*model.engine, conversation);
}

nb::dict special_tokens(const LanguageModel& model) {
  const text::Tokenizer& t = model.engine->tokenizer();
  nb::dict ids;
  const auto add = [&](const char* name, int32_t id) {
    ids[name] = id == text::kNoToken ? nb::object(nb::none()) : nb::cast(id);
  };
  add("bos", t.bos());
  add("eos", t.eos());
  add("unk", t.unknown());
  add("pad", t.padding());
  return ids;
}

}  // namespace

void bind_language_models(nb::module_& m) {
  m.def(
      "_sampling_options",
      [] {
        std::vector<std::string> names;
        for (const SamplingOption& option : kSamplingOptions) names.emplace_back(option.name);
        return names;
      },
      "Names of the numbers that generate() takes.");
  nb::class_<CancelFlag>(m, "_CancelFlag").def(nb::init<>()).def("cancel", [](CancelFlag& flag) { flag.set = true; });
  nb::class_<LanguageModel>(m, "_LanguageModel")
      .def_static(
          "load",
          [](const std::string& model, const std::string& device, int threads, int64_t context, int64_t sequences,
             const std::optional<std::string>& kv_type, int64_t memory, uint64_t host_memory,
             const std::string& quantize, const std::vector<std::pair<std::string, float>>& adapters,
             nb::object progress) {
            const auto type = kv_type ? parse_kv_type(*kv_type) : std::nullopt;
            if (kv_type && !type) throw bad_input("[load] kv_type is '{}', expected {}", *kv_type, kv_type_names());
            std::vector<AdapterOption> loras;
            for (const auto& [path, scale] : adapters) loras.push_back({path, scale});
            return load(model,
                        {.device = device,
                         .threads = threads,
                         .context = context,
                         .sequences = sequences,
                         .kv_type = type,
                         .memory = memory < 0 ? kFreeMemory : static_cast<uint64_t>(memory),
                         .host_memory = host_memory,
                         .quantize = quantize,
                         .adapters = std::move(loras)},
                        std::move(progress));
          },
          nb::arg("model"), nb::arg("device"), nb::arg("threads"), nb::arg("context"), nb::arg("sequences"),
          nb::arg("kv_type").none(), nb::arg("memory"), nb::arg("host_memory"), nb::arg("quantize"),
          nb::arg("adapters"), nb::arg("progress").none(),
          nb::sig("def load(model: str, device: str, threads: int, context: int, sequences: int, kv_type: str | None, "
                  "memory: int, host_memory: int, quantize: str, adapters: list[tuple[str, float]], "
                  "progress: Callable[[float], Any] | None) -> _LanguageModel"))
      .def(
          "adapters",
          [](const LanguageModel& model) {
            std::vector<std::pair<std::string, float>> all;
            for (const AdapterOption& one : model.engine->adapters()) all.emplace_back(one.path, one.scale);
            return all;
          },
          nb::sig("def adapters(self) -> list[tuple[str, float]]"))
      .def(
          "set_adapter_scales",
          [](const LanguageModel& model, const std::vector<float>& scales) {
            const WithoutGil without_gil;
            model.engine->set_adapter_scales(scales);
          },
          nb::arg("scales"))
      .def("facts", facts_of, nb::sig("def facts(self) -> dict[str, Any]"))
      .def("streaming", streaming_of, nb::sig("def streaming(self) -> dict[str, Any]"))
      .def("has_chat_template", [](const LanguageModel& model) { return has_chat_template(*model.engine); })
      .def("encode", encode, nb::arg("text"), nb::arg("add_special"), nb::arg("parse_special"))
      .def("decode", decode, nb::arg("ids"), nb::arg("show_control"))
      .def("piece",
           [](const LanguageModel& model, int32_t id) {
             const std::string_view piece = model.engine->tokenizer().piece(id);
             return nb::bytes(piece.data(), piece.size());
           })
      .def("find",
           [](const LanguageModel& model, const std::string& text) -> std::optional<int32_t> {
             const int32_t id = model.engine->tokenizer().find(text);
             return id == text::kNoToken ? std::nullopt : std::optional(id);
           })
      .def("token_count", [](const LanguageModel& model) { return model.engine->tokenizer().size(); })
      .def("special_tokens", special_tokens, nb::sig("def special_tokens(self) -> dict[str, int | None]"))
      .def("chat", chat, nb::arg("messages"))
      .def("generate", generate, nb::arg("prompts"), nb::arg("options"), nb::arg("on_text").none(),
           nb::arg("cancel").none(),
           nb::sig("def generate(self, prompts: Sequence[Sequence[int]], options: dict[str, Any], on_text: "
                   "Callable[[int, str], Any] | None, cancel: _CancelFlag | None) -> list[dict[str, Any]]"))
      .def("logits", logits, nb::arg("ids"));
}

}  // namespace gabbro::python
