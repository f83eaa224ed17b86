// Mixed precision, for gabbro/precision.py.
#include "gabbro/graph/autocast.h"

#include "python/src/nn.h"

namespace gabbro::python {

void bind_training(nb::module_& m) {
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
