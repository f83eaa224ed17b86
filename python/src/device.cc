// Devices: which there are, which one is the default, what they know of themselves.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "python/src/checked.h"
#include "python/src/device.h"
#include "python/src/pending.h"
#include "src/backend/missing_device.h"
#include "src/backend/registry.h"
#include "src/base/error.h"

namespace gabbro::python {
namespace {

constexpr int kMostThreads = 1024;

// The devices that were opened, by the name that was asked for, and the number of threads where one was. Guarded by the
// GIL.
struct Opened {
  std::map<std::string, std::shared_ptr<Device>> devices;
  int cpu_threads = 0;               // of set_num_threads; 0: OMP_NUM_THREADS, or one per physical core
  std::shared_ptr<Device> standard;  // null: `auto`, when it is first needed
};

Opened& opened() {
  static Opened state;
  return state;
}

bool is_cpu(const Device& device) { return std::string_view(device.facts().id).starts_with("cpu"); }

std::shared_ptr<Device> open_named(const std::string& name, int threads = 0) {
  if (threads < 0 || threads > kMostThreads) throw bad_input("[Device] {} threads", threads);
  const auto key = [&](const std::string& device) {
    return threads == 0 ? device : fmt::format("{} with {} threads", device, threads);
  };
  std::map<std::string, std::shared_ptr<Device>>& devices = opened().devices;
  if (const auto found = devices.find(key(name)); found != devices.end()) return found->second;
  std::shared_ptr<Device> device;
  const int wanted = threads == 0 ? standard_cpu_threads() : threads;
  {
    const WithoutGil without_gil;
    device = open_device(name, {.threads = wanted});
  }
  listen_to_interrupts(*device);
  if (threads == 0 && is_cpu(*device)) cpu_computes_with(wanted == 0 ? device->facts().compute_units : wanted);
  const std::string id = key(device->facts().id);
  if (const auto found = devices.find(id); found != devices.end()) device = found->second;  // it has several names
  return devices[id] = devices[key(name)] = device;
}

int usable_count(const std::string& backend);

// Names as PyTorch's programs write them: "cpu:0", and "cuda" for AMD's GPUs on a machine without one of NVIDIA.
std::string own_name(const std::string& name) {
  if (name == "cpu:0") return "cpu";
  if ((name == "cuda" || name.starts_with("cuda:")) && usable_count("cuda") == 0 && usable_count("rocm") > 0)
    return "rocm" + name.substr(4);
  return name;
}

std::shared_ptr<Device> standard_device() {
  if (opened().standard == nullptr) {
    std::shared_ptr<Device> device = open_named("auto");
    if (std::string_view(device->facts().id) == "cpu") {
      if (const auto gpu = describe_unused_gpu()) {
        const std::string text = *gpu + "; computing on the CPU";
        if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 2) != 0) throw nb::python_error();
      }
    }
    opened().standard = std::move(device);
  }
  return opened().standard;
}

// "rocm:1" has the number 1, and "cpu" 0.
int64_t number_in(std::string_view id) {
  const size_t colon = id.find(':');
  return colon == std::string_view::npos ? 0 : std::strtoll(std::string(id.substr(colon + 1)).c_str(), nullptr, 10);
}

nb::dict facts_dict(const abi::DeviceFacts& facts) {
  const std::string id = facts.id;
  nb::dict result;
  result["type"] = id.substr(0, id.find(':'));
  result["device_id"] = number_in(id);
  result["name"] = facts.name;
  result["id"] = facts.id;
  result["architecture"] = facts.architecture;
  result["total_memory"] = facts.memory_total;
  result["free_memory"] = facts.memory_free;
  result["compute_units"] = facts.compute_units;
  if (facts.wave_size == 1) result["cores"] = facts.compute_units;
  result["wave_size"] = facts.wave_size;
  result["driver"] = facts.driver;
  result["runtime"] = facts.runtime;
  result["pci_address"] = facts.pci_address;
  result["integrated"] = facts.integrated;
  result["usable"] = facts.usable;
  result["reason"] = facts.reason;
  return result;
}

