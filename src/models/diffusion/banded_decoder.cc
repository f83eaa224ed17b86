#include "src/models/diffusion/banded_decoder.h"

#include <algorithm>
#include <functional>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/image.h"
#include "gabbro/ops/products.h"
#include "gabbro/ops/shapes.h"
#include "src/models/diffusion/row_store.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {
namespace {

class BandedDecoder {
 public:
  BandedDecoder(const Autoencoder& autoencoder, const BandOptions& options)
      : autoencoder_(autoencoder), groups_(autoencoder.config().groups), options_(options) {}

  Tensor decode(const Tensor& latent) const {
    const AutoencoderDecoder& decoder = autoencoder_.decoder();
    RowStore x = middle((*decoder.conv_in)(autoencoder_.after_quantization(latent)), *decoder.mid_block);
    for (const auto& stage : *decoder.up_blocks) {
      for (const auto& block : *stage->resnets) x = resnet(std::move(x), *block);
      if (stage->upsamplers != nullptr) x = upsample(std::move(x), *(*stage->upsamplers)[0].conv);
    }
    const RowStore::Affine norm = x.normalization(*decoder.conv_norm_out);
    std::vector<Tensor> bands;
    for_bands(x, [&](int64_t from, int64_t to) {
      bands.push_back(convolve(normalized(x, norm, from, to), *decoder.conv_out));
      eval(std::span(&bands.back(), 1), options_.cancel);
      x.drop_before(to - 1);
    });
    Tensor picture = concat(bands, 2);  // [1, 3, H, W]
    eval(std::span(&picture, 1), options_.cancel);
    return picture;
  }

 private:
  RowStore store(const Shape& shape) const { return {shape, groups_, options_.cancel}; }
  static Shape with_channels(const RowStore& x, int64_t channels) { return {1, channels, x.height(), x.width()}; }

  // Calls with the first row of each band, and the row after it.
  void for_bands(const RowStore& x, const std::function<void(int64_t from, int64_t to)>& call) const {
    const int64_t rows = std::clamp<int64_t>(options_.elements / (x.channels() * x.width()), 1, x.height());
    for (int64_t from = 0; from < x.height(); from += rows) call(from, std::min(from + rows, x.height()));
  }

  // Zeros above the first and below the last row of the picture.
  static Tensor padded(const Tensor& rows, bool top, bool bottom) {
    if (!top && !bottom) return rows;
    return pad(rows, {{0, 0}, {0, 0}, {top ? 1 : 0, bottom ? 1 : 0}, {0, 0}});
  }

  // A convolution of 3 x 3 over rows that have those next to them: two rows fewer.
  static Tensor convolve(const Tensor& rows, const nn::Conv2d& conv) {
    return conv2d(rows, conv.weight, conv.bias, {.padding = {0, 1}});
  }

  // silu(norm(x)) of the rows and of those next to them.
  static Tensor normalized(const RowStore& x, const RowStore::Affine& norm, int64_t from, int64_t to) {
    const Tensor rows = x.read(std::max<int64_t>(from - 1, 0), std::min(to + 1, x.height()));
    return padded(silu(rows * norm.scale + norm.shift), from == 0, to == x.height());
  }

  RowStore resnet(RowStore x, const ResnetBlock& block) const {
    const int64_t channels = block.conv1->options().out_channels;
    const RowStore::Affine norm1 = x.normalization(*block.norm1);
    RowStore h = store(with_channels(x, channels)), shortcut = store(with_channels(x, channels));
    for_bands(x, [&](int64_t from, int64_t to) {
      h.append(convolve(normalized(x, norm1, from, to), *block.conv1));
      if (block.conv_shortcut == nullptr) return;
      shortcut.append(conv2d(x.read(from, to), block.conv_shortcut->weight, block.conv_shortcut->bias));
      x.drop_before(to - 1);
    });
    if (block.conv_shortcut == nullptr) shortcut = std::move(x);
    const RowStore::Affine norm2 = h.normalization(*block.norm2);
    RowStore y = store(with_channels(h, channels));
    for_bands(h, [&](int64_t from, int64_t to) {
      y.append(shortcut.read(from, to) + convolve(normalized(h, norm2, from, to), *block.conv2));
      h.drop_before(to - 1);
      shortcut.drop_before(to);
    });
    return y;
  }

  // To twice the sides.
  RowStore upsample(RowStore x, const nn::Conv2d& conv) const {
    RowStore y = store({1, conv.options().out_channels, 2 * x.height(), 2 * x.width()});
    for_bands(y, [&](int64_t from, int64_t to) {
      const int64_t above = std::max<int64_t>(from - 1, 0), below = std::min(to + 1, y.height());
      const int64_t first = above / 2, last = (below + 1) / 2;
      const Tensor rows = upsample_nearest2d(x.read(first, last), 2 * (last - first), y.width());
      const Tensor used = slice(rows, 2, above - 2 * first, below - above);
      y.append(convolve(padded(used, from == 0, to == y.height()), conv));
      x.drop_before((to - 1) / 2);
    });
    return y;
  }

  // At the latent's size, where activations are small but the scores of attention are not.
  RowStore middle(Tensor x, const AutoencoderMiddle& block) const {
    x = (*block.resnets)[0](x, {});
    if (block.attentions != nullptr) x = attention((*block.attentions)[0], x);
    x = (*block.resnets)[1](x, {});
    RowStore rows = store(x.shape());
    rows.append(x);
    return rows;
  }

  Tensor attention(const PixelAttention& block, const Tensor& x) const {
    PixelAttention::Heads heads = block.heads(x);  // [1, 1, L, C]
    Tensor parts[] = {x, heads.q, heads.k, heads.v};
    eval(parts, options_.cancel);
    const int64_t pixels = heads.q.shape()[2], step = std::clamp<int64_t>(options_.elements / pixels, 1, pixels);
    std::vector<Tensor> mixed;
    for (int64_t first = 0; first < pixels; first += step) {
      const Tensor q = slice(heads.q, 2, first, std::min(step, pixels - first));
      mixed.push_back(scaled_dot_product_attention(q, heads.k, heads.v, {.whole = true}));
      eval(std::span(&mixed.back(), 1), options_.cancel);
    }
    return block.add(x, concat(mixed, 2));
  }

  const Autoencoder& autoencoder_;
  const int64_t groups_;
  const BandOptions options_;
};

}  // namespace

Tensor decode_in_bands(const Autoencoder& autoencoder, const Tensor& latent, const BandOptions& options) {
  return BandedDecoder(autoencoder, options).decode(latent);
}

}  // namespace gabbro::diffusion
