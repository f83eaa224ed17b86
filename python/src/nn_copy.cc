// Parts of copies and pickles of modules (gabbro/nn/copying.py): the arguments of classes of C++, and the
// tensors that live in them.
#include "gabbro/nn/activation.h"
#include "gabbro/nn/attention.h"
#include "gabbro/nn/conv.h"
#include "gabbro/nn/dropout.h"
#include "gabbro/nn/embedding.h"
#include "gabbro/nn/linear.h"
#include "gabbro/nn/norm.h"
#include "gabbro/nn/pool.h"
#include "gabbro/nn/recurrent.h"
#include "python/src/nn.h"
#include "src/graph/history.h"

namespace gabbro::python {
namespace {

nb::dict with_factory(nb::dict arguments, const Tensor& like) {
  arguments["device"] = device_object(like.device());
  arguments["dtype"] = dtype_object(like.dtype());
  return arguments;
}

// _arguments() of a class: the keywords that make another object like it, but for the values of its tensors.
template <class M>
void arguments(nb::dict (*of)(const M&)) {
  const nb::handle type = nb::type<M>();
  nb::cpp_function_def(of, nb::scope(type), nb::name("_arguments"), nb::is_method(),
                       nb::sig("def _arguments(self) -> dict[str, Any]"));
}

template <class M>
void no_arguments() {
  arguments<M>([](const M&) { return nb::dict(); });
}

// dict(name=value, ...): the arguments are names and values in turns.
void fill(nb::dict&) {}
template <class Value, class... Rest>
void fill(nb::dict& target, const char* name, const Value& value, const Rest&... rest) {
  target[name] = value;
  fill(target, rest...);
}
template <class... Arguments>
nb::dict named(const Arguments&... pairs) {
  nb::dict result;
  fill(result, pairs...);
  return result;
}

nb::tuple numbers(std::span<const int64_t> values) {
  nb::list list;
  for (const int64_t value : values) list.append(value);
  return nb::tuple(list);
}

template <class Value>
nb::object or_nothing(const std::optional<Value>& value) {
  return value ? nb::cast(*value) : nb::object(nb::none());
}

void linear_layers() {
  arguments<nn::Linear>([](const nn::Linear& x) {
    if (x.format()) {
      return named("in_features", x.in_features(), "out_features", x.out_features(), "format",
                   dtype_object(*x.format()), "bias", x.bias.defined(), "device", device_object(x.weight.device()));
    }
    return with_factory(
        named("in_features", x.in_features(), "out_features", x.out_features(), "bias", x.bias.defined()), x.weight);
  });
  arguments<nn::Bilinear>([](const nn::Bilinear& x) {
    const Shape& s = x.weight.shape();
    return with_factory(
        named("in1_features", s[1], "in2_features", s[2], "out_features", s[0], "bias", x.bias.defined()), x.weight);
  });
  arguments<nn::Embedding>([](const nn::Embedding& x) {
    const Shape& s = x.weight.shape();
    return with_factory(
        named("num_embeddings", s[0], "embedding_dim", s[1], "padding_idx", or_nothing(x.padding_idx())), x.weight);
  });
  no_arguments<nn::Identity>();
}

nb::object padding_of(const nn::ConvModuleOptions& o) {
  return o.same ? nb::object(nb::str("same")) : nb::object(numbers(o.padding));
}

template <int axes>
void convolution() {
  arguments<nn::ConvNd<axes>>([](const nn::ConvNd<axes>& x) {
    const nn::ConvModuleOptions& o = x.options();
    return with_factory(
        named("in_channels", o.in_channels, "out_channels", o.out_channels, "kernel_size", numbers(o.kernel_size),
              "stride", numbers(o.stride), "padding", padding_of(o), "dilation", numbers(o.dilation), "groups",
              o.groups, "bias", o.bias, "padding_mode", padding_mode_name(o.padding_mode)),
        x.weight);
  });
}

void window_layers() {
  convolution<1>();
  convolution<2>();
  convolution<3>();
  arguments<nn::ConvTranspose2d>([](const nn::ConvTranspose2d& x) {
    const nn::ConvTransposeOptions& o = x.options();
    return with_factory(
        named("in_channels", o.in_channels, "out_channels", o.out_channels, "kernel_size", numbers(o.kernel_size),
              "stride", numbers(o.stride), "padding", numbers(o.padding), "output_padding", numbers(o.output_padding),
              "groups", o.groups, "bias", o.bias, "dilation", numbers(o.dilation)),
        x.weight);
  });
  arguments<nn::AdaptiveAvgPool2d>(
      [](const nn::AdaptiveAvgPool2d& x) { return named("output_size", numbers(x.size())); });
}

// For batch norms without tensors device and dtype are left out, which they do not need.
nb::dict batch_norm(const nn::BatchNorm& x) {
  const nn::BatchNormOptions& o = x.options();
  nb::dict result = named("num_features", o.num_features, "eps", o.eps, "momentum", or_nothing(o.momentum), "affine",
                          o.affine, "track_running_stats", x.running_mean.defined());
  const Tensor& like = x.weight.defined() ? x.weight : x.running_mean;
  return like.defined() ? with_factory(std::move(result), like) : result;
}

template <class N>
nb::dict row_norm(const N& x) {
  nb::dict result =
      named("normalized_shape", numbers(x.options().normalized_shape), "elementwise_affine", x.weight.defined());
  return x.weight.defined() ? with_factory(std::move(result), x.weight) : result;
}

void norm_layers() {
  arguments<nn::BatchNorm>(batch_norm);
  arguments<nn::LayerNorm>([](const nn::LayerNorm& x) {
    nb::dict result = row_norm(x);
    result["eps"] = x.options().eps;
    result["bias"] = x.bias.defined();
    return result;
  });
  arguments<nn::RMSNorm>([](const nn::RMSNorm& x) {
    nb::dict result = row_norm(x);
    result["eps"] = or_nothing(x.options().eps);
    return result;
  });
  arguments<nn::GroupNorm>([](const nn::GroupNorm& x) {
    const nn::GroupNormOptions& o = x.options();
    nb::dict result =
        named("num_groups", o.num_groups, "num_channels", o.num_channels, "eps", o.eps, "affine", x.weight.defined());
    return x.weight.defined() ? with_factory(std::move(result), x.weight) : result;
  });
  arguments<nn::Dropout>([](const nn::Dropout& x) { return named("p", x.p()); });
  arguments<nn::Dropout2d>([](const nn::Dropout2d& x) { return named("p", x.p()); });
}

void activation_layers() {
  no_arguments<nn::ReLU>();
  no_arguments<nn::ReLU6>();
  no_arguments<nn::SELU>();
  no_arguments<nn::SiLU>();
  no_arguments<nn::Mish>();
  no_arguments<nn::Sigmoid>();
  no_arguments<nn::Tanh>();
  no_arguments<nn::Softsign>();
  no_arguments<nn::LogSigmoid>();
  no_arguments<nn::Hardsigmoid>();
  no_arguments<nn::Hardswish>();
  arguments<nn::LeakyReLU>([](const nn::LeakyReLU& x) { return named("negative_slope", x.number()); });
  arguments<nn::ELU>([](const nn::ELU& x) { return named("alpha", x.number()); });
  arguments<nn::CELU>([](const nn::CELU& x) { return named("alpha", x.number()); });
  arguments<nn::GELU>([](const nn::GELU& x) { return named("approximate", x.number() ? "tanh" : "none"); });
  arguments<nn::Softmax>([](const nn::Softmax& x) { return named("dim", or_nothing(x.number())); });
  arguments<nn::LogSoftmax>([](const nn::LogSoftmax& x) { return named("dim", or_nothing(x.number())); });
  arguments<nn::GLU>([](const nn::GLU& x) { return named("dim", x.number()); });
  arguments<nn::Softplus>(
      [](const nn::Softplus& x) { return named("beta", x.options().beta, "threshold", x.options().threshold); });
  arguments<nn::Hardtanh>(
      [](const nn::Hardtanh& x) { return named("min_val", x.options().low, "max_val", x.options().high); });
  arguments<nn::Flatten>(
      [](const nn::Flatten& x) { return named("start_dim", x.options().first, "end_dim", x.options().last); });
  arguments<nn::PReLU>([](const nn::PReLU& x) {
    return with_factory(named("num_parameters", x.weight.shape()[0], "init", x.first_slope()), x.weight);
  });
}

nb::dict recurrent(const nn::RecurrentOptions& o, const Tensor& like) {
  return with_factory(
      named("input_size", o.input_size, "hidden_size", o.hidden_size, "num_layers", o.num_layers, "bias", o.bias,
            "batch_first", o.batch_first, "dropout", o.dropout, "bidirectional", o.bidirectional),
      like);
}

// A module with parameters.
Tensor first_parameter(const nn::Module& x) { return x.state_dict().front().tensor; }

void sequence_layers() {
  arguments<nn::RNN>([](const nn::RNN& x) {
    nb::dict result = recurrent(x.options(), first_parameter(x));
    result["nonlinearity"] = x.options().relu ? "relu" : "tanh";
    return result;
  });
  arguments<nn::LSTM>([](const nn::LSTM& x) {
    nb::dict result = recurrent(x.options(), first_parameter(x));
    result["proj_size"] = x.options().proj_size;
    return result;
  });
  arguments<nn::GRU>([](const nn::GRU& x) { return recurrent(x.options(), first_parameter(x)); });
  arguments<nn::MultiheadAttention>([](const nn::MultiheadAttention& x) {
    const nn::MultiheadAttentionOptions& o = x.options();
    return with_factory(named("embed_dim", o.embed_dim, "num_heads", o.num_heads, "dropout", o.dropout, "bias", o.bias,
                              "add_bias_kv", o.add_bias_kv, "add_zero_attn", o.add_zero_attn, "kdim",
                              or_nothing(o.kdim), "vdim", or_nothing(o.vdim), "batch_first", o.batch_first),
                        first_parameter(x));
  });
}

// [(name, the tensor in its place, whether it is a parameter, whether it is in state dicts)], in order.
nb::list own_tensors(nb::handle self) {
  const ModulePointer module = module_of(self);
  nb::list result;
  for (const bool parameters : {true, false}) {
    for (const nn::Slot& slot : parameters ? module->parameters() : module->buffers()) {
      if (slot.name.find('.') != std::string::npos) continue;
      bool persistent = parameters;
      for (const nn::NamedTensor& named : module->state_dict()) persistent = persistent || named.name == slot.name;
      result.append(nb::make_tuple(slot.name, place_object(self, *slot.tensor, parameters), parameters, persistent));
    }
  }
  return result;
}

// Gives the module's own tensor of this name a value, whatever its dtype and device were.
void set_own_tensor(nb::handle self, const std::string& name, const Tensor& value, bool requires_grad) {
  const ModulePointer module = module_of(self);
  for (const auto& slots : {module->parameters(), module->buffers()}) {
    for (const nn::Slot& slot : slots) {
      if (slot.name != name) continue;
      Tensor& place = *slot.tensor;
      if (!(value.shape() == place.shape()))
        throw bad_input("[module] {} {} does not fit {} of shape {}", dtype_public_name(value.dtype()),
                        value.shape().to_string(), name, place.shape().to_string());
      place = without_history(value);
      if (requires_grad) require_gradient(place);
      return;
    }
  }
  throw bad_input("[module] a {} has no tensor '{}'", nb::cast<std::string>(self.type().attr("__name__")), name);
}

}  // namespace

void bind_copies(nb::module_& m) {
  linear_layers();
  window_layers();
  norm_layers();
  activation_layers();
  sequence_layers();
  m.def("_own_tensors", own_tensors,
        nb::sig("def _own_tensors(module: Module, /) -> list[tuple[str, Tensor, bool, bool]]"));
  m.def("_set_own_tensor", set_own_tensor,
        nb::sig("def _set_own_tensor(module: Module, name: str, value: Tensor, requires_grad: bool, /) -> None"));
  m.def("_ties", ties_of, nb::sig("def _ties(module: Module, /) -> dict[str, Tensor]"));
  m.def(
      "_changes", [](nb::handle module) { return module_of(module)->changes(); },
      nb::sig("def _changes(module: Module, /) -> int"));
  m.def("_random_position", [] { return module_generator()->position(); });
  m.def("_set_random_position", [](uint64_t position) { module_generator()->set_position(position); });
}

}  // namespace gabbro::python
