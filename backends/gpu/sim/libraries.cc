// A vendor's libraries as the simulator has them. With GABBRO_SIM_PRODUCTS=1 it multiplies matrices as one does.
// "wrong", "failing" and "declining" are such libraries with a fault, and "missing" is none; several are joined with
// commas, in the order in which they are asked. GABBRO_SIM_PRODUCTS_VERSION is what they say of their version. With
// GABBRO_SIM_DISTRUSTS_PRODUCTS=1 they are used only for measured shapes.
// GABBRO_SIM_CONVOLUTIONS is the same for convolutions, which are taken unmeasured with
// GABBRO_SIM_TRUSTS_CONVOLUTIONS=1; "searching" takes them where it may search.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numbers>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/sim/objects.h"
#include "src/base/half.h"

namespace gabbro::gpu::api {

using abi::StatusCode;

namespace {

std::vector<std::string> libraries_of(const char* variable) {
  const char* wanted = std::getenv(variable);
  std::vector<std::string> names;
  for (std::string_view rest = wanted == nullptr ? "" : wanted; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    names.push_back(name == "1" ? "simulated library" : fmt::format("{} library", name));
  }
  return names;
}

float read_float(const void* values, int64_t i, DType dtype) {
  if (dtype == DType::f32) return static_cast<const float*>(values)[i];
  const uint16_t bits = static_cast<const uint16_t*>(values)[i];
  return dtype == DType::f16 ? half_bits_to_float(bits) : bfloat_bits_to_float(bits);
}

void write_float(void* values, int64_t i, DType dtype, float value) {
  if (dtype == DType::f32) {
    static_cast<float*>(values)[i] = value;
  } else {
    static_cast<uint16_t*>(values)[i] = dtype == DType::f16 ? float_to_half_bits(value) : float_to_bfloat_bits(value);
  }
}

float activated(float x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(x, 0.0f);
    case Activation::kGeluTanh:
      return 0.5f * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi_v<float>) * (x + 0.044715f * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kNone:
      break;
  }
  return x;
}

}  // namespace

std::vector<std::string> product_libraries(Context*) { return libraries_of("GABBRO_SIM_PRODUCTS"); }
bool trusts_product_libraries(Context*) { return std::getenv("GABBRO_SIM_DISTRUSTS_PRODUCTS") == nullptr; }
std::string library_problem(Context*, const std::string& library) {
  return library == "missing library" ? "it is missing" : "";
}
std::vector<std::string> convolution_libraries(Context*) { return libraries_of("GABBRO_SIM_CONVOLUTIONS"); }
bool trusts_convolution_libraries(Context*) { return std::getenv("GABBRO_SIM_TRUSTS_CONVOLUTIONS") != nullptr; }
std::string library_version(Context*, const std::string& library) {
  const char* version = std::getenv("GABBRO_SIM_PRODUCTS_VERSION");
  return library == "missing library" ? "" : version == nullptr ? "1.0" : version;
}
Gemm* make_gemm(Context*, const std::string& library, const GemmShape& shape) {
  if (library == "declining library" || library == "missing library") return nullptr;
  return new Gemm{shape, library};
}
void destroy_gemm(Gemm* product) { delete product; }

namespace {

// Enqueues the work, or captures it.
template <class Work>
void enqueue_work(Queue* queue, Work work) {
  if (queue->captured == nullptr) return queue->enqueue(std::move(work));
  queue->captured->work.emplace_back([work = std::move(work)](Queue* on) { on->enqueue(work); });
}

void run_product(const Gemm& product, const GemmOperands& o) {
  const GemmShape& s = product.shape;
  const float alpha = product.library == "wrong library" ? 2 * s.alpha : s.alpha;
  const auto line_of = [&](const void* matrix, const Factor& factor, int64_t batch, int64_t line) {
    const int64_t first = batch * factor.batch_step + (factor.transposed ? line : line * factor.step);
    std::vector<float> values(static_cast<size_t>(s.depth));
    for (int64_t k = 0; k < s.depth; ++k)
      values[static_cast<size_t>(k)] = read_float(matrix, first + k * (factor.transposed ? factor.step : 1), s.dtype);
    return values;
  };
  for (int64_t batch = 0; batch < s.batches; ++batch) {
    for (int64_t row = 0; row < s.rows; ++row) {
      const std::vector<float> weights = line_of(o.w, s.w, batch, row);
      for (int64_t token = 0; token < s.tokens; ++token) {
        const std::vector<float> values = line_of(o.x, s.x, batch, token);
        const int64_t place = (batch * s.tokens + token) * s.y_step + row;
        float y = alpha * std::inner_product(weights.begin(), weights.end(), values.begin(), 0.0f);
        if (o.addend != nullptr) y += read_float(o.addend, place, s.result);
        if (s.bias) y += read_float(o.bias, row, s.result);
        write_float(o.y, place, s.result, activated(y, s.activation));
      }
    }
  }
}

}  // namespace

