// Gradients: of tensors (requires_grad_, backward, grad) and of functions (gabbro/gradients.py is their face).
#include "src/ops/grad.h"
#include "gabbro/nn/checkpoint.h"
#include "python/src/fork.h"
#include "python/src/nn.h"
#include "python/src/views.h"
#include "src/base/error.h"

namespace gabbro::python {
namespace {

Tensor seed_like(const Tensor& x, nb::handle seed) {
  if (seed.is_none()) return Tensor();
  const Tensor tensor = operand("backward", seed, x);
  return tensor.shape().rank() == 0 ? broadcast_to(cast(tensor, x.dtype()), x.shape()) : tensor;
}

void set_requires_gradient(const Tensor& x, bool required) {
  if (required) return require_gradient(x);
  if (!is_leaf(x)) {
    throw bad_input("[requires_grad] {} of shape {} was computed from a tensor that requires a gradient: use detach()",
                    dtype_public_name(x.dtype()), x.shape().to_string());
  }
  x.state().history.reset();
}

nb::object gradient_of_place(const Tensor& x) {
  require_no_trace();  // the plan would hold the gradient of that time
  const std::shared_ptr<Tensor> gradient = gradient_object(x);
  return gradient != nullptr ? nb::cast(gradient) : nb::none();  // the same object each time
}

void set_gradient(const Tensor& x, nb::handle value) {
  require_no_trace();
  if (value.is_none()) return clear_gradient(x);
  if (!needs_gradient(x) || !is_leaf(x)) throw bad_input("[grad] only a tensor that requires a gradient holds one");
  const Tensor gradient = operand("grad", value, x);
  if (gradient.spec() != x.spec() || gradient.device() != x.device()) {
    throw bad_input("[grad] a gradient of {} and shape {} does not fit {} of shape {}",
                    dtype_public_name(gradient.dtype()), gradient.shape().to_string(), dtype_public_name(x.dtype()),
                    x.shape().to_string());
  }
  std::shared_ptr<Tensor>& held = x.state().history->gradient;
  if (!nb::isinstance<Tensor>(value)) {
    held = std::make_shared<Tensor>(gradient);
  } else if (held.get() != &nb::cast<const Tensor&>(value)) {
    held = nb::cast<std::shared_ptr<Tensor>>(value);  // the object itself: what is written to it is seen
  }
}

// A Python function that histories keep: the last of them may go in any thread.
std::shared_ptr<nb::callable> kept(nb::callable function) {
  return {new nb::callable(std::move(function)), [](nb::callable* object) {
            if (!Py_IsInitialized()) return;
            const WithGil gil;
            delete object;
          }};
}

nb::object called(const nb::callable& function, std::span<const Tensor> inputs) {
  return function(std::vector<Tensor>(inputs.begin(), inputs.end()));
}

// Tensors of the same values. The function gets the list of their gradients, None for a missing one, and gives
// another such list, or None for no change.
std::vector<Tensor> hooked(const std::vector<Tensor>& tensors, nb::callable function) {
  static const Op kHook = {.name = "hook"};
  auto node = std::make_shared<Node>();
  node->op = &kHook;
  node->inputs = tensors;
  node->device = tensors.at(0).device();
  node->training = true;
  std::vector<Tensor> outputs;
  for (const Tensor& tensor : tensors) {
    outputs.push_back(detach(tensor));
    node->outputs.push_back(tensor.spec());
    node->made.push_back(outputs.back().shared_state());
    if (needs_gradient(tensor)) {
      outputs.back().state().history =
          std::make_shared<History>(History{.node = node, .output = static_cast<int>(outputs.size()) - 1});
    }
  }
  node->sequence = nodes_recorded();
  node->gradient = [hook = kept(std::move(function))](const GradientArgs& args) {
    const WithGil gil;
    nb::list list;
    for (const Tensor& gradient : args.gradients) list.append(gradient.defined() ? nb::cast(gradient) : nb::none());
    Gradients gradients(args.gradients.begin(), args.gradients.end());
    const nb::object changed = (*hook)(list);
    if (changed.is_none()) return gradients;
    const auto given = nb::cast<std::vector<nb::object>>(changed);
    if (given.size() != gradients.size()) throw bad_input("[hook] {} gradients for {}", given.size(), gradients.size());
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].is_none()) continue;
      const Tensor gradient = nb::cast<Tensor>(given[i]);
      if (gradient.spec() != args.inputs[i].spec()) {
        throw bad_input("[hook] a gradient of {} and shape {} for a tensor of {} and shape {}",
                        dtype_public_name(gradient.dtype()), gradient.shape().to_string(),
                        dtype_public_name(args.inputs[i].dtype()), args.inputs[i].shape().to_string());
      }
      gradients[i] = gradient;
    }
    return gradients;
  };
  return outputs;
}

// The gradients of an output by tensors, which may be intermediates.
std::vector<Tensor> gradients_of(const Tensor& output, const std::vector<Tensor>& inputs, nb::handle seed,
                                 bool differentiable) {
  for (const Tensor& input : inputs) {
    if (!needs_gradient(input))
      throw bad_input("[grad] an input, {} of shape {}, does not require a gradient", dtype_public_name(input.dtype()),
                      input.shape().to_string());
  }
  return gradients(output, inputs, {.seed = seed_like(output, seed), .differentiable = differentiable});
}

