#include "gabbro/nn/recurrent.h"
#include "gabbro/nn/transformer.h"
#include "src/backend/device.h"
#include "src/ops/ops.h"
#include "tests/nn/module_cases.h"

namespace gabbro::nn {
namespace {

using X = std::vector<Tensor>;
using Weights = MultiheadAttention::Weights;

// True above the diagonal: what comes later may not be seen.
Tensor later(const Tensor& like, int64_t length) {
  return logical_not(tri(like.device(), length, length, 0, DType::boolean));
}

template <class M, class Options, class Call>
MakeCase called(const Options& options, Call call) {
  return [=](const Factory& make) -> ModuleCase {
    const auto module = std::make_shared<M>(make, options);
    return {module, [=](const X& x) { return call(*module, x); }};
  };
}

template <class M, class Call>
MakeCase stacked(const TransformerLayerOptions& options, bool norm, Call call) {
  return [=](const Factory& make) -> ModuleCase {
    const auto module = std::make_shared<M>(make, options, 2, norm);
    return {module, [=](const X& x) { return X{call(*module, x)}; }};
  };
}

X both(const MultiheadAttention::Result& result) { return {result.output, result.weights}; }

void add_attention(ModuleCases& c) {
  using Options = MultiheadAttentionOptions;
  c["multihead"] = called<MultiheadAttention>(Options{.embed_dim = 8, .num_heads = 2}, [](auto& m, const X& x) {
    return both(m(x[0], x[0], x[0], {}, Weights::kMean));
  });
  c["multihead_batch_first"] =
      called<MultiheadAttention>(Options{.embed_dim = 8, .num_heads = 2, .bias = false, .batch_first = true},
                                 [](auto& m, const X& x) { return X{m(x[0], x[1], x[1]).output}; });
  c["multihead_dims"] =
      called<MultiheadAttention>(Options{.embed_dim = 8, .num_heads = 4, .kdim = 5, .vdim = 6, .batch_first = true},
                                 [](auto& m, const X& x) { return both(m(x[0], x[1], x[2], {}, Weights::kHeads)); });
  c["multihead_masks"] =
      called<MultiheadAttention>(Options{.embed_dim = 8, .num_heads = 2, .batch_first = true}, [](auto& m, const X& x) {
        const uint8_t padding[] = {0, 0, 0, 0, 0, 0, 1, 1};
        const Tensor keys = x[0].device()->upload(DType::boolean, Shape{2, 4}, padding);
        return both(m(x[0], x[0], x[0], {.keys = keys, .attention = later(x[0], 4)}, Weights::kMean));
      });
  c["multihead_extra_keys"] =
      called<MultiheadAttention>(Options{.embed_dim = 8, .num_heads = 2, .add_bias_kv = true, .add_zero_attn = true},
                                 [](auto& m, const X& x) { return both(m(x[0], x[0], x[0], {}, Weights::kMean)); });
}

void add_transformers(ModuleCases& c) {
  using Options = TransformerLayerOptions;
  const Options plain{.d_model = 8, .nhead = 2, .dim_feedforward = 12, .dropout = 0};
  Options batched = plain;
  batched.batch_first = true;
  Options first = batched;
  first.norm_first = true;
  first.activation = [](const Tensor& x) { return gelu(x); };
  Options unbiased = plain;
  unbiased.norm_first = true;
  unbiased.bias = false;
  const auto encode = [](auto& m, const X& x) { return X{m(x[0])}; };
  const auto decode = [](auto& m, const X& x) { return X{m(x[0], x[1])}; };
  c["encoder_layer"] = called<TransformerEncoderLayer>(plain, encode);
  c["encoder_layer_first"] =
      called<TransformerEncoderLayer>(first, [](auto& m, const X& x) { return X{m(x[0], {.causal = true})}; });
  c["encoder"] = stacked<TransformerEncoder>(batched, true, [](auto& m, const X& x) { return m(x[0]); });
  c["decoder_layer"] = called<TransformerDecoderLayer>(
      batched, [](auto& m, const X& x) { return X{m(x[0], x[1], {.attention = later(x[0], 3)})}; });
  c["decoder_layer_first"] = called<TransformerDecoderLayer>(unbiased, decode);
  c["decoder"] = stacked<TransformerDecoder>(batched, false, [](auto& m, const X& x) { return m(x[0], x[1]); });
}

X states(const Recurrent::Result& r) { return r.c.defined() ? X{r.output, r.h, r.c} : X{r.output, r.h}; }

void add_recurrent(ModuleCases& c) {
  using Options = RecurrentOptions;
  const auto alone = [](auto& m, const X& x) { return states(m(x[0])); };
  const auto with_state = [](auto& m, const X& x) { return states(m(x[0], x[1])); };
  const Options plain{.input_size = 3, .hidden_size = 4};
  c["rnn"] = called<RNN>(plain, alone);
  c["rnn_relu"] = called<RNN>(
      Options{.input_size = 3, .hidden_size = 4, .bias = false, .batch_first = true, .relu = true}, with_state);
  c["lstm"] = called<LSTM>(Options{.input_size = 3, .hidden_size = 4, .num_layers = 2}, alone);
  c["lstm_both_ways"] = called<LSTM>(
      Options{.input_size = 3, .hidden_size = 4, .num_layers = 2, .batch_first = true, .bidirectional = true},
      [](auto& m, const X& x) { return states(m(x[0], x[1], x[2])); });
  c["lstm_projected"] = called<LSTM>(Options{.input_size = 3, .hidden_size = 4, .proj_size = 2}, alone);
  c["gru"] = called<GRU>(Options{.input_size = 3, .hidden_size = 4, .bidirectional = true}, alone);
  c["gru_unbatched"] = called<GRU>(Options{.input_size = 3, .hidden_size = 4, .num_layers = 2}, with_state);
}

}  // namespace

void add_sequence_cases(ModuleCases& cases) {
  add_attention(cases);
  add_transformers(cases);
  add_recurrent(cases);
}

}  // namespace gabbro::nn
