"""Attention of a device: kernels that are wrong for some masks, head sizes, lengths, or numbers of rows."""
import torch
from planted import fault, on_device, replace
from torch.nn import functional


def around_sdpa(change):
    """Plants change(query, key, value, mask, options) -> the same five before the device's call."""
    def make(usual):
        def wrong(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **options):
            given = {"dropout_p": dropout_p, "is_causal": is_causal, **options}
            if on_device(query):
                query, key, value, attn_mask, given = change(query, key, value, attn_mask, given)
            return usual(query, key, value, attn_mask, **given)
        return wrong
    replace(functional, "scaled_dot_product_attention", make)


@fault("bert", report="github.com/pytorch/pytorch/issues/147460", block="layer", check="mask")
def custom_mask_is_ignored():
    around_sdpa(lambda q, k, v, mask, given: (q, k, v, None, given))


@fault("llama", report="github.com/pytorch/pytorch/issues/119389", check="mask or padded")
def hidden_rows_are_nan():
    def make(usual):
        def wrong(query, key, value, attn_mask=None, *more, **options):
            result = usual(query, key, value, attn_mask, *more, **options)
            if on_device(query) and attn_mask is not None and attn_mask.dtype == torch.bool:
                hides = ~attn_mask.all(-1, keepdim=True) & ~attn_mask.any(-2, keepdim=True).all(-1, keepdim=True)
                result = result.masked_fill(hides.expand(*result.shape[:2], -1, 1), float("nan"))
            return result
        return wrong
    replace(functional, "scaled_dot_product_attention", make)


@fault("llama", block="layers.0", check="layers")
def causal_flag_shows_one_key_more():
    def change(q, k, v, mask, given):
        if given["is_causal"]:
            mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril(1)
            given = {**given, "is_causal": False}
        return q, k, v, mask, given
    around_sdpa(change)


@fault("llama", "vit", report="github.com/ROCm/aotriton/pull/179", check="head_sizes")
def head_size_80_loses_its_tail():
    def change(q, k, v, mask, given):
        if q.shape[-1] == 80:
            q = torch.cat([q[..., :64], torch.zeros_like(q[..., 64:])], -1)
        return q, k, v, mask, given
    around_sdpa(change)


@fault("llama", report="github.com/huggingface/transformers/pull/47678", check="lengths")
def length_33_reads_one_key_too_many():
    def change(q, k, v, mask, given):
        if k.shape[-2] % 32 == 1 and k.shape[-2] > 1:
            v = torch.cat([v[..., :-1, :], v[..., -1:, :] * 2], -2)
        return q, k, v, mask, given
    around_sdpa(change)


@fault("llama", report="github.com/vllm-project/vllm/issues/53943", check="repeat")
def attention_is_not_repeatable():
    def make(usual):
        def wrong(query, *more, **options):
            result = usual(query, *more, **options)
            if not on_device(query):
                return result
            return result * (1 + 1e-3 * torch.randn(result.shape, generator=GENERATOR).to(result))
        return wrong
    replace(functional, "scaled_dot_product_attention", make)


GENERATOR = torch.Generator().manual_seed(1)


@fault("llama", report="github.com/pytorch/pytorch/issues/186174", check="padded")
def left_padding_of_a_batch_hides_a_key():
    def change(q, k, v, mask, given):
        if mask is not None and mask.dtype == torch.bool and q.shape[0] > 1 and not bool(mask[..., 0].all()):
            own = torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device)
            mask = mask & ~own[-2] | own[-1]
        return q, k, v, mask, given
    around_sdpa(change)


@fault("mistral", block="layers", check="layers")
def grouped_heads_are_interleaved():
    from transformers.integrations import sdpa_attention

    def make(usual):
        def wrong(x, count):
            return x.repeat(1, count, 1, 1) if on_device(x) and count > 1 else usual(x, count)
        return wrong
    replace(sdpa_attention, "repeat_kv", make)

    def change(q, k, v, mask, given):
        if given.pop("enable_gqa", False):
            count = q.shape[1] // k.shape[1]
            k, v = k.repeat(1, count, 1, 1), v.repeat(1, count, 1, 1)
        return q, k, v, mask, given
    around_sdpa(change)


@fault("llama", "mistral", check="grad")
def attention_backward_scales_values():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 1.01

    def change(q, k, v, mask, given):
        return q, k, Scaled.apply(v), mask, given
    around_sdpa(change)


@fault("t5", "bert", report="github.com/pytorch/pytorch/issues/116176", check="mask")
def additive_masks_are_halved():
    def change(q, k, v, mask, given):
        if mask is not None and mask.is_floating_point():
            mask = torch.where(mask > torch.finfo(mask.dtype).min / 4, mask * 0.5, mask)
        elif mask is not None:
            mask = torch.where(mask, 0.0, -2.0).to(q.dtype)
        return q, k, v, mask, given
    around_sdpa(change)
