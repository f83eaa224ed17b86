// The operations, as functions on lazy tensors. Each checks its arguments (bad_input "[op] ...") and records a node.
// Letters of shapes are those of docs/words.md. f32 unless said otherwise.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/graph/node.h"
#include "src/ops/axes.h"
#include "src/ops/promotion.h"

namespace gabbro {

// Creation, of any plain dtype; integers are held within their range, and an i64 has a whole start and step. More of it
// in arrays.h.
Tensor iota(const std::shared_ptr<Device>& device, int64_t count, DType dtype, double start = 0,
            double step = 1);                                                                  // [count]
Tensor scalar(const std::shared_ptr<Device>& device, double value, DType dtype = DType::f32);  // [1]
// `number` everywhere, without memory for each element.
Tensor full(const std::shared_ptr<Device>& device, const Shape& shape, const Number& number, DType dtype);

// Random numbers: Philox 4x32-10 (Salmon et al. 2011), functions of a key, so that equal keys give equal numbers, bit
// by bit, on every device. A key, i32 [6], is a tensor like any other: what is compiled with one key runs with all.
// Element i is made of word i % 4 of the generator's block number offset + i / 4; numbers of two streams have nothing
// in common.
Tensor random_key(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t offset = 0, uint64_t stream = 0);
Tensor random_bits(const Tensor& key, const Shape& shape);                         // i32: all 32 bits of a word
Tensor rand(const Tensor& key, const Shape& shape);                                // [0, 1), multiples of 2^-24
Tensor randn(const Tensor& key, const Shape& shape);                               // normal, by Box and Muller (1958)
Tensor randint(const Tensor& key, int64_t low, int64_t high, const Shape& shape);  // i32 in [low, high)

// Views: no element moves.
Tensor reshape(const Tensor& x, const Shape& shape);  // same number of elements
Tensor permute(const Tensor& x, std::vector<int> axes);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t length, int64_t step = 1);

// Elementwise. Floats give their own dtype (f16 and bf16 are computed in f32), integers and bool give f32.
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);  // e^x - 1
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);  // log(1 + x)
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor erf(const Tensor& x);
// Any number dtype, which is kept: integers are whole already. `round` rounds ties to even.
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);  // a NaN stays one
Tensor square(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);
Tensor trunc(const Tensor& x);
// To bool.
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

// Binary ones meet in one dtype (promotion.h) and broadcast as NumPy does. Integers wrap around. Of two bool, add and
// maximum are logical_or, mul and minimum logical_and. Comparisons give bool.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);  // a fraction, also of integers
// Rounded down, and what is left, with the sign of b; rounded toward zero. Of integers by zero: 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor trunc_divide(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, const Tensor& b);  // of integers: 0 for a negative power of anything but ±1
Tensor atan2(const Tensor& y, const Tensor& x);
Tensor hypot(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
// Integers and bool. A shift by a negative number of bits, or by all of them, leaves nothing but the sign.
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_not(const Tensor& x);
Tensor left_shift(const Tensor& a, const Tensor& b);  // not of bool
Tensor right_shift(const Tensor& a, const Tensor& b);
// Any dtype: nonzero is true.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
// min(max(x, low), high), so high where the bounds cross; a NaN stays one. Numbers become x's dtype.
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);
Tensor clamp(const Tensor& x, double low, double high);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor cast(const Tensor& x, DType dtype);  // floats to integers by truncation, held within their range (NaN: 0)
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, const Number& b) { return add(a, weak(a, b)); }
inline Tensor operator-(const Tensor& a, const Number& b) { return sub(a, weak(a, b)); }
inline Tensor operator*(const Tensor& a, const Number& b) { return mul(a, weak(a, b)); }
inline Tensor operator/(const Tensor& a, const Number& b) { return div(a, weak(a, b)); }

