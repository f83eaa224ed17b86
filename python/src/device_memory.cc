// Use of a device's memory, cached memory, and pinned memory of the host.
#include <nanobind/ndarray.h>

#include "python/src/device.h"
#include "src/base/error.h"

namespace gabbro::python {
namespace {

abi::MemoryKind kind_of(bool pinned) { return pinned ? abi::MemoryKind::kPinned : abi::MemoryKind::kDevice; }

size_t bytes_argument(const char* op, int64_t bytes) {
  if (bytes < 0) throw bad_input("[{}] {} bytes", op, bytes);
  return static_cast<size_t>(bytes);
}

void add_facts(nb::dict& result, const std::string& prefix, const abi::PoolFacts& facts) {
  const auto add = [&](const char* name, uint64_t value) { result[(prefix + name).c_str()] = value; };
  add("allocated_bytes", facts.in_use);
  add("allocated_bytes_peak", facts.in_use_peak);
  add("reserved_bytes", facts.reserved);
  add("reserved_bytes_peak", facts.reserved_peak);
  add("allocations", facts.allocations);
  add("frees", facts.releases);
  add("cache_hits", facts.hits);
  add("retries", facts.retries);
  add("failures", facts.failures);
}

// An array whose memory goes back to the device's pool with the last of its views.
nb::object pinned_array(const DeviceObject& d, int64_t bytes) {
  const Device& device = *d.device;
  require_this_process(device);
  if (device.host_accessible()) {
    throw failed("device {} computes in the host's own memory: there is none to pin for it", device.facts().id);
  }
  struct Block {
    std::shared_ptr<Device> device;  // outlives its memory
    std::shared_ptr<void> memory;
  };
  const size_t length = bytes_argument("pinned_buffer", bytes);
  auto block = std::make_unique<Block>(d.device, nullptr);
  {
    const WithoutGil without_gil;  // to pin takes long
    block->memory = d.device->allocate_host(length);
  }
  void* const data = block->memory.get();
  const nb::capsule owner(block.release(), [](void* pointer) noexcept { delete static_cast<Block*>(pointer); });
  return nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>, nb::device::cpu>(data, {length}, owner));
}

}  // namespace

void bind_device_memory(DeviceClass& device) {
  device
      .def(
          "memory_stats",
          [](const DeviceObject& d) {
            require_this_process(*d.device);
            nb::dict result;
            add_facts(result, "", d.device->memory(abi::MemoryKind::kDevice));
            add_facts(result, "pinned_", d.device->memory(abi::MemoryKind::kPinned));
            return result;
          },
          nb::sig("def memory_stats(self) -> dict[str, int]"), R"(What the device's memory goes to.

Returns
-------
dict
    ``allocated_bytes``: in use. ``reserved_bytes``: taken from the runtime, which is that and what is kept for later.
    Both at this moment, and with ``_peak`` the most there was. ``allocations`` and ``frees``; of the allocations those
    that the runtime was not asked for (``cache_hits``) and those for which cached memory had to be released first
    (``retries``); ``failures``: for which there was no memory. All of it again with ``pinned_`` before the name: memory
    of the host that copies need not go round. Peaks and counts are since the device was first used, or since
    `reset_memory_stats`. A CPU keeps nothing and pins nothing.

Raises
------
RuntimeError
    Where the device does not count.

>>> x = gb.rand(1000).eval()
>>> gb.Device("cpu").memory_stats()["allocated_bytes"] >= 4000
True
)")
      .def(
          "reset_memory_stats",
          [](const DeviceObject& d) {
            require_this_process(*d.device);
            d.device->reset_memory_facts(abi::MemoryKind::kDevice);
            d.device->reset_memory_facts(abi::MemoryKind::kPinned);
          },
          "Resets the peaks and counts of `memory_stats`.")
      .def(
          "reserve_memory",
          [](const DeviceObject& d, int64_t bytes, bool pinned) {
            require_this_process(*d.device);
            const size_t size = bytes_argument("reserve_memory", bytes);
            const WithoutGil without_gil;
            d.device->reserve(kind_of(pinned), size);
          },
          nb::arg("bytes"), nb::kw_only(), nb::arg("pinned") = false,
          R"(Takes memory from the runtime now, so that what is computed later need not wait for it.

Parameters
----------
bytes : int
    So much, in addition to what the device has. It is given out in pieces of any size from 64 KiB on.
pinned : bool
    Memory of the host that copies need not go round, instead of the device's own.

Raises
------
MemoryError
    Where there is not so much at once.
RuntimeError
    Of a device that keeps no memory, such as a CPU.
)")
      .def(
          "empty_cache",
          [](const DeviceObject& d, bool pinned) {
            require_this_process(*d.device);
            const WithoutGil without_gil;
            return d.device->trim(kind_of(pinned));
          },
          nb::kw_only(), nb::arg("pinned") = false,
          R"(Releases the memory that no tensor uses, the scratch memory of plans as well, for use by other programs.

Returns
-------
int
    The bytes that were kept and went back; 0 of a CPU, which keeps nothing.
)")
      .def("pinned_buffer", pinned_array, nb::arg("bytes"),
           nb::sig("def pinned_buffer(self, bytes: int) -> NumPyArray"),
           R"(A NumPy array of `bytes` uint8 in pinned memory, from which tensors are made without a copy in between.

``buffer.view("float32").reshape(shape)`` is such memory as an array of floats. It may be written again as soon as
`gabbro.tensor` has returned, and goes back to the device's pool with the last view of it.

Raises
------
MemoryError
    Where there is not so much.
RuntimeError
    Of a device that computes in the host's memory, such as a CPU.
)");
}

}  // namespace gabbro::python
