"""The U-Net and the autoencoder of a small Stable Diffusion pipeline, with names as in the files of diffusers."""

from __future__ import annotations

import math

import numpy as np

import gabbro as gb
from gabbro import nn

F = nn.functional

UNET = {"channels": (64, 128, 160), "heads": (2, 4, 5), "groups": 32, "latent": 4, "resnets": 1}
VAE = {"channels": (32, 64, 64, 96), "groups": 16, "latent": 4, "resnets": 1}


def attention(q: gb.Tensor, k: gb.Tensor, v: gb.Tensor, heads: int, is_causal: bool = False) -> gb.Tensor:
    """[B, T, C] by [B, S, C] to [B, T, C]."""

    def split(x: gb.Tensor) -> gb.Tensor:
        return x.reshape(x.shape[0], x.shape[1], heads, -1).permute(0, 2, 1, 3)  # [B, H, T, D]

    y = F.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=is_causal)
    return y.permute(0, 2, 1, 3).reshape(q.shape)


class ResnetBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, groups: int, eps: float, time: int = 0) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, inputs, eps=eps)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        if time:
            self.time_emb_proj = nn.Linear(time, outputs)
        self.norm2 = nn.GroupNorm(groups, outputs, eps=eps)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        nn.init.zeros_(self.conv2.weight)  # each block starts as the identity
        self.has_shortcut = inputs != outputs
        if self.has_shortcut:
            self.conv_shortcut = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: gb.Tensor, time: gb.Tensor | None = None) -> gb.Tensor:
        h = self.conv1(F.silu(self.norm1(x)))
        if time is not None:
            h = h + self.time_emb_proj(time).reshape(x.shape[0], -1, 1, 1)
        h = self.conv2(F.silu(self.norm2(h)))
        return (self.conv_shortcut(x) if self.has_shortcut else x) + h


class Convolution(nn.Module):
    """A layer of one convolution, as samplers have them."""

    def __init__(self, channels: int, stride: int, padding: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=stride, padding=padding)


class Downsample(Convolution):
    def __init__(self, channels: int, is_padded_behind: bool = False) -> None:
        super().__init__(channels, 2, 0 if is_padded_behind else 1)
        self.is_padded_behind = is_padded_behind

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        return self.conv(F.pad(x, (0, 1, 0, 1)) if self.is_padded_behind else x)


class Upsample(Convolution):
    def __init__(self, channels: int) -> None:
        super().__init__(channels, 1)

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class Attention(nn.Module):
    def __init__(self, channels: int, context: int, heads: int, has_bias: bool = False, groups: int = 0) -> None:
        super().__init__()
        self.heads = heads
        if groups:
            self.group_norm = nn.GroupNorm(groups, channels, eps=1e-6)
        self.to_q = nn.Linear(channels, channels, bias=has_bias)
        self.to_k = nn.Linear(context, channels, bias=has_bias)
        self.to_v = nn.Linear(context, channels, bias=has_bias)
        self.to_out = nn.ModuleList([nn.Linear(channels, channels)])

    def forward(self, x: gb.Tensor, context: gb.Tensor | None = None) -> gb.Tensor:
        context = x if context is None else context
        return self.to_out[0](attention(self.to_q(x), self.to_k(context), self.to_v(context), self.heads))


class PixelAttention(Attention):
    """Attention of all pixels of a picture [N, C, H, W] to each other."""

    def forward(self, x: gb.Tensor, context: gb.Tensor | None = None) -> gb.Tensor:
        n, c, h, w = x.shape
        tokens = self.group_norm(x).reshape(n, c, h * w).permute(0, 2, 1)  # [N, HW, C]
        return x + super().forward(tokens).permute(0, 2, 1).reshape(x.shape)


class GatedProjection(nn.Module):
    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(channels, 2 * width)

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        value, gate = gb.chunk(self.proj(x), 2, dim=-1)
        return value * F.gelu(gate)


