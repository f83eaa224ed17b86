#include "gabbro/nn/transformer.h"

namespace gabbro::nn {
namespace {

std::shared_ptr<MultiheadAttention> make_attention(const Factory& make, const TransformerLayerOptions& o) {
  return std::make_shared<MultiheadAttention>(make, MultiheadAttentionOptions{.embed_dim = o.d_model,
                                                                              .num_heads = o.nhead,
                                                                              .dropout = o.dropout,
                                                                              .bias = o.bias,
                                                                              .batch_first = o.batch_first});
}

std::shared_ptr<Linear> make_linear(const Factory& make, int64_t in, int64_t out, bool bias) {
  return std::make_shared<Linear>(make, LinearOptions{.in_features = in, .out_features = out, .bias = bias});
}

std::shared_ptr<LayerNorm> make_norm(const Factory& make, const TransformerLayerOptions& o) {
  return std::make_shared<LayerNorm>(
      make, LayerNormOptions{.normalized_shape = {o.d_model}, .eps = o.layer_norm_eps, .bias = o.bias});
}

// x + part(norm(x)), or norm(x + part(x)).
template <class Part>
Tensor residual(const Tensor& x, LayerNorm& norm, bool norm_first, Part part) {
  return norm_first ? x + part(norm(x)) : norm(x + part(x));
}

// Modules under their places in a list.
class ModuleList : public Module {
 public:
  template <class M>
  explicit ModuleList(const std::vector<std::shared_ptr<M>>& modules) {
    for (size_t i = 0; i < modules.size(); ++i) add_module(std::to_string(i), modules[i]);
  }
};

template <class M>
std::shared_ptr<Module> make_layers(const Factory& make, const TransformerLayerOptions& options, int64_t count,
                                    std::vector<std::shared_ptr<M>>& layers) {
  for (int64_t i = 0; i < count; ++i) layers.push_back(std::make_shared<M>(make.at(std::to_string(i)), options));
  return std::make_shared<ModuleList>(layers);
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const Factory& make, const TransformerLayerOptions& o) : options_(o) {
  add_module("self_attn", self_attn, make_attention(make.at("self_attn"), o));
  add_module("linear1", linear1, make_linear(make.at("linear1"), o.d_model, o.dim_feedforward, o.bias));
  add_module("dropout", dropout_, std::make_shared<Dropout>(make, o.dropout));
  add_module("linear2", linear2, make_linear(make.at("linear2"), o.dim_feedforward, o.d_model, o.bias));
  add_module("norm1", norm1, make_norm(make.at("norm1"), o));
  add_module("norm2", norm2, make_norm(make.at("norm2"), o));
  add_module("dropout1", dropout1_, std::make_shared<Dropout>(make, o.dropout));
  add_module("dropout2", dropout2_, std::make_shared<Dropout>(make, o.dropout));
}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const AttentionMasks& masks) {
  const Tensor h = residual(x, *norm1, options_.norm_first,
                            [&](const Tensor& y) { return (*dropout1_)((*self_attn)(y, y, y, masks).output); });
  return residual(h, *norm2, options_.norm_first, [&](const Tensor& y) {
    return (*dropout2_)((*linear2)((*dropout_)(options_.activation((*linear1)(y)))));
  });
}

TransformerEncoder::TransformerEncoder(const Factory& make, const TransformerLayerOptions& options, int64_t count,
                                       bool with_norm) {
  add_module("layers", make_layers(make.at("layers"), options, count, layers));
  if (with_norm) add_module("norm", norm, make_norm(make.at("norm"), options));
}

Tensor TransformerEncoder::operator()(const Tensor& x, const AttentionMasks& masks) {
  Tensor y = x;
  for (const auto& layer : layers) y = (*layer)(y, masks);
  return norm != nullptr ? (*norm)(y) : y;
}

TransformerDecoderLayer::TransformerDecoderLayer(const Factory& make, const TransformerLayerOptions& o) : options_(o) {
  add_module("self_attn", self_attn, make_attention(make.at("self_attn"), o));
  add_module("multihead_attn", multihead_attn, make_attention(make.at("multihead_attn"), o));
  add_module("linear1", linear1, make_linear(make.at("linear1"), o.d_model, o.dim_feedforward, o.bias));
  add_module("dropout", dropout_, std::make_shared<Dropout>(make, o.dropout));
  add_module("linear2", linear2, make_linear(make.at("linear2"), o.dim_feedforward, o.d_model, o.bias));
  add_module("norm1", norm1, make_norm(make.at("norm1"), o));
  add_module("norm2", norm2, make_norm(make.at("norm2"), o));
  add_module("norm3", norm3, make_norm(make.at("norm3"), o));
  add_module("dropout1", dropout1_, std::make_shared<Dropout>(make, o.dropout));
  add_module("dropout2", dropout2_, std::make_shared<Dropout>(make, o.dropout));
  add_module("dropout3", dropout3_, std::make_shared<Dropout>(make, o.dropout));
}

Tensor TransformerDecoderLayer::operator()(const Tensor& x, const Tensor& memory, const AttentionMasks& masks,
                                           const AttentionMasks& memory_masks) {
  Tensor h = residual(x, *norm1, options_.norm_first,
                      [&](const Tensor& y) { return (*dropout1_)((*self_attn)(y, y, y, masks).output); });
  h = residual(h, *norm2, options_.norm_first, [&](const Tensor& y) {
    return (*dropout2_)((*multihead_attn)(y, memory, memory, memory_masks).output);
  });
  return residual(h, *norm3, options_.norm_first, [&](const Tensor& y) {
    return (*dropout3_)((*linear2)((*dropout_)(options_.activation((*linear1)(y)))));
  });
}

TransformerDecoder::TransformerDecoder(const Factory& make, const TransformerLayerOptions& options, int64_t count,
                                       bool with_norm) {
  add_module("layers", make_layers(make.at("layers"), options, count, layers));
  if (with_norm) add_module("norm", norm, make_norm(make.at("norm"), options));
}

Tensor TransformerDecoder::operator()(const Tensor& x, const Tensor& memory, const AttentionMasks& masks,
                                      const AttentionMasks& memory_masks) {
  Tensor y = x;
  for (const auto& layer : layers) y = (*layer)(y, memory, masks, memory_masks);
  return norm != nullptr ? (*norm)(y) : y;
}

}  // namespace gabbro::nn