// The facts of all devices of a backend ("rocm"), usable or not, in the order of their numbers.
std::vector<abi::DeviceFacts> devices_of(std::string_view backend) {
  std::vector<abi::DeviceFacts> result;
  for (const abi::DeviceFacts& facts : list_devices()) {
    if (std::string_view(facts.id).starts_with(std::string(backend) + ":")) result.push_back(facts);
  }
  std::ranges::sort(result, {}, [](const abi::DeviceFacts& facts) { return std::string(facts.id); });
  return result;
}

int usable_count(const std::string& backend) {
  return static_cast<int>(std::ranges::count_if(devices_of(backend), &abi::DeviceFacts::usable));
}

// The default device if it is one of this backend, else null. Opens a device only if the environment names it.
std::shared_ptr<Device> chosen_of(const std::string& backend) {
  const char* named = std::getenv("GABBRO_DEVICE");
  if (opened().standard == nullptr && named != nullptr && *named != '\0') standard_device();
  const std::shared_ptr<Device>& standard = opened().standard;
  return standard != nullptr && std::string_view(standard->facts().id).starts_with(backend + ":") ? standard : nullptr;
}

// The device that functions of a backend are about: the default where it is one of them, else the best of them.
std::shared_ptr<Device> current_of(const std::string& backend) {
  std::shared_ptr<Device> chosen = chosen_of(backend);
  return chosen != nullptr ? chosen : open_named(backend);
}

int64_t current_index(const std::string& backend) {
  const std::shared_ptr<Device> chosen = chosen_of(backend);
  return chosen == nullptr ? -1 : number_in(chosen->facts().id);
}

void synchronize(const std::shared_ptr<Device>& device) {
  require_this_process(*device);
  compute_pending(device);
  const WithoutGil without_gil;
  device->synchronize();
}

nb::dict numbered_facts(const std::string& backend, int64_t index) {
  const std::string id = fmt::format("{}:{}", backend, index);
  for (const abi::DeviceFacts& facts : devices_of(backend)) {
    if (id == facts.id) return facts_dict(facts);
  }
  open_device(id);  // throws, and says what is missing
  throw Error(ErrorCode::kNoDevice, fmt::format("there is no device '{}'", id));
}

void bind_backend(nb::module_& m, const char* backend, const char* label) {
  const std::string name = backend;
  m.def((name + "_is_available").c_str(), [name] { return usable_count(name) > 0; },
        fmt::format("Whether this machine has a {} device that can be used. Never raises.\n", label).c_str());
  m.def((name + "_device_count").c_str(), [name] { return usable_count(name); },
        fmt::format("How many {} devices can be used.\n", label).c_str());
  m.def((name + "_get_device_info").c_str(), [name](int64_t device_id) { return numbered_facts(name, device_id); },
        nb::arg("device_id") = 0,
        nb::sig(fmt::format("def {}_get_device_info(device_id: int = 0) -> dict[str, Any]", name).c_str()),
        fmt::format(R"(What is known of a {0} device, by its number.

Returns
-------
dict
    ``device_id``, ``name``, ``architecture``, ``total_memory`` and ``free_memory`` (bytes), ``compute_units`` and more, as
    `device_info`.

Raises
------
DeviceError
    Where there is no such device: the text says what is missing, and what to do about it.
)",
                    label)
            .c_str());
  m.def((name + "_set_device").c_str(),
        [name](int64_t device_id) { opened().standard = open_named(fmt::format("{}:{}", name, device_id)); },
        nb::arg("device_id"),
        fmt::format(R"(Makes a {} device, by its number, the one that new tensors live on: `set_device`.

Raises
------
DeviceError
    Where there is no such device: the text says what is missing, and what to do about it.
)",
                    label)
            .c_str());
  m.def(
      (name + "_get_device").c_str(), [name] { return current_index(name); },
      fmt::format("The number of the {0} device that new tensors live on; -1 where they do not live on a {0} device.\n",
                  label)
          .c_str());
  m.def(
      (name + "_synchronize").c_str(), [name] { synchronize(current_of(name)); },
      fmt::format(
          R"(Waits until the current {0} device has done all that it was given: the one that new tensors live on; where
that is no {0} device, the best of those.

Raises
------
DeviceError
    If there is no usable device: the text names the missing part and the remedy.
)",
          label)
          .c_str());
}

}  // namespace

