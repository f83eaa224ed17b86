#include "src/engine/worker/messages.h"

#include "src/engine/worker/wire.h"

namespace gabbro::worker {
namespace {

// A message begins with these.
struct Header {
  uint32_t bytes;  // of what follows the header
  uint16_t version;
  uint16_t number;
};

// `T` or `const T`: fields() serves both directions.
template <class A, class B>
concept Is = std::same_as<std::remove_const_t<A>, B>;

}  // namespace

void fields(auto& archive, Is<AdapterOption> auto& option) { archive(option.path, option.scale); }

void fields(auto& archive, Is<LoadOptions> auto& o) {
  archive(o.device, o.devices, o.shares);
  archive.choice(o.split, Split::kAuto);
  archive(o.threads, o.context, o.sequences);
  bool has_type = o.kv_type.has_value();
  DType type = o.kv_type.value_or(DType::f16);
  archive(has_type);
  archive.choice(type, static_cast<DType>(kDTypeCount - 1));
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(o)>>)
    o.kv_type = has_type ? std::optional(type) : std::nullopt;
  archive(o.memory, o.host_memory, o.check_weights, o.quantize, o.adapters);
}

void fields(auto& archive, Is<DraftSpec> auto& draft) {
  archive(draft.path, draft.options, draft.tokens, draft.lookup, draft.no_lookup);
}
void fields(auto& archive, Is<EngineSpec> auto& spec) {
  archive(spec.path, spec.options, spec.draft, spec.cache_folder, spec.cache_bytes, spec.deterministic);
}

void fields(auto& archive, Is<SamplerOptions> auto& o) {
  for (const SamplingOption& option : kSamplingOptions) {
    if (option.is_integer()) {
      archive(o.*option.integer);
    } else {
      archive(o.*option.number);
    }
  }
  archive(o.dry_sequence_breakers, o.logit_bias, o.seed, o.top_logprobs);
}
void fields(auto& archive, Is<TokenScore> auto& score) { archive(score.token, score.logprob, score.top); }
void fields(auto& archive, Is<GenerateOptions> auto& o) {
  archive(o.max_tokens, o.min_tokens, o.stop, o.shown_controls, o.sampler, o.ignore_end, o.scores_prompt);
  archive.choice(o.format.kind, OutputFormat::Kind::kToolCalls);
  archive(o.format.source, o.format.after, o.format.optional_begin, o.format.controls);
  archive(o.thoughts.tokens, o.thoughts.open, o.thoughts.close, o.thoughts.closing, o.thoughts.soft_closing,
          o.thoughts.is_open);
}
void fields(auto& archive, Is<GenerationRequest> auto& request) {
  archive(request.prompt, request.options, request.priority, request.tree, request.owner);
}

void fields(auto& archive, Is<GenerateResult> auto& r) {
  archive(r.text, r.token_ids, r.prompt_tokens, r.cached_tokens, r.passes, r.drafted_tokens, r.accepted_tokens,
          r.prefill_seconds, r.decode_seconds);
  archive.choice(r.stop_reason, StopReason::kCanceled);
  archive(r.stop_text, r.scores, r.prompt_scores);
}

void fields(auto& archive, Is<StreamingFacts> auto& f) {
  archive(f.memory, f.planned_bytes, f.resident_bytes, f.host_bytes, f.cpu_layers, f.cpu_tokens, f.cpu_bytes,
          f.cpu_seconds, f.expert_bytes, f.bytes_per_pass, f.file_bytes_per_pass, f.link, f.bandwidth,
          f.seconds_per_pass);
}
void fields(auto& archive, Is<StreamingWork> auto& w) {
  archive(w.passes, w.bytes, w.seconds, w.waited, w.expert_hits, w.expert_misses, w.experts_early, w.experts_foreseen,
          w.expert_bytes);
}
void fields(auto& archive, Is<ModelFacts> auto& f) {
  archive(f.name, f.architecture, f.quantization, f.parameters, f.vocabulary, f.layers, f.context_trained, f.context,
          f.sequences, f.file_bytes, f.weight_bytes, f.bytes_per_token);
  archive.choice(f.kv_type, static_cast<DType>(kDTypeCount - 1));
  archive(f.kv_bytes_per_token, f.state_bytes, f.cache_bytes, f.device_id, f.device_name, f.warnings, f.device_note,
          f.threads, f.streaming);
}

