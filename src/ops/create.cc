// Tensors that come from no other tensor: of one number, of counted numbers, of given ones.
#include <cmath>

#include "src/backend/device.h"
#include "src/base/input_errors.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
// Element i is start + i·step.
const Op kIota = {
    .name = "iota",
    .infer =
        [](const Args& a) {
          return result(Shape{a.attributes.integer("count")}, static_cast<DType>(a.attributes.integer("dtype")));
        },
};

Tensor from_host(const DevicePointer& device, DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
  const auto elements = static_cast<size_t>(shape.elements());
  const bool whole_blocks = elements % dtype_info(dtype).block_elements == 0;
  if (!whole_blocks || bytes.size() != dtype_bytes(dtype, elements)) {
    throw bad_input("[tensor] {} bytes are not a {} tensor of shape {}", bytes.size(), dtype_name(dtype),
                    shape.to_string());
  }
  return device->upload(dtype, shape, bytes.data());
}

Tensor iota(const std::shared_ptr<Device>& device, int64_t count, DType dtype, double start, double step) {
  if (is_quantized(dtype)) throw bad_input("[iota] does not give {}", dtype_name(dtype));
  if (count < 0) throw bad_input("[iota] {} elements", count);
  return record(kIota, {}, {{"count", count}, {"dtype", static_cast<int64_t>(dtype)}, {"start", start}, {"step", step}},
                device);
}

Tensor full(const std::shared_ptr<Device>& device, const Shape& shape, const Number& number, DType dtype) {
  if (is_quantized(dtype)) throw bad_input("[full] does not give {}", dtype_name(dtype));
  const double real = dtype == DType::boolean ? (number.real() != 0 ? 1 : 0) : number.real();
  Attributes attributes{{"count", int64_t{1}}, {"dtype", static_cast<int64_t>(dtype)}, {"start", real}, {"step", 0.0}};
  if (dtype == DType::i64) attributes.set("start", number.integer());
  const Tensor one = record(kIota, {}, std::move(attributes), device);
  return shape.rank() == 0 ? reshape(one, shape) : broadcast_to(one, shape);
}

Tensor scalar(const std::shared_ptr<Device>& device, double value, DType dtype) {
  return iota(device, 1, dtype, value, 0);
}

namespace {

constexpr int64_t kMost = int64_t{1} << 48;  // elements of a shape

Tensor column_less_row(const DevicePointer& device, const char* op, int64_t rows, int64_t columns) {
  if (rows < 0 || columns < 0) throw bad_input("[{}] a matrix of {} rows and {} columns", op, rows, columns);
  return iota(device, columns, DType::i64) - reshape(iota(device, rows, DType::i64), Shape{rows, 1});
}

Tensor diagonal_at(const DevicePointer& device, int64_t diagonal) {
  return full(device, Shape{}, diagonal, DType::i64);
}

// The range of an integer dtype.
std::pair<int64_t, int64_t> range_of(DType dtype) {
  if (dtype == DType::u8) return {0, 255};
  const int bits = 8 * static_cast<int>(dtype_bytes(dtype, 1));
  return {bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1)),
          bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1};
}

// arange of integers: without a dtype i32, or i64 where an element does not fit.
Tensor whole_arange(const DevicePointer& device, int64_t start, int64_t stop, int64_t step,
                    std::optional<DType> dtype) {
  __extension__ using Wide = __int128;
  if (step == 0) throw bad_input("[arange] a step of 0");
  const Wide distance = step > 0 ? Wide{stop} - start : Wide{start} - stop,
             stride = step > 0 ? Wide{step} : -Wide{step};
  const Wide length = distance > 0 ? (distance - 1) / stride + 1 : 0;
  if (length > kMost) throw bad_input("[arange] from {} to {} in steps of {} are too many elements", start, stop, step);
  const auto count = static_cast<int64_t>(length);
  const int64_t last = count == 0 ? start : static_cast<int64_t>(start + (length - 1) * step);
  const auto fits = [&](DType type) {
    const auto [low, high] = range_of(type);
    return count == 0 || (std::min(start, last) >= low && std::max(start, last) <= high);
  };
  const DType type = dtype.value_or(fits(kDefaultInteger) ? kDefaultInteger : DType::i64);
  if (type == DType::boolean || is_quantized(type)) throw bad_input("[arange] does not give {}", dtype_name(type));
  if (is_integer(type) && !fits(type))
    throw overflow("[arange] elements from {} to {} do not fit in {}", start, last, dtype_name(type));
  if (type != DType::i64) return iota(device, count, type, static_cast<double>(start), static_cast<double>(step));
  // A step that no double holds is multiplied by.
  const Tensor number = iota(device, count, type);
  return number * full(device, Shape{}, step, type) + full(device, Shape{}, start, type);
}

}  // namespace

