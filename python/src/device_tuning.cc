// Known speeds of a device's candidates for a shape, and its behavior for shapes without a measurement.
#include "python/src/checked.h"
#include "python/src/device.h"

namespace gabbro::python {
namespace {

abi::TuningFacts facts_of(const Device& device) {
  require_this_process(device);
  if (const auto facts = device.tuning()) return *facts;
  throw failed("device {} has one way to compute each shape: there is nothing to tune", device.facts().id);
}

nb::dict tuning_dict(const abi::TuningFacts& facts) {
  nb::dict result;
  result["measure"] = facts.mode != abi::Tuning::kKnown;
  result["search"] = facts.search;
  result["file"] = facts.file;
  result["problem"] = facts.problem;
  result["entries"] = facts.known;
  result["measured"] = facts.measured;
  result["hits"] = facts.hits;
  result["misses"] = facts.misses;
  result["seconds"] = facts.seconds;
  return result;
}

nb::list shapes_list(const DeviceObject& d) {
  require_this_process(*d.device);
  nb::list result;
  for (const abi::MeasuredShape& shape : d.device->measured_shapes()) {
    nb::dict seconds;
    for (int32_t i = 0; i < shape.candidate_count; ++i) {
      if (shape.candidates[i].fit) seconds[shape.candidates[i].name] = shape.candidates[i].seconds;
    }
    nb::dict item;
    item["shape"] = shape.shape;
    item["chosen"] = shape.candidates[shape.chosen].name;
    item["seconds"] = seconds;
    result.append(item);
  }
  return result;
}

}  // namespace

void bind_device_tuning(DeviceClass& device) {
  device
      .def(
          "tuning_stats", [](const DeviceObject& d) { return tuning_dict(facts_of(*d.device)); },
          nb::sig("def tuning_stats(self) -> dict[str, Any]"),
          R"(Settings and counts of the autotuner, which chooses the kernel for shapes with several candidates.

Returns
-------
dict
    ``measure``, ``search`` and ``file``, as `set_tuning` takes them; ``problem``: why the file is not read or written, or
    empty. ``entries``: shapes of this device with a known fastest kernel; ``measured``: the ones since its first use,
    in ``seconds``. ``hits`` and ``misses``: kernels that were chosen by what is known, and by rule.

Raises
------
RuntimeError
    Of a device with one way for each shape, such as a CPU.
)")
      .def(
          "set_tuning",
          [](const DeviceObject& d, std::optional<bool> measure, std::optional<bool> search, nb::handle file) {
            const abi::TuningFacts facts = facts_of(*d.device);
            abi::TuningOptions options = {
                .mode = facts.mode, .search = search.value_or(facts.search), .file = facts.file};
            if (measure) options.mode = *measure ? abi::Tuning::kMeasureUnknown : abi::Tuning::kKnown;
            std::string path;
            if (!file.is_none()) {
              path = value_argument<std::string>("set_tuning", "file", nb::module_::import_("os").attr("fspath")(file));
              options.file = path.c_str();
            }
            const WithoutGil without_gil;
            d.device->set_tuning(options);
          },
          nb::kw_only(), nb::arg("measure") = nb::none(), nb::arg("search") = nb::none(), nb::arg("file") = nb::none(),
          nb::sig("def set_tuning(self, *, measure: bool | None = None, search: bool | None = None, "
                  "file: str | PathLike[str] | None = None) -> None"),
          R"(Changes the settings of the autotuner, which chooses the kernel for shapes with several candidates.

It holds for whatever is planned from now on; functions that `gabbro.compile` has traced keep their kernels. Omitted
arguments change nothing.

Parameters
----------
measure : bool
    Whether shapes without a known fastest kernel are measured when they are first computed, which is slower once.
search : bool
    Whether libraries that can search among their algorithms (MIOpen) do so before that: minutes a shape.
file : path
    Where measurements are read from and kept. What was measured since the device was first used is put there as well.
    Empty: nowhere.

Raises
------
RuntimeError
    Of a device with one way for each shape, such as a CPU; and where the file is not one of Gabbro's, or cannot be
    written: then nothing has changed.
)")
      .def(
          "clear_tuning",
          [](const DeviceObject& d) {
            require_this_process(*d.device);
            const WithoutGil without_gil;
            d.device->forget_tuning();
          },
          R"(Clears the measured speeds and the counts. The file is unchanged.

Raises
------
RuntimeError
    Of a device with one way for each shape, such as a CPU.
)")
      .def("measured_shapes", shapes_list, nb::sig("def measured_shapes(self) -> list[dict[str, Any]]"),
           R"(What was measured since the device was first used, in that order.

Returns
-------
list of dict
    ``shape``: in words. ``chosen``: the fastest candidate. ``seconds``: by candidate, of those whose result was right.
)");
}

}  // namespace gabbro::python
