// The simulator behind the host side. sim:0 has waves of 32 lanes and sim:1 of 64, unless GABBRO_SIM_WAVE says one for
// both. Faults are injected by GABBRO_SIM_FAIL: malloc:N (the Nth allocation fails), launch:N (the Nth launch fails,
// and from then on the device), lost:N (after the Nth launch the device is gone), read:N (the Nth copy to the host
// flips a bit), unreachable:1 (no device reaches another's memory), peer:N and peer-error:N (from the Nth copy between
// devices on, each flips a bit, or fails); several are joined with commas. With GABBRO_SIM_PRODUCTS=1 it multiplies
// matrices as a vendor's library does. "wrong", "failing" and "declining" are such libraries with a fault, and
// "missing" is none; several are joined with commas, in the order in which they are asked. GABBRO_SIM_PRODUCTS_VERSION
// is what they say of their version. GABBRO_SIM_CONVOLUTIONS is the same for convolutions, which are taken unmeasured
// with GABBRO_SIM_TRUSTS_CONVOLUTIONS=1; "searching" takes them where it may search.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <numbers>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "backends/gpu/api.h"
#include "backends/gpu/sim/block.h"
#include "backends/gpu/sim/memory.h"
#include "src/base/half.h"

namespace gabbro::gpu::api {
namespace {

using abi::StatusCode;

constexpr size_t kMemory = size_t{8} << 30;  // bytes that each device says it has

uint32_t wave_of(int32_t index) {
  const char* forced = std::getenv("GABBRO_SIM_WAVE");
  if (forced == nullptr || *forced == '\0') return index == 0 ? 32 : 64;
  if (std::string_view(forced) == "32") return 32;
  if (std::string_view(forced) == "64") return 64;
  throw ApiError(StatusCode::kFailed, fmt::format("GABBRO_SIM_WAVE: '{:.16}' is neither 32 nor 64", forced));
}

// N of "what:N" in GABBRO_SIM_FAIL; 0 where it is not asked for.
uint64_t fault(std::string_view what) {
  const char* text = std::getenv("GABBRO_SIM_FAIL");
  if (text == nullptr) return 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    if (item.starts_with(what) && item.substr(what.size()).starts_with(':'))
      return std::strtoull(std::string(item.substr(what.size() + 1)).c_str(), nullptr, 10);
  }
  return 0;
}

void flip_bit(void* memory, size_t bytes) { static_cast<std::byte*>(memory)[bytes / 2] ^= std::byte{16}; }

}  // namespace

struct Context {
  uint32_t wave;
  uint64_t failing_allocation, failing_launch, lost_after, damaged_read, damaged_peer, failing_peer;
  bool reaches_others;
  std::atomic<uint64_t> allocations{0}, launches{0}, reads{0}, peer_copies{0};
  std::atomic<bool> lost{false};
  std::mutex mutex;
  std::string failure;  // of a launch: reported by whatever waits next, and by all that comes after