Tensor zeros(const DevicePointer& device, const Shape& shape, DType dtype) { return full(device, shape, 0, dtype); }
Tensor ones(const DevicePointer& device, const Shape& shape, DType dtype) { return full(device, shape, 1, dtype); }

Tensor full_like(const Tensor& x, const Number& number, std::optional<DType> dtype) {
  require_plain("full_like", x);
  return full(x.device(), x.shape(), number, dtype.value_or(x.dtype()));
}
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype) { return full_like(x, 0, dtype); }
Tensor ones_like(const Tensor& x, std::optional<DType> dtype) { return full_like(x, 1, dtype); }

Tensor arange(const DevicePointer& device, const Number& start, const Number& stop, const Number& step,
              std::optional<DType> dtype) {
  const bool whole = !start.is_real() && !stop.is_real() && !step.is_real();
  if (whole) return whole_arange(device, start.integer(), stop.integer(), step.integer(), dtype);
  const DType type = dtype.value_or(kDefaultFloat);
  if (type == DType::boolean || is_quantized(type)) throw bad_input("[arange] does not give {}", dtype_name(type));
  if (step.real() == 0) throw bad_input("[arange] a step of 0");
  if (type == DType::i64) throw bad_input("[arange] i64 has a whole start, stop and step");
  const double length = std::ceil((stop.real() - start.real()) / step.real());
  if (!(std::abs(length) <= static_cast<double>(kMost))) {
    throw bad_input("[arange] from {} to {} in steps of {} are too many elements", start.real(), stop.real(),
                    step.real());
  }
  const int64_t count = length > 0 ? static_cast<int64_t>(length) : 0;
  return iota(device, count, type, start.real(), step.real());
}

Tensor linspace(const DevicePointer& device, double start, double stop, int64_t count, bool endpoint, DType dtype) {
  if (count < 0) throw bad_input("[linspace] {} elements", count);
  const int64_t steps = endpoint ? count - 1 : count;
  const double step = steps > 0 ? (stop - start) / static_cast<double>(steps) : 0;
  if (dtype == DType::i64) return cast(linspace(device, start, stop, count, endpoint, DType::f32), dtype);
  const Tensor all = iota(device, count, dtype, start, step);
  if (!endpoint || count < 2) return all;
  // start + steps · step may miss the last one by a rounding error.
  return concat({slice(all, 0, 0, steps), full(device, Shape{1}, stop, dtype)}, 0);
}

Tensor eye(const DevicePointer& device, int64_t rows, int64_t columns, int64_t diagonal, DType dtype) {
  return cast(equal(column_less_row(device, "eye", rows, columns), diagonal_at(device, diagonal)), dtype);
}

Tensor tri(const DevicePointer& device, int64_t rows, int64_t columns, int64_t diagonal, DType dtype) {
  return cast(less_equal(column_less_row(device, "tri", rows, columns), diagonal_at(device, diagonal)), dtype);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, bool xy) {
  std::vector<int64_t> lengths;
  for (const Tensor& vector : vectors) {
    require_plain("meshgrid", vector);
    if (vector.shape().rank() > 1)
      throw bad_input("[meshgrid] wants vectors, not shape {}", vector.shape().to_string());
    lengths.push_back(vector.shape().elements());
  }
  const size_t count = vectors.size();
  const auto axis_of = [&](size_t i) { return xy && count > 1 && i < 2 ? 1 - i : i; };
  std::vector<int64_t> all(count);
  for (size_t i = 0; i < count; ++i) all[axis_of(i)] = lengths[i];
  const Shape shape(all);
  std::vector<Tensor> results;
  for (size_t i = 0; i < count; ++i) {
    std::vector<int64_t> own(count, 1);
    own[axis_of(i)] = lengths[i];
    results.push_back(broadcast_to(reshape(vectors[i], Shape(own)), shape));
  }
  return results;
}

}  // namespace gabbro