nb::tuple value_and_gradients(const nb::callable& function, const std::vector<Tensor>& inputs) {
  const ValueAndGradients result = value_and_grad(
      [&](std::span<const Tensor> copies) {
        const nb::object value = called(function, copies);
        return nb::isinstance<Tensor>(value) ? nb::cast<Tensor>(value) : Tensor();
      },
      inputs);
  return nb::make_tuple(result.value, result.gradients);
}

std::vector<Tensor> checkpointed(nb::callable function, const std::vector<Tensor>& inputs) {
  return nn::checkpoint(
      [function = kept(std::move(function))](std::span<const Tensor> copies) {
        return nb::cast<std::vector<Tensor>>(called(*function, copies));
      },
      inputs, module_generator());
}

}  // namespace

void bind_gradients(nb::module_& m, TensorClass& tensor) {
  nb::class_<GradientMode>(m, "_GradientMode").def(nb::init<bool>());
  m.def("is_grad_enabled", gradients_enabled, R"(Whether histories for gradients are recorded in this thread.

>>> with gb.no_grad():
...     gb.is_grad_enabled()
False
)");
  m.def("_value_and_grad", value_and_gradients,
        nb::sig("def _value_and_grad(function: Callable[[list[Tensor]], Any], inputs: list[Tensor], /) -> "
                "tuple[Tensor, list[Tensor]]"));
  m.def("_gradients", gradients_of, nb::arg("output"), nb::arg("inputs"), nb::arg("seed").none(),
        nb::arg("differentiable"),
        nb::sig("def _gradients(output: Tensor, inputs: list[Tensor], seed: Operand | None, differentiable: bool) "
                "-> list[Tensor]"));
  m.def("_hooked", hooked,
        nb::sig("def _hooked(tensors: list[Tensor], function: Callable[[list[Tensor | None]], "
                "list[Tensor | None] | None], /) -> list[Tensor]"));
  m.def("_checkpoint", checkpointed,
        nb::sig("def _checkpoint(function: Callable[[list[Tensor]], list[Tensor]], inputs: list[Tensor], /) -> "
                "list[Tensor]"));
  m.def("detach", detach, nb::arg("x"), nb::call_policy<ViewOfFirst>(),
        R"(The same values without a history: no gradient goes through it. A view.

>>> x = gb.tensor([2.0]).requires_grad_()
>>> gb.detach(x * x).requires_grad
False
)");
  tensor
      .def(
          "_forget_history", [](Tensor& x) { replace_handle(x, detach(x)); },
          "Not for users: the tensor becomes one without a history, with the views that share its elements.")
      .def(
          "_add_hook", [](Tensor& x, nb::callable function) { replace_handle(x, hooked({x}, std::move(function))[0]); },
          nb::sig("def _add_hook(self, function: Callable[[list[Tensor | None]], list[Tensor | None] | None], /) "
                  "-> None"),
          "Not for users: the gradient goes through the function from now on.")
      .def(
          "requires_grad_",
          [](nb::object self, bool requires_grad) {
            set_requires_gradient(nb::cast<const Tensor&>(self), requires_grad);
            return self;
          },
          nb::arg("requires_grad") = true, nb::sig("def requires_grad_(self, requires_grad: bool = True) -> Tensor"),
          R"(Says that a gradient by this tensor is wanted, and returns the tensor.

What is computed from it from now on remembers how. ``requires_grad_(False)`` takes that back.

Raises
------
ValueError
    For a tensor that is not of float32, float64, float16 or bfloat16, or was computed from one that requires a gradient.

>>> gb.tensor([2.0]).requires_grad_().requires_grad
True
)")
      .def_prop_rw("requires_grad", needs_gradient, set_requires_gradient,
                   "Whether it needs a gradient: asked for, or computed from one that does.")
      .def_prop_ro("is_leaf", is_leaf, "Whether it was not computed from tensors that need a gradient.")
      .def_prop_rw("grad", gradient_of_place, set_gradient, nb::arg("value").none(),
                   nb::for_getter(nb::sig("def grad(self) -> Tensor | None")),
                   nb::for_setter(nb::sig("def grad(self, value: Tensor | None, /) -> None")),
                   "What `backward` has summed up so far; None before, and after it was set to None.")
      .def(
          "backward",
          [](const Tensor& x, nb::handle seed, bool retain_graph) {
            require_no_trace();
            backward(x, {.seed = seed_like(x, seed), .keep_history = retain_graph});
            compute_with_step(x);
          },
          nb::arg("seed") = nb::none(), nb::arg("retain_graph") = false,
          nb::sig("def backward(self, seed: Operand | None = None, retain_graph: bool = False) -> None"),
          R"(Adds the gradients of this tensor by all tensors that it was computed from to their ``grad``.

Parameters
----------
seed : Tensor or number, optional
    The gradient of this tensor, of its shape and dtype. Without it 1, for a tensor of one element.
retain_graph : bool
    Keeps the history, which is freed otherwise.

Raises
------
ValueError
    Where the tensor needs no gradient, has several elements and no seed, or its history was freed, and for an op that
    has no gradient.

>>> x = gb.tensor([2.0, 3.0]).requires_grad_()
>>> (x * x).sum().backward()
>>> x.grad
tensor([4., 6.])
)")
      .def("detach", detach, nb::call_policy<ViewOfFirst>(), R"(The same values without a history: as `gabbro.detach`.

>>> (gb.tensor([2.0]).requires_grad_() * 2).detach().requires_grad
False
)");
}

}  // namespace gabbro::python
