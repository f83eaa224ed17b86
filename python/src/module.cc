// The extension gabbro._core: everything of the package that is C++. python/gabbro/__init__.py is its face.
#include "gabbro/file_faults.h"
#include "python/src/fork.h"
#include "python/src/nn.h"
#include "python/src/ops.h"
#include "python/src/pending.h"

NB_MODULE(_core, m) {
  using namespace gabbro::python;
  m.doc() = "Tensors, operations and devices of Gabbro.";
  gabbro::handle_file_faults(gabbro::FileFault::kThrow);
  nanobind::set_leak_warnings(false);  // caches of other packages may keep tensors until the end
  bind_errors(m);
  bind_dtypes(m);
  bind_devices(m);
  bind_fork(m);
  TensorClass tensor = bind_tensor(m);
  bind_operators(tensor);
  bind_indexing(tensor);
  bind_assignment(tensor);
  bind_exchange(m, tensor);
  bind_run(m, tensor);
  bind_compile(m);
  bind_gradients(m, tensor);
  bind_creation(m);
  bind_random(m);
  bind_elementwise(m, tensor);
  bind_binary(m);
  bind_choosing(m, tensor);
  bind_reductions(m, tensor);
  bind_sorting(m, tensor);
  bind_views(m, tensor);
  bind_splits(m, tensor);
  bind_rearranging(m, tensor);
  bind_picking(m, tensor);
  bind_products(m, tensor);
  bind_networks(m);
  bind_norms(m);
  bind_windows(m);
  bind_losses(m);
  bind_training(m);
  // Names that gabbro/__init__.py takes over; the rest is for gabbro.nn and gabbro.optim.
  nanobind::list names;
  for (nanobind::handle name : m.attr("__dict__").attr("keys")())
    if (!nanobind::cast<std::string>(name).starts_with("_")) names.append(name);
  m.attr("__all__") = names;
  bind_modules(m);
  bind_linear_layers(m);
  bind_window_layers(m);
  bind_norm_layers(m);
  bind_activation_layers(m);
  bind_sequence_layers(m);
  bind_transformers(m);
  bind_copies(m);
  bind_network_functions(m);
  bind_initial_values(m);
  bind_optimizers(m);
  bind_data_parallel(m);
  bind_language_models(m);
  bind_text_encoders(m);
  bind_picture_pipelines(m);
  watch_pending_work();
}