void fields(auto& archive, Is<Fault> auto& fault) {
  int32_t code = static_cast<int32_t>(fault.code);
  archive(code);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(fault)>>) {
    switch (static_cast<ErrorCode>(code)) {
      case ErrorCode::kFailed:
      case ErrorCode::kBadInput:
      case ErrorCode::kNoDevice:
      case ErrorCode::kInterrupted:
        fault.code = static_cast<ErrorCode>(code);
        break;
      default:
        throw failed("a message holds the unknown error code {}", code);
    }
  }
  archive(fault.message, fault.hint);
}
void fields(auto& archive, Is<LoadedFacts> auto& facts) { archive(facts.model, facts.device_memory); }

void fields(auto& archive, Is<Load> auto& m) { archive(m.spec); }
void fields(auto& archive, Is<Add> auto& m) { archive(m.ticket, m.request); }
void fields(auto& archive, Is<Cancel> auto& m) { archive(m.ticket); }
void fields(auto&, Is<Shutdown> auto&) {}
void fields(auto& archive, Is<Progress> auto& m) { archive(m.fraction); }
void fields(auto& archive, Is<Loaded> auto& m) { archive(m.facts); }
void fields(auto& archive, Is<LoadFailed> auto& m) { archive(m.fault); }
void fields(auto& archive, Is<Started> auto& m) { archive(m.ticket); }
void fields(auto& archive, Is<Text> auto& m) { archive(m.ticket, m.text, m.scores); }
void fields(auto& archive, Is<Finished> auto& m) { archive(m.ticket, m.result, m.work); }
void fields(auto& archive, Is<Failed> auto& m) { archive(m.ticket, m.fault); }
void fields(auto& archive, Is<Lost> auto& m) { archive(m.cause); }
void fields(auto& archive, Is<Pause> auto& m) { archive(m.ticket, m.paused); }

namespace {

template <size_t kNumber = 0>
Message decode(uint16_t number, std::string_view bytes) {
  if constexpr (kNumber == std::variant_size_v<Message>) {
    throw failed("message {} is not known", number);
  } else {
    if (number != kNumber) return decode<kNumber + 1>(number, bytes);
    std::variant_alternative_t<kNumber, Message> message;
    Decoder decoder(bytes);
    decoder(message);
    decoder.end();
    return message;
  }
}

}  // namespace

Fault fault_of(const Error& error) { return {error.code(), error.what(), error.hint()}; }
Error error_of(const Fault& fault) { return Error(fault.code, fault.message, fault.hint); }

std::string encode(const Message& message) {
  Encoder encoder;
  std::visit([&](const auto& one) { encoder(one); }, message);
  const std::string& body = encoder.bytes();
  if (body.size() > kMaxMessageBytes)
    throw bad_input("the request has {} bytes, more than the {} that a worker takes", body.size(), kMaxMessageBytes);
  const Header header{static_cast<uint32_t>(body.size()), kProtocolVersion, static_cast<uint16_t>(message.index())};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes += body;
}

void MessageReader::feed(std::string_view bytes) {
  bytes_.erase(0, begin_);
  begin_ = 0;
  bytes_ += bytes;
}

std::optional<Message> MessageReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(begin_);
  Header header{};
  if (rest.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, rest.data(), sizeof header);
  if (header.version != kProtocolVersion)
    throw failed("a message is of version {}, expected {}", header.version, kProtocolVersion);
  if (header.bytes > kMaxMessageBytes)
    throw failed("a message has {} bytes, more than {}", header.bytes, kMaxMessageBytes);
  if (rest.size() - sizeof header < header.bytes) return std::nullopt;
  begin_ += sizeof header + header.bytes;
  return decode(header.number, rest.substr(sizeof header, header.bytes));
}

}  // namespace gabbro::worker
