// Data parallel training over devices and processes, whose face is gabbro/distributed.py.
#include "python/src/checked.h"
#include "python/src/nn.h"
#include "src/base/error.h"
#include "src/train/process_sums.h"
#include "src/train/replicas.h"

namespace gabbro::python {
namespace {

// Calls of MPI wait for other processes: without the GIL, and Ctrl-C ends them.
template <class Call>
auto waiting(const Call& call) {
  decltype(call(nullptr)) result{};
  run_interruptibly([&](const std::atomic<bool>* cancel) { result = call(cancel); });
  return result;
}

train::ProcessSums& process_sums() {
  static train::ProcessSums& sums = *new train::ProcessSums(mpi::Ranks::shared());
  return sums;
}

class PythonReplicas {
 public:
  PythonReplicas(const nb::list& devices, size_t bucket_bytes, bool over_processes)
      : replicas_(std::make_shared<train::Replicas>(opened(devices), options(bucket_bytes, over_processes))) {}

  std::vector<std::vector<Tensor>> replicate(nb::handle parameters) const {
    require_no_trace();
    return replicas_->replicate(tensors_argument("DataParallel", parameters));
  }

  // Copies of tensors on the devices of these ranks, through which gradients pass.
  std::vector<Tensor> moved(nb::handle tensors, const std::vector<size_t>& ranks) const {
    require_no_trace();
    train::Devices to;
    for (const size_t rank : ranks) to.push_back(replicas_->devices().at(rank));
    return replicas_->links().moved(tensors_argument("DataParallel", tensors), to);
  }

 private:
  static train::Devices opened(const nb::list& devices) {
    train::Devices result;
    for (nb::handle device : devices) result.push_back(device_argument(device));
    for (const std::shared_ptr<Device>& device : result) require_this_process(*device);
    return result;
  }

  static train::ReplicaOptions options(size_t bucket_bytes, bool over_processes) {
    train::ReplicaOptions options{.bucket_bytes = bucket_bytes};
    if (over_processes) {
      options.across_processes = [](std::span<const Tensor> parameters, std::vector<Tensor>& sums) {
        waiting(
            [&](const std::atomic<bool>* cancel) { return process_sums().average(parameters, sums, cancel), true; });
      };
    }
    return options;
  }

  std::shared_ptr<train::Replicas> replicas_;
};

// Gives the places of a module other values for a call, and then their own ones again.
class LentValues {
 public:
  explicit LentValues(nb::handle places) : slots_(slots_of(places)) {
    for (const nn::Slot& slot : slots_) own_.push_back(*slot.tensor);
  }
  void lend(const std::vector<Tensor>& values) {
    if (values.size() != slots_.size())
      throw bad_input("[DataParallel] {} values for {}", values.size(), slots_.size());
    for (size_t i = 0; i < slots_.size(); ++i) *slots_[i].tensor = values[i];
  }
  void take_back() {
    for (size_t i = 0; i < slots_.size(); ++i) *slots_[i].tensor = own_[i];
  }

 private:
  std::vector<nn::Slot> slots_;
  std::vector<Tensor> own_;
};

void bind_processes(nb::module_& m) {
  m.def("_launched_processes", mpi::launched_processes);
  m.def(
      "_join_processes",
      [] {
        const mpi::Ranks& ranks = mpi::Ranks::shared();
        return nb::make_tuple(ranks.rank(), ranks.size(), ranks.version());
      },
      nb::sig("def _join_processes() -> tuple[int, int, str]"));
  m.def(
      "_values_of_first",
      [](nb::handle tensors) {
        const std::vector<Tensor> own = tensors_argument("broadcast", tensors);
        evaluate(own);
        return waiting([&](const std::atomic<bool>* cancel) { return process_sums().of_first(own, cancel); });
      },
      nb::sig("def _values_of_first(tensors: list[Tensor], /) -> list[Tensor]"));
  m.def(
      "_sum_over_processes",
      [](const Tensor& tensor) {
        evaluate(tensor);
        return waiting([&](const std::atomic<bool>* cancel) { return process_sums().sum(tensor, cancel); });
      },
      nb::sig("def _sum_over_processes(tensor: Tensor, /) -> Tensor"));
  m.def("_barrier", [] {
    float nothing = 0;
    waiting([&](const std::atomic<bool>* cancel) {
      return mpi::Ranks::shared().sum(std::span<float>(&nothing, 1), cancel), true;
    });
  });
  m.def("_average_over_processes", [](bool is_active) { process_sums().set_active(is_active); });
}

}  // namespace

void bind_data_parallel(nb::module_& m) {
  nb::class_<PythonReplicas>(m, "_Replicas")
      .def(nb::init<const nb::list&, size_t, bool>(), nb::arg("devices"), nb::arg("bucket_bytes"),
           nb::arg("over_processes"),
           nb::sig("def __init__(self, devices: list[Device | str], bucket_bytes: int, over_processes: bool) -> None"))
      .def("replicate", &PythonReplicas::replicate,
           nb::sig("def replicate(self, parameters: list[Tensor], /) -> list[list[Tensor]]"))
      .def("moved", &PythonReplicas::moved,
           nb::sig("def moved(self, tensors: list[Tensor], ranks: list[int], /) -> list[Tensor]"));
  nb::class_<LentValues>(m, "_LentValues")
      .def(nb::init<nb::handle>(), nb::sig("def __init__(self, places: list[Tensor], /) -> None"))
      .def("lend", &LentValues::lend)
      .def("take_back", &LentValues::take_back);
  bind_processes(m);
}

}  // namespace gabbro::python