void multiply(Queue* queue, const Gemm* product, const GemmOperands& operands) {
  if (product->library == "failing library") throw ApiError(StatusCode::kFailed, "sim: the library fails");
  enqueue_work(queue, [product = *product, operands] { run_product(product, operands); });
}

Convolution* make_convolution(Context*, const std::string& library, const ConvShape& shape, bool search) {
  if (library == "declining library" || library == "missing library") return nullptr;
  if (library == "searching library" && !search) return nullptr;
  return new Convolution{shape, library};
}
void destroy_convolution(Convolution* convolution) { delete convolution; }
size_t convolution_scratch(const Convolution*) { return 8; }

namespace {

void run_convolution(const Convolution& convolution, const void* x, const void* w, void* y, void* scratch) {
  const ConvShape& s = convolution.shape;
  const bool wrong = convolution.library == "wrong library";
  std::memset(scratch, 1, convolution_scratch(&convolution));  // the caller must have allocated it
  const auto volume = [](const int64_t(&lengths)[3]) { return lengths[0] * lengths[1] * lengths[2]; };
  const auto place = [](int64_t index, const int64_t(&lengths)[3], int64_t(&at)[3]) {
    for (int i = 2; i >= 0; index /= lengths[i--]) at[i] = index % lengths[i];
  };
  const int64_t outputs = volume(s.out), taps = volume(s.kernel), inputs = volume(s.in);
  const int64_t all_inputs = s.images * s.groups * s.in_channels * inputs;
  std::vector<float> sums(s.transposed ? static_cast<size_t>(all_inputs) : 0);
  for (int64_t i = 0; i < s.images * s.groups * s.out_channels * outputs; ++i) {
    const int64_t plane = i / outputs, channel = plane % (s.groups * s.out_channels);
    const int64_t first = (plane / (s.groups * s.out_channels) * s.groups + channel / s.out_channels) * s.in_channels;
    int64_t o[3], t[3], at[3];
    place(i % outputs, s.out, o);
    float sum = 0;
    for (int64_t k = 0; k < s.in_channels * taps; ++k) {
      place(k % taps, s.kernel, t);
      bool inside = true;
      for (int axis = 0; axis < 3; ++axis) {
        at[axis] = o[axis] * s.stride[axis] - s.padding[axis] + t[axis] * s.dilation[axis];
        inside = inside && at[axis] >= 0 && at[axis] < s.in[axis];
      }
      if (!inside) continue;
      const int64_t place_in_x = (first + k / taps) * inputs + (at[0] * s.in[1] + at[1]) * s.in[2] + at[2];
      const float factor = read_float(w, channel * s.in_channels * taps + k, s.dtype);
      if (s.transposed) {
        sums[static_cast<size_t>(place_in_x)] += read_float(x, i, s.dtype) * factor;
      } else {
        sum += read_float(x, place_in_x, s.dtype) * factor;
      }
    }
    if (s.transposed) continue;
    if (wrong) sum = 2 * sum + 1;
    write_float(y, i, s.dtype, sum);
  }
  for (int64_t i = 0; s.transposed && i < all_inputs; ++i) {
    const float sum = sums[static_cast<size_t>(i)];
    write_float(y, i, s.dtype, wrong ? 2 * sum + 1 : sum);
  }
}

}  // namespace

void convolve(Queue* queue, const Convolution* convolution, const void* x, const void* w, void* y, void* scratch) {
  if (convolution->library == "failing library") throw ApiError(StatusCode::kFailed, "sim: the library fails");
  enqueue_work(queue,
               [convolution = *convolution, x, w, y, scratch] { run_convolution(convolution, x, w, y, scratch); });
}

}  // namespace gabbro::gpu::api