// Over axes: kAllAxes, one, or several; the result lacks them, or with kKeepDims has length 1 there. A NaN gives NaN.
Tensor sum(const Tensor& x, const Axes& axes, bool keepdims = false);  // of nothing 0
Tensor prod(const Tensor& x, const Axes& axes, bool keepdims = false);
Tensor mean(const Tensor& x, const Axes& axes, bool keepdims = false);
Tensor max(const Tensor& x, const Axes& axes, bool keepdims = false);  // of nothing: refused
Tensor min(const Tensor& x, const Axes& axes, bool keepdims = false);
// sum((x - mean)²) / (count - correction); NaN where count <= correction. PyTorch's correction is 1, NumPy's 0.
Tensor var(const Tensor& x, const Axes& axes, double correction = 1, bool keepdims = false);
Tensor std(const Tensor& x, const Axes& axes, double correction = 1, bool keepdims = false);
Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims = false);  // of nothing -infinity
Tensor any(const Tensor& x, const Axes& axes, bool keepdims = false);        // bool
Tensor all(const Tensor& x, const Axes& axes, bool keepdims = false);
// i32: the place of the first of equals, or of the first NaN, along an axis, or among all elements in row-major order.
Tensor argmax(const Tensor& x, std::optional<int64_t> axis, bool keepdims = false);
Tensor argmin(const Tensor& x, std::optional<int64_t> axis, bool keepdims = false);
// Sums up to each element along an axis: x's shape, in the dtype of sum.
Tensor cumsum(const Tensor& x, int64_t axis = -1);

// Along an axis, of any number or bool: stable; NaNs come after all numbers, so first where the largest do.
struct TopK {
  Tensor values;   // x's shape, with k along the axis
  Tensor indices;  // i32
};
Tensor sort(const Tensor& x, int64_t axis = -1, bool descending = false);
Tensor argsort(const Tensor& x, int64_t axis = -1, bool descending = false);    // i32
TopK topk(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true);  // the first k of sort

// [..., M, K] × [..., K, N] -> [..., M, N], with batch axes that broadcast; a vector is a row on the left and a column
// on the right, as in NumPy. Of any number; more products are in functions/tensor_products.h.
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor gather(const Tensor& x, const Tensor& indices);  // rows: x [R, ...], i32 [T] -> [T, ...]
Tensor concat(const std::vector<Tensor>& parts, int64_t axis);
// Elements by index along an axis, as torch.gather: indices of any integer dtype with x's other axes. Here and below,
// negative indices count from the end, and others out of range raise IndexError (pick.h).
Tensor take_along_axis(const Tensor& x, const Tensor& indices, int64_t axis = -1);
// x with values[..., k, ...] added where indices[..., k, ...] says along an axis; indices and values have one shape.
// And x [R, ...] with rows values [K, ...] added to rows indices [K]. Of f32, i32, and f16, bf16 by
// f32. Added in the order of k: the same bits every time.
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& values, int64_t axis = -1);
Tensor index_add(const Tensor& x, const Tensor& indices, const Tensor& values);
// x [..., M, N] with zeros above (below) the diagonal that begins at column `diagonal`.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
Tensor dequantize(const Tensor& weight);  // [N, K] of any block format -> f32

// Neural network.
Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x, bool approximate = false);  // x · Φ(x) by erf, or its approximation by tanh
Tensor silu(const Tensor& x);                            // x · sigmoid(x)
Tensor softmax(const Tensor& x, int64_t axis = -1);      // of any float; kernels know the last axis
Tensor log_softmax(const Tensor& x, int64_t axis = -1);
// [..., K], [N, K], [N]? -> [..., N] of x's dtype; f16 and bf16 are computed in f32.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
Tensor embedding(const Tensor& weight, const Tensor& ids);  // [V, C] of any dtype, integers [...] -> f32 [..., C]
Tensor rms_norm(const Tensor& x, const Tensor& weight, float epsilon);

// y = (x - mean) / sqrt(variance + epsilon) · weight + bias, of x in f32, f16 or bf16; computed in f32. weight and bias
// are of f32 or of x's dtype, and may be left out (undefined).
// layer_norm: over x's last axes, which are those of weight and bias; the last one where both are left out.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon);
// group_norm: x [N, C, ...], over C / groups channels together with all axes after; weight, bias [C].
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, float epsilon);
// batch_norm: x [N, C, ...] with given mean, variance, weight, bias [C].
struct BatchNorm {
  Tensor mean, variance, weight, bias;
  float epsilon = 1e-5f;
};
Tensor batch_norm(const Tensor& x, const BatchNorm& norm);
// The same with the moments of this batch, and the running ones moved toward them by `momentum` (the variance as
// var(x) with correction 1, as PyTorch has it).
struct TrainedBatchNorm {
  Tensor y, running_mean, running_variance;
};
TrainedBatchNorm batch_norm_training(const Tensor& x, const BatchNorm& running, float momentum);

