// Random numbers: one generator for the process, which `seed` sets. Each call takes a separate stream.
#include <random>
#include <utility>

#include "gabbro/ops/random.h"
#include "python/src/nn.h"
#include "python/src/ops.h"
#include "python/src/random_state.h"

namespace gabbro::python {
namespace {

struct Generator {
  uint64_t seed = 0;
  uint64_t stream = 0;  // the next one
};

// Each rank of several processes with equal seeds has 2^40 streams, more than a training run draws.
constexpr int kStreamsOfRankBits = 40;
uint64_t first_stream = 0;  // guarded by the GIL

Generator& generator() {  // guarded by the GIL
  static Generator state = [] {
    std::random_device entropy;
    return Generator{.seed = (uint64_t{entropy()} << 32) | entropy()};
  }();
  return state;
}

std::vector<Tensor>* keys_of_trace = nullptr;  // guarded by the GIL

Shape variadic_shape(const char* op, const nb::args& args) {
  return shape_argument(op, args.size() == 1 ? nb::handle(args[0]) : nb::handle(args));
}

void require_floats(const char* op, DType dtype) {
  if (!is_floating(dtype)) throw bad_input("[{}] {} is not a floating dtype", op, dtype_public_name(dtype));
}

Tensor key_for(const nb::handle& device) {
  const Tensor key = next_key(device_argument(device));
  if (keys_of_trace != nullptr) keys_of_trace->push_back(key);
  return key;
}

// Whether a dtype holds every whole number of [low, high).
bool holds(DType dtype, int64_t low, int64_t high) {
  const auto within = [&](int64_t least, int64_t most) { return low >= least && high - 1 <= most; };
  switch (dtype) {
    case DType::i8:
      return within(-128, 127);
    case DType::u8:
      return within(0, 255);
    case DType::i16:
      return within(-32768, 32767);
    case DType::f16:
      return within(-2048, 2048);
    case DType::bf16:
      return within(-256, 256);
    case DType::f32:
      return within(-(1 << 24), 1 << 24);
    default:
      return dtype == DType::i32 || dtype == DType::i64 || dtype == DType::f64;
  }
}

// Random numbers of modules: initial values and dropout. Compiled functions get new ones in each call, too.
class ModuleGenerator : public nn::Generator {
 public:
  Tensor next_key(const std::shared_ptr<Device>& device) override {
    const Tensor key = python::next_key(device);
    if (keys_of_trace != nullptr) keys_of_trace->push_back(key);
    return key;
  }
  uint64_t position() const override { return generator().stream; }
  void set_position(uint64_t position) override { generator().stream = position; }
};

}  // namespace

const std::shared_ptr<nn::Generator>& module_generator() {
  static const auto& shared = *new std::shared_ptr<nn::Generator>(std::make_shared<ModuleGenerator>());
  return shared;
}

Tensor next_key(const std::shared_ptr<Device>& device) {
  return random_key(device, generator().seed, 0, generator().stream++);
}

KeyRecorder::KeyRecorder(std::vector<Tensor>& keys) : before_(keys_of_trace) { keys_of_trace = &keys; }
KeyRecorder::~KeyRecorder() { keys_of_trace = before_; }

void bind_random(nb::module_& m) {
  m.def("_set_random_rank", [](uint64_t rank) {
    const uint64_t before = std::exchange(first_stream, rank << kStreamsOfRankBits);
    generator().stream += first_stream - before;
  });
  m.def(
      "seed", [](uint64_t number) { generator() = {.seed = number, .stream = first_stream}; }, nb::arg("number"),
      R"(Restarts the random numbers: equal seeds give equal numbers, bit by bit, on every device.

>>> gb.seed(7)
>>> a = gb.rand(3)
>>> gb.seed(7)
>>> a.tolist() == gb.rand(3).tolist()
True
)");
  m.def(
      "rand",
      [](const nb::args& shape, DType dtype, nb::handle device) {
        const Shape lengths = variadic_shape("rand", shape);
        require_floats("rand", dtype);
        return rand(key_for(device), lengths, dtype);
      },
      nb::arg("shape"), nb::arg("dtype") = DType::f32, nb::arg("device") = nb::none(),
      nb::sig("def rand(*shape: int | Sequence[int], dtype: DTypeLike = float32, "
              "device: DeviceLike | None = None) -> Tensor"),
      R"(Numbers spread evenly over [0, 1): multiples of 2⁻²⁴, by Philox 4x32-10 (Salmon et al. 2011).

In float16 they are multiples of 2⁻¹¹, in bfloat16 of 2⁻⁸: numbers of 24 bits would be rounded up to 1.

Parameters
----------
*shape : int, or one tuple of int
dtype : DType
    float32, float16 or bfloat16.
device : str or Device, optional
    Without it, the default.

>>> gb.rand(2, 3).shape
(2, 3)
)");
  m.def(
      "randn",
      [](const nb::args& shape, DType dtype, nb::handle device) {
        const Shape lengths = variadic_shape("randn", shape);
        require_floats("randn", dtype);
        return cast(randn(key_for(device), lengths), dtype);
      },
      nb::arg("shape"), nb::arg("dtype") = DType::f32, nb::arg("device") = nb::none(),
      nb::sig("def randn(*shape: int | Sequence[int], dtype: DTypeLike = float32, "
              "device: DeviceLike | None = None) -> Tensor"),
      R"(Numbers of the normal distribution with mean 0 and variance 1 (Box and Muller 1958). Arguments as `rand`.

>>> gb.randn((2, 3)).shape
(2, 3)
)");
  m.def(
      "randint",
      [](int64_t low, int64_t high, const Integers& shape, DType dtype, nb::handle device) {
        const Shape lengths = shape_of("randint", shape.values);
        if (low < high && !holds(dtype, low, high))
          throw bad_input("[randint] {} does not hold all numbers from {} to {}", dtype_public_name(dtype), low, high);
        return cast(randint(key_for(device), low, high, lengths), dtype);
      },
      nb::arg("low"), nb::arg("high"), nb::arg("shape"), nb::kw_only(), nb::arg("dtype") = DType::i64,
      nb::arg("device") = nb::none(),
      nb::sig("def randint(low: int, high: int, shape: int | Sequence[int], *, dtype: DTypeLike = int64, "
              "device: DeviceLike | None = None) -> Tensor"),
      R"(Whole numbers, spread evenly over [low, high).

Parameters
----------
low, high : int
    Within the range of int32.
shape : int or tuple of int
dtype : DType
    Any but bool and block formats; of the result.
device : str or Device, optional
    Without it, the default.

Raises
------
ValueError
    Where no int32 is in the range, and for a dtype that does not hold its numbers.

>>> gb.randint(0, 10, 4).shape
(4,)
)");
}

}  // namespace gabbro::python
