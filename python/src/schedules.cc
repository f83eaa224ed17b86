// Schedules of learning rates and mixed precision, for gabbro/lr_scheduler.py and gabbro/precision.py.
#include "gabbro/graph/autocast.h"
#include "gabbro/train/schedule.h"

#include "python/src/nn.h"

namespace gabbro::python {
namespace {

struct Schedule {
  train::Schedule rate;
};

void bind_schedules(nb::module_& m) {
  nb::class_<Schedule>(m, "_Schedule").def("__call__", [](const Schedule& self, double base, int64_t step) {
    return self.rate(base, step);
  });
  m.def("_constant_lr", [](double factor, int64_t steps) { return Schedule{train::constant(factor, steps)}; });
  m.def("_linear_lr",
        [](double first, double last, int64_t steps) { return Schedule{train::linear(first, last, steps)}; });
  m.def("_step_lr", [](int64_t every, double factor) { return Schedule{train::step_decay(every, factor)}; });
  m.def("_multi_step_lr", [](std::vector<int64_t> milestones, double factor) {
    return Schedule{train::multi_step(std::move(milestones), factor)};
  });
  m.def("_exponential_lr", [](double factor) { return Schedule{train::exponential(factor)}; });
  m.def("_polynomial_lr", [](int64_t steps, double power) { return Schedule{train::polynomial(steps, power)}; });
  m.def("_cosine_lr", [](int64_t steps, double least) { return Schedule{train::cosine(steps, least)}; });
  m.def("_cosine_restarts_lr", [](int64_t steps, int64_t growth, double least) {
    return Schedule{train::cosine_restarts(steps, growth, least)};
  });
  m.def("_one_cycle_lr", [](double max_rate, int64_t steps, double rising, double first, double last) {
    return Schedule{train::one_cycle({max_rate, steps, rising, first, last})};
  });
  nb::class_<train::PlateauScheduler>(m, "_PlateauScheduler")
      .def(
          "__init__",
          [](train::PlateauScheduler* self, train::Optimizer& optimizer, bool smaller_is_better, double factor,
             int64_t patience, int64_t cooldown, double threshold, double least) {
            new (self)
                train::PlateauScheduler(optimizer, {smaller_is_better, factor, patience, cooldown, threshold, least});
          },
          nb::keep_alive<1, 2>())
      .def("step", &train::PlateauScheduler::step)
      .def("_state",
           [](const train::PlateauScheduler& self) {
             const train::PlateauScheduler::State state = self.state();
             return nb::make_tuple(state.best, state.bad_steps, state.cooling);
           })
      .def("_set_state", [](train::PlateauScheduler& self, double best, int64_t bad_steps, int64_t cooling) {
        self.set_state({best, bad_steps, cooling});
      });
}

}  // namespace

void bind_training(nb::module_& m) {
  bind_schedules(m);
  nb::class_<Autocast>(m, "_Autocast")
      .def(
          "__init__", [](Autocast* self, nb::handle dtype) { new (self) Autocast(optional_dtype(dtype)); },
          nb::arg("dtype").none());
  m.def(
      "autocast_dtype",
      []() -> nb::object {
        const std::optional<DType> dtype = autocast_dtype();
        return dtype ? dtype_object(*dtype) : nb::object(nb::none());
      },
      nb::sig("def autocast_dtype() -> DType | None"),
      R"(What `autocast` has set in this thread; None where it is not on.

>>> with gb.autocast(gb.bfloat16):
...     gb.autocast_dtype()
gabbro.bfloat16
)");
}

}  // namespace gabbro::python