  void require_present() const {
    if (lost) throw ApiError(StatusCode::kLost, "sim: the device was lost");
  }
};
struct Queue {
  Context* context;
  const std::atomic<bool>* cancel = nullptr;
};
struct Gemm {
  GemmShape shape;
  std::string library;
};
struct Convolution {
  ConvShape shape;
  std::string library;
};
struct Function {
  const sim::Registration* kernel;
};
struct Module {
  uint32_t wave;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

const char* backend_name() { return "sim"; }
int32_t score() { return -1; }
int32_t device_count() { return 2; }

void device_facts(int32_t index, abi::DeviceFacts& facts) {
  std::snprintf(facts.name, sizeof facts.name, "simulated GPU, waves of %u lanes", wave_of(index));
  std::snprintf(facts.architecture, sizeof facts.architecture, "sim%u", wave_of(index));
  facts.memory_total = kMemory;
  facts.memory_free = kMemory - std::min(kMemory, sim::allocated_bytes());
  facts.compute_units = 1;
  facts.wave_size = static_cast<int32_t>(wave_of(index));
  facts.usable = true;
}

Context* open(int32_t index) {
  return new Context{.wave = wave_of(index),
                     .failing_allocation = fault("malloc"),
                     .failing_launch = fault("launch"),
                     .lost_after = fault("lost"),
                     .damaged_read = fault("read"),
                     .damaged_peer = fault("peer"),
                     .failing_peer = fault("peer-error"),
                     .reaches_others = fault("unreachable") == 0};
}
void close(Context* context) { delete context; }
size_t free_memory(Context*) { return kMemory - std::min(kMemory, sim::allocated_bytes()); }
double memory_bandwidth(const Context*) { return 0; }

void* allocate(Context* context, size_t bytes) {
  context->require_present();
  if (++context->allocations == context->failing_allocation) return nullptr;
  return sim::allocate(bytes);
}
void release(Context*, void* pointer) { sim::release(pointer); }
size_t allocation_step() { return 1; }
void* allocate_pinned(Context* context, size_t bytes) { return allocate(context, bytes); }
void release_pinned(Context*, void* pointer) { sim::release(pointer); }

Queue* create_queue(Context* context) { return new Queue{context}; }
void destroy_queue(Queue* queue) { delete queue; }

void synchronize(Queue* queue) {
  queue->context->require_present();
  const std::lock_guard lock(queue->context->mutex);
  if (!queue->context->failure.empty()) throw ApiError(StatusCode::kFailed, queue->context->failure);
}

void set_cancel_flag(Queue* queue, const std::atomic<bool>* cancel) { queue->cancel = cancel; }

void copy_to_device(Queue* queue, void* target, const void* host, size_t bytes) {
  queue->context->require_present();
  if (bytes > 0) std::memcpy(target, host, bytes);
}

void copy_to_host(Queue* queue, void* host, const void* source, size_t bytes) {
  synchronize(queue);
  if (bytes == 0) return;
  std::memcpy(host, source, bytes);
  if (++queue->context->reads == queue->context->damaged_read) flip_bit(host, bytes);
}

std::string connect(Context* to, Context*) {
  return to->reaches_others ? "" : "sim: the devices do not reach each other's memory";
}

void copy_peer(Queue* to, void* target, Context* from, const void* source, size_t bytes) {
  to->context->require_present();
  from->require_present();
  const uint64_t number = ++to->context->peer_copies;
  if (to->context->failing_peer != 0 && number >= to->context->failing_peer)
    throw ApiError(StatusCode::kFailed, "sim: injected failure of a copy between devices");
  std::memcpy(target, source, bytes);
  if (to->context->damaged_peer != 0 && number >= to->context->damaged_peer) flip_bit(target, bytes);
}

Module* load_module(Context* context) { return new Module{context->wave, {}}; }
void unload_module(Module* module) { delete module; }
std::string module_description(const Module* module) { return fmt::format("host code, waves of {}", module->wave); }
uint32_t wave_size(const Context* context) { return context->wave; }

Function* find_function(Module* module, const char* name) {
  std::unique_ptr<Function>& known = module->functions[name];
  if (known == nullptr) {
    const sim::Registration* kernel = sim::find_kernel(name, module->wave);
    if (kernel == nullptr) return nullptr;
    known = std::make_unique<Function>(kernel);
  }
  return known.get();
}
// With GABBRO_SIM_COMPILER, a command to which the wave size, the source and the library to make are added; it has to
// link this plugin.
bool can_compile(Context*) { return std::getenv("GABBRO_SIM_COMPILER") != nullptr; }

Function* compile_function(Module* module, const std::string& name, const std::string& source) {
  if (Function* known = find_function(module, name.c_str())) return known;
  const std::string path =
      fmt::format("{}/{}_{}_{}", std::filesystem::temp_directory_path().string(), name, module->wave, ::getpid());
  std::ofstream(path + ".cc") << source;
  const std::string command = fmt::format("{} -DGABBRO_SIM_WAVE={} {}.cc -o {}.so", std::getenv("GABBRO_SIM_COMPILER"),
                                          module->wave, path, path);
  const bool compiled = std::system(command.c_str()) == 0;
  void* library = compiled ? ::dlopen((path + ".so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  for (const char* extension : {".cc", ".so"}) std::filesystem::remove(path + extension);
  if (library == nullptr)
    throw ApiError(StatusCode::kFailed, fmt::format("sim: compiling {}: {}", name, compiled ? ::dlerror() : command));
  return find_function(module, name.c_str());  // the library stays: its kernels are in the simulator's table
}

uint32_t block_threads(const Function* function) { return function->kernel->threads; }
uint32_t resident_blocks(const Function*) { return 2; }  // few, so that tests see blocks that take several shares

void launch(Queue* queue, const Function* function, Dim grid, const void* args, size_t) {
  Context& context = *queue->context;
  context.require_present();
  const uint64_t number = ++context.launches;
  if (context.lost_after != 0 && number > context.lost_after) {
    context.lost = true;
    context.require_present();
  }
  std::string error = number == context.failing_launch ? "injected failure of a launch" : "";
  {
    const std::lock_guard lock(context.mutex);
    if (!context.failure.empty()) return;
  }
  if (error.empty()) error = sim::run_grid(*function->kernel, grid, args, queue->cancel);
  if (const std::string overwritten = sim::find_overwritten(); error.empty() && !overwritten.empty()) {
    error = fmt::format("kernel {}: {}", function->kernel->name, overwritten);
  }
  if (error.empty()) return;
  const std::lock_guard lock(context.mutex);
  context.failure = "sim: " + error;
}

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
void multiply(Queue*, const Gemm* product, const GemmOperands& o) {
  if (product->library == "failing library") throw ApiError(StatusCode::kFailed, "sim: the library fails");
  const GemmShape& s = product->shape;
  const float alpha = product->library == "wrong library" ? 2 * s.alpha : s.alpha;
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

Convolution* make_convolution(Context*, const std::string& library, const ConvShape& shape, bool search) {
  if (library == "declining library" || library == "missing library") return nullptr;
  if (library == "searching library" && !search) return nullptr;
  return new Convolution{shape, library};
}
void destroy_convolution(Convolution* convolution) { delete convolution; }
size_t convolution_scratch(const Convolution*) { return 8; }

void convolve(Queue*, const Convolution* convolution, const void* x, const void* w, void* y, void* scratch) {
  if (convolution->library == "failing library") throw ApiError(StatusCode::kFailed, "sim: the library fails");
  const ConvShape& s = convolution->shape;
  const bool wrong = convolution->library == "wrong library";
  std::memset(scratch, 1, convolution_scratch(convolution));  // the caller must have allocated it
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

bool begin_capture(Queue*) { return false; }
Graph* end_capture(Queue*) { return nullptr; }
void replay(Queue*, Graph*) {}
void destroy_graph(Graph*) {}

}  // namespace gabbro::gpu::api