std::shared_ptr<Device> device_argument(nb::handle object) {
  if (object.is_none()) return standard_device();
  if (nb::isinstance<DeviceObject>(object)) return nb::cast<const DeviceObject&>(object).device;
  if (nb::isinstance<nb::str>(object)) return open_named(own_name(text_of(object)));
  throw nb::type_error(
      fmt::format("{} is not a device: give a name like 'cpu' or 'rocm:0'", nb::repr(object).c_str()).c_str());
}

nb::object device_object(const std::shared_ptr<Device>& device) { return nb::cast(DeviceObject{device}); }

const Device* chosen_device() { return opened().standard.get(); }

void forget_gpus() {
  Opened& known = *new Opened(std::move(opened()));  // never freed: closing a GPU would wait for its threads
  opened() = {};
  for (const auto& [name, device] : known.devices)
    if (is_cpu(*device)) opened().devices[name] = device;
  if (known.standard != nullptr && is_cpu(*known.standard)) opened().standard = known.standard;
}

void require_this_process(const Device& device) {
  for (const auto& [name, known] : opened().devices) {
    if (known.get() == &device) return;
  }
  throw Error(ErrorCode::kNoDevice,
              fmt::format("device {} was opened before this process was forked and cannot be used in the child",
                          device.facts().id),
              "start processes with multiprocessing.set_start_method('spawn'), or use Gabbro first in the child");
}