// Images x [N, C, ...] with one, two or three spatial axes, of f32, f16 or bf16; computed in f32. Numbers for the axes
// are one for all of them, or one for each. What an op's window sees of x begins at o · stride - padding for output o,
// and goes on in steps of `dilation`; a window that does not fit in the padded x is refused.
struct ConvOptions {
  std::vector<int64_t> stride{1}, padding{0}, dilation{1};
  int64_t groups = 1;
};
// weight [O, C / groups, kernel...] of x's dtype, bias [O] of f32 or x's dtype, or none: y [N, O, ...].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
// weight [C, O / groups, kernel...]: what conv2d's gradient does. y's lengths are (in - 1) · stride - 2 · padding +
// dilation · (kernel - 1) + output_padding + 1.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {},
                        const std::vector<int64_t>& output_padding = {0});
// The elements of each window as columns: [N, C · kernel..., outputs]; elements outside x are `value`.
Tensor im2col(const Tensor& x, const std::vector<int64_t>& kernel, const ConvOptions& options = {}, double value = 0);

struct PoolOptions {
  std::vector<int64_t> kernel;
  std::vector<int64_t> stride{};  // none: the kernel's
  std::vector<int64_t> padding{0};
  std::vector<int64_t> dilation{1};
  bool counts_padding = true;  // avg_pool divides by all of the window's elements
};
Tensor max_pool1d(const Tensor& x, const PoolOptions& options);  // a NaN gives NaN
Tensor max_pool2d(const Tensor& x, const PoolOptions& options);
Tensor max_pool3d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool1d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool2d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool3d(const Tensor& x, const PoolOptions& options);

// x [N, C, H, W] to [N, C, height, width]. Adaptive: output o is the mean of inputs o · H / height, rounded down, to
// (o + 1) · H / height, rounded up. Nearest: input o · H / height, rounded down. Bilinear: as PyTorch's interpolate.
Tensor adaptive_avg_pool2d(const Tensor& x, int64_t height, int64_t width);
Tensor upsample_nearest2d(const Tensor& x, int64_t height, int64_t width);
Tensor upsample_bilinear2d(const Tensor& x, int64_t height, int64_t width, bool align_corners = false);

struct RopeOptions {
  bool interleaved = false;  // rotate pairs (2i, 2i+1); otherwise (i, i + R/2)
  float magnitude = 1;       // factor on cos and sin (YaRN's attention factor)
};
// Rotary embedding (Su et al. 2021) of x [T, H, D] at positions i32 [T]; inverse_frequencies [R/2], R <= D.
Tensor rope(const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, const RopeOptions& options);

// One layer of the paged KV cache (docs/fused_ops.md): the tensors are states, `kv_write` gives their next versions.
struct KvLayer {
  Tensor keys;          // [pages, G, D, P] f16 or i8
  Tensor values;        // [pages, G, P, D]
  Tensor key_scales;    // with i8: f16 [pages, G, D/32, P]
  Tensor value_scales;  // with i8: f16 [pages, G, P, D/32]
};

// Positions of the tokens of one step.
struct TokenPositions {
  Tensor positions;   // i32 [T], in their sequence
  Tensor sequence;    // i32 [T], row of the page table
  Tensor page_table;  // i32 [B, M]
};

KvLayer kv_write(const KvLayer& cache, const Tensor& k, const Tensor& v,
                 const TokenPositions& places);  // k, v [T, G, D]

struct AttentionOptions {
  float scale = 1;     // on the scores; usually 1/sqrt(D)
  int64_t window = 0;  // 0: all keys up to the token's own; else only the last `window`
  float softcap = 0;   // 0: none; else s -> softcap · tanh(s / softcap) (Gemma 2)
};
// Causal attention of q [T, H, D] over the cache (which already holds the keys of these tokens) -> [T, H, D].
Tensor attention(const Tensor& q, const KvLayer& cache, const TokenPositions& places, const AttentionOptions& options);

// Losses of f32, f16 or bf16 (computed in f32), as torch.nn.functional has them: one number (shape ()), or with kNone
// one for each element.
enum class Reduce { kNone, kMean, kSum };
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean);  // (x - target)²
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean);   // |x - target|
// -target · log x - (1 - target) · log(1 - x), logarithms not below -100.
Tensor bce_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean);
// target · (log target - x), 0 where target is 0; x holds logarithms.
Tensor kl_div(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean);
// -x[n, target[n]] of logarithms x [N, V] and target i32 [N]; targets of `ignored` count for nothing, nor in the mean.
Tensor nll_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean, int32_t ignored = -100);
// nll_loss of log_softmax(x).
Tensor cross_entropy(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean, int32_t ignored = -100);

}  // namespace gabbro