class FeedForward(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.net = nn.ModuleList(
            [GatedProjection(channels, 4 * channels), nn.Identity(), nn.Linear(4 * channels, channels)]
        )

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        return self.net[2](self.net[0](x))


class TransformerBlock(nn.Module):
    def __init__(self, channels: int, context: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels)
        self.attn1 = Attention(channels, channels, heads)
        self.norm2 = nn.LayerNorm(channels)
        self.attn2 = Attention(channels, context, heads)
        self.norm3 = nn.LayerNorm(channels)
        self.ff = FeedForward(channels)

    def forward(self, x: gb.Tensor, context: gb.Tensor) -> gb.Tensor:
        x = x + self.attn1(self.norm1(x))
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class SpatialTransformer(nn.Module):
    def __init__(self, channels: int, context: int, heads: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels, eps=1e-6)
        self.proj_in = nn.Linear(channels, channels)
        self.transformer_blocks = nn.ModuleList([TransformerBlock(channels, context, heads)])
        self.proj_out = nn.Linear(channels, channels)
        nn.init.zeros_(self.proj_out.weight)

    def forward(self, x: gb.Tensor, context: gb.Tensor) -> gb.Tensor:
        n, c, h, w = x.shape
        tokens = self.proj_in(self.norm(x).reshape(n, c, h * w).permute(0, 2, 1))  # [N, HW, C]
        tokens = self.proj_out(self.transformer_blocks[0](tokens, context))
        return x + tokens.permute(0, 2, 1).reshape(x.shape)


class Level(nn.Module):
    """The blocks of one resolution; samplers and attentions only where they are given."""

    def __init__(
        self, resnets: list[nn.Module], attentions: list[nn.Module], sampler: tuple[str, nn.Module] | None
    ) -> None:
        super().__init__()
        self.resnets = nn.ModuleList(resnets)
        self.has_attention = bool(attentions)
        if attentions:
            self.attentions = nn.ModuleList(attentions)
        self.sampler = "" if sampler is None else sampler[0]
        if sampler is not None:
            setattr(self, sampler[0], nn.ModuleList([sampler[1]]))

    def sample(self, x: gb.Tensor) -> gb.Tensor:
        return getattr(self, self.sampler)[0](x) if self.sampler else x


class TimeEmbedding(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(inputs, outputs)
        self.linear_2 = nn.Linear(outputs, outputs)

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        return self.linear_2(F.silu(self.linear_1(x)))


class UNet(nn.Module):
    """Latents [N, 4, H, W], timesteps [N] and states of a text [N, T, C] to a prediction like the latents."""

    def __init__(self, context: int) -> None:
        super().__init__()
        channels, heads, groups, count = UNET["channels"], UNET["heads"], UNET["groups"], UNET["resnets"]
        time, last = 4 * channels[0], len(channels) - 1
        self.frequencies = np.exp(-math.log(10000) * np.arange(channels[0] // 2) / (channels[0] // 2)).astype(
            np.float32
        )
        self.conv_in = nn.Conv2d(UNET["latent"], channels[0], 3, padding=1)
        self.time_embedding = TimeEmbedding(channels[0], time)

        def level(inputs: list[int], i: int, sampler: tuple[str, nn.Module] | None) -> Level:
            resnets = [ResnetBlock(width, channels[i], groups, 1e-5, time) for width in inputs]
            attentions = [SpatialTransformer(channels[i], context, heads[i], groups) for _ in inputs if i != last]
            return Level(resnets, attentions, sampler)

        widths, down, up = [channels[0]], [], []  # widths: of what the way up gets
        for i, width in enumerate(channels):
            sampler = ("downsamplers", Downsample(width)) if i != last else None
            down.append(level([widths[-1]] + [width] * (count - 1), i, sampler))
            widths += [width] * (count + (i != last))
        self.down_blocks = nn.ModuleList(down)
        self.mid_block = Level(
            [ResnetBlock(channels[last], channels[last], groups, 1e-5, time) for _ in range(2)],
            [SpatialTransformer(channels[last], context, heads[last], groups)],
            None,
        )
        current = channels[last]
        for i in range(last, -1, -1):
            inputs = []
            for _ in range(count + 1):
                inputs.append(current + widths.pop())
                current = channels[i]
            up.append(level(inputs, i, ("upsamplers", Upsample(current)) if i else None))
        self.up_blocks = nn.ModuleList(up)
        self.conv_norm_out = nn.GroupNorm(groups, channels[0], eps=1e-5)
        self.conv_out = nn.Conv2d(channels[0], UNET["latent"], 3, padding=1)

    def forward(self, x: gb.Tensor, timesteps: gb.Tensor, context: gb.Tensor) -> gb.Tensor:
        angles = timesteps.reshape(-1, 1) * gb.tensor(self.frequencies, device=x.device)  # [N, C / 2]
        time = F.silu(self.time_embedding(gb.cat([gb.cos(angles), gb.sin(angles)], dim=-1)))
        x = self.conv_in(x)
        seen = [x]
        for level in self.down_blocks:
            for i, resnet in enumerate(level.resnets):
                x = resnet(x, time)
                if level.has_attention:
                    x = level.attentions[i](x, context)
                seen.append(x)
            if level.sampler:
                x = level.sample(x)
                seen.append(x)
        x = self.mid_block.resnets[0](x, time)
        x = self.mid_block.attentions[0](x, context)
        x = self.mid_block.resnets[1](x, time)
        for level in self.up_blocks:
            for i, resnet in enumerate(level.resnets):
                x = resnet(gb.cat([x, seen.pop()], dim=1), time)
                if level.has_attention:
                    x = level.attentions[i](x, context)
            x = level.sample(x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))


class Coder(nn.Module):
    """What encoder and decoder of the autoencoder share: the middle block and the last layers."""

    def __init__(self, inputs: int, first: int, last: int, outputs: int) -> None:
        super().__init__()
        channels, groups = VAE["channels"], VAE["groups"]
        self.conv_in = nn.Conv2d(inputs, first, 3, padding=1)
        self.mid_block = Level(
            [ResnetBlock(channels[-1], channels[-1], groups, 1e-6) for _ in range(2)],
            [PixelAttention(channels[-1], channels[-1], 1, has_bias=True, groups=groups)],
            None,
        )
        self.conv_norm_out = nn.GroupNorm(groups, last, eps=1e-6)
        self.conv_out = nn.Conv2d(last, outputs, 3, padding=1)

    def middle(self, x: gb.Tensor) -> gb.Tensor:
        return self.mid_block.resnets[1](self.mid_block.attentions[0](self.mid_block.resnets[0](x)))

    def levels(self, x: gb.Tensor, levels: nn.ModuleList) -> gb.Tensor:
        for level in levels:
            for resnet in level.resnets:
                x = resnet(x)
            x = level.sample(x)
        return x


class Encoder(Coder):
    def __init__(self) -> None:
        channels, groups = VAE["channels"], VAE["groups"]
        super().__init__(3, channels[0], channels[-1], 2 * VAE["latent"])
        blocks, current = [], channels[0]
        for i, width in enumerate(channels):
            resnets = [
                ResnetBlock(current, width, groups, 1e-6) for current in [current] + [width] * (VAE["resnets"] - 1)
            ]
            is_last = i == len(channels) - 1
            blocks.append(Level(resnets, [], None if is_last else ("downsamplers", Downsample(width, True))))
            current = width
        self.down_blocks = nn.ModuleList(blocks)

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        x = self.middle(self.levels(self.conv_in(x), self.down_blocks))
        return self.conv_out(F.silu(self.conv_norm_out(x)))


class Decoder(Coder):
    def __init__(self) -> None:
        channels, groups = VAE["channels"][::-1], VAE["groups"]
        super().__init__(VAE["latent"], channels[0], channels[-1], 3)
        blocks, current = [], channels[0]
        for i, width in enumerate(channels):
            resnets = [ResnetBlock(current, width, groups, 1e-6) for current in [current] + [width] * VAE["resnets"]]
            blocks.append(Level(resnets, [], None if i == len(channels) - 1 else ("upsamplers", Upsample(width))))
            current = width
        self.up_blocks = nn.ModuleList(blocks)

    def forward(self, x: gb.Tensor) -> gb.Tensor:
        x = self.levels(self.middle(self.conv_in(x)), self.up_blocks)
        return self.conv_out(F.silu(self.conv_norm_out(x)))


class Autoencoder(nn.Module):
    """Pictures [N, 3, H, W] from -1 to 1 to latents [N, 4, H / 8, W / 8] and back."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()
        self.quant_conv = nn.Conv2d(2 * VAE["latent"], 2 * VAE["latent"], 1)
        self.post_quant_conv = nn.Conv2d(VAE["latent"], VAE["latent"], 1)

    def encode(self, pictures: gb.Tensor) -> gb.Tensor:
        """The means of the latents."""
        return self.quant_conv(self.encoder(pictures))[:, : VAE["latent"]]

    def decode(self, latents: gb.Tensor) -> gb.Tensor:
        return self.decoder(self.post_quant_conv(latents))

    def normalize(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        """Makes latents of this mean and deviation, both [4], ones of mean 0 and deviation 1."""
        weight, bias = self.quant_conv.weight.numpy().copy(), self.quant_conv.bias.numpy().copy()
        count = VAE["latent"]
        weight[:count] /= deviation[:, None, None, None]
        bias[:count] = (bias[:count] - mean) / deviation
        weight[count:], bias[count:] = 0, -8  # logarithm of the variance: next to none
        back, shift = self.post_quant_conv.weight.numpy().copy(), self.post_quant_conv.bias.numpy().copy()
        shift += back[:, :, 0, 0] @ mean
        back *= deviation[None, :, None, None]
        state = {
            "quant_conv.weight": weight,
            "quant_conv.bias": bias,
            "post_quant_conv.weight": back,
            "post_quant_conv.bias": shift,
        }
        self.load_state_dict({name: gb.tensor(value) for name, value in state.items()}, strict=False)