void bind_devices(nb::module_& m) {
  DeviceClass device_class(m, "Device", R"(A device that tensors live on, such as ``cpu`` or ``rocm:0``.

``str(device)`` is its name, and it equals that name. Functions that take a device take the name as well.

Parameters
----------
name : str
    As `set_device` takes it.
threads : int
    Of a CPU; 0: one per physical core. With another number of threads it is another device: tensors of both do not
    meet in one operation.

Raises
------
DeviceError
    Where there is no such device, or it cannot be used: the text says why, and what to do about it.
ValueError
    For numbers of threads below 0 or above 1024.

>>> gb.zeros(2, device="cpu").device == "cpu"
True
>>> gb.zeros(2, device=gb.Device("cpu", threads=1)).device
gabbro.Device('cpu')
)");
  device_class
      .def(nb::new_(
               [](const std::string& name, int threads) { return DeviceObject{open_named(own_name(name), threads)}; }),
           nb::arg("name"), nb::arg("threads") = 0)
      .def_prop_ro(
          "name", [](const DeviceObject& d) { return d.device->facts().id; }, "Its name, such as 'rocm:0'.")
      .def("__str__", [](const DeviceObject& d) { return d.device->facts().id; })
      .def("__repr__", [](const DeviceObject& d) { return fmt::format("gabbro.Device('{}')", d.device->facts().id); })
      .def("__hash__", [](const DeviceObject& d) { return std::hash<std::string_view>{}(d.device->facts().id); })
      .def(
          "__eq__",
          [](const DeviceObject& d, nb::handle other) {
            if (nb::isinstance<DeviceObject>(other)) return nb::cast<const DeviceObject&>(other).device == d.device;
            return nb::isinstance<nb::str>(other) && nb::str(d.device->facts().id).equal(other);
          },
          nb::arg().none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def(
          "__deepcopy__", [](nb::object self, nb::handle) { return self; }, nb::arg("memo"))
      .def("__reduce__", [m](const DeviceObject& d) {
        return nb::make_tuple(m.attr("Device"), nb::make_tuple(d.device->facts().id));
      });
  bind_device_memory(device_class);
  bind_device_tuning(device_class);
  bind_device_threads(m);

  m.def(
      "devices",
      [] {
        nb::list names;
        for (const abi::DeviceFacts& facts : list_devices()) {
          if (facts.usable) names.append(facts.id);
        }
        return names;
      },
      nb::sig("def devices() -> list[str]"), R"(The names of the devices that can be used, the best first.

>>> "cpu" in gb.devices()
True
)");
  m.def(
      "set_device", [](nb::handle device) { opened().standard = device_argument(device); }, nb::arg("device"),
      nb::sig("def set_device(device: str | Device) -> None"), R"(Makes a device the one that new tensors live on.

Parameters
----------
device : str or Device
    ``"cpu"``, ``"rocm"``, ``"rocm:1"``, ``"cuda:0"``, ``"gpu"`` (the best GPU), ``"auto"``, a PCI address
    (``"pci:0000:03:00.0"``) or an architecture (``"gfx1100"``).

Raises
------
DeviceError
    Where there is no such device, or it cannot be used: the text says why, and what to do about it.

>>> gb.set_device("cpu")
)");
  m.def(
      "get_device", [] { return device_object(standard_device()); }, nb::sig("def get_device() -> Device"),
      R"(The device that new tensors live on: the last of `set_device`; before, ``GABBRO_DEVICE``, or the best one.

>>> print(gb.get_device())
cpu
)");
  m.def(
      "device_info",
      [](nb::handle device) {
        const std::string id = device_argument(device)->facts().id;
        for (const abi::DeviceFacts& facts : list_devices()) {
          if (id == facts.id) return facts_dict(facts);
        }
        return facts_dict(device_argument(device)->facts());
      },
      nb::arg("device") = nb::none(), nb::sig("def device_info(device: str | Device | None = None) -> dict[str, Any]"),
      R"(What is known of a device.

Returns
-------
dict
    ``type`` (``"rocm"``, ``"cuda"``, ``"cpu"``), ``device_id`` (its number), ``name``, ``id``, ``architecture``,
    ``total_memory`` and ``free_memory`` (bytes), ``compute_units`` (of a CPU also as ``cores``), ``wave_size`` (lanes; 1 on
    a CPU), ``driver``, ``runtime``, ``pci_address``, ``integrated``, ``usable``, ``reason``.

>>> info = gb.device_info("cpu")
>>> info["type"], info["wave_size"]
('cpu', 1)
)");
  m.def(
      "synchronize", [](nb::handle device) { synchronize(device_argument(device)); }, nb::arg("device") = nb::none(),
      nb::sig("def synchronize(device: str | Device | None = None) -> None"),
      R"(Computes what is pending on a device, and waits until it has done all that it was given.

Pending are results that were not evaluated yet, and those that were dropped without being read, as far as the tensors
that they are computed from still exist; of these the last 1024. So a loop can be timed that assigns each of its results to the
same name. Ops on fewer than 4096 elements may be left: they take microseconds.

>>> gb.synchronize()
)");
  m.def("_pending_work", pending_counts);
  bind_backend(m, "rocm", "ROCm");
  bind_backend(m, "cuda", "CUDA");
  // For gabbro.backend, whose classes serve every backend.
  m.def("_usable_count", usable_count, nb::arg("backend"));
  m.def("_numbered_facts", numbered_facts, nb::arg("backend"), nb::arg("device_id"),
        nb::sig("def _numbered_facts(backend: str, device_id: int) -> dict[str, Any]"));
  m.def("_current_index", current_index, nb::arg("backend"));
  m.def(
      "_current_device", [](const std::string& backend) { return device_object(current_of(backend)); },
      nb::arg("backend"), nb::sig("def _current_device(backend: str) -> Device"));
}

}  // namespace gabbro::python
