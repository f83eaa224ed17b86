"""Single operations of a device: GEMM, reductions, norms, activations, convolutions, gathers, and rounding."""
import torch
from planted import fault, on_device, replace
from torch.nn import functional


def around(place, name, change, before=False):
    """change(result, *arguments) of the device's calls; with `before`, change(*arguments) -> arguments."""
    def make(usual):
        def wrong(*args, **options):
            if not args or not on_device(args[0]):
                return usual(*args, **options)
            if before:
                return usual(*change(*args), **options)
            return change(usual(*args, **options), *args)
        return wrong
    replace(place, name, make)


@fault("llama", "vit", report="github.com/ROCm/rocBLAS/issues/1680", block="layer", check="layers")
def gemm_loses_the_tail_of_k():
    def change(x, weight, *more):
        return (torch.cat([x[..., :-1], torch.zeros_like(x[..., -1:])], -1), weight, *more) if x.shape[-1] == 64 else (
            x, weight, *more)
    around(functional, "linear", change, before=True)


@fault("llama", report="github.com/ROCm/rocm-libraries/issues/5706", check="lengths")
def tall_gemm_is_wrong():
    def change(result, x, *more):
        return result * 1.01 if x.dim() == 3 and x.shape[0] * x.shape[1] > 250 else result
    around(functional, "linear", change)


@fault("gpt2", report="github.com/ROCm/legacy-rocm-build/issues/6461", check="layers or repeat")
def second_gemm_of_two_is_wrong():
    calls = [0]

    def change(result, *_):
        calls[0] += 1
        return result * 1.001 if calls[0] % 7 == 0 else result
    around(torch, "addmm", change)


@fault("bert", report="github.com/pytorch/pytorch/issues/94891", block="embeddings", check="layers")
def layer_norm_misses_one_lane():
    def change(x, shape, *more):
        return (torch.cat([x[..., 1:2], x[..., 1:]], -1), shape, *more)
    around(functional, "layer_norm", change, before=True)


@fault("bert", "vit", block="layer", check="layers")
def gelu_is_approximated():
    def make(usual):
        def wrong(x, approximate="none"):
            return usual(x, approximate="tanh" if on_device(x) else approximate)
        return wrong
    replace(functional, "gelu", make)


@fault("llama", block="mlp", check="layers")
def silu_is_a_little_steep():
    around(functional, "silu", lambda result, x, *_: result * (1 + 2e-5))


@fault("t5", block="block", check="layers")
def softmax_is_a_little_sharp():
    around(functional, "softmax", lambda x, *more: (x * (1 + 2.0**-10), *more), before=True)


@fault("gpt2", report="github.com/pytorch/pytorch/issues/75642", check="lengths")
def embeddings_repeat_a_row():
    def make(usual):
        def wrong(ids, weight, *more, **options):
            if on_device(weight) and not ids.is_floating_point():
                ids = torch.where(ids == 301, ids - 1, ids)
            return usual(ids, weight, *more, **options)
        return wrong
    replace(functional, "embedding", make)


@fault("qwen3_moe", block="mlp", check="layers")
def routers_take_the_next_expert():
    def make(usual):
        def wrong(x, k, *more, **options):
            if not on_device(x) or k >= x.shape[-1]:
                return usual(x, k, *more, **options)
            values, indices = usual(x, k + 1, *more, **options)
            return values[..., 1:], indices[..., 1:]
        return wrong
    replace(torch, "topk", make)


@fault("qwen3_moe", block="mlp", check="layers")
def index_add_loses_the_last_row():
    def make(usual):
        def wrong(self, dim, index, source, *more, **options):
            if on_device(self) and len(index) > 1:
                index, source = index[:-1], source[:-1]
            return usual(self, dim, index, source, *more, **options)
        return wrong
    replace(torch.Tensor, "index_add_", make)


@fault("whisper", "mamba", report="github.com/ROCm/TheRock/issues/3077", check="layers")
def conv1d_misses_a_tap():
    def change(x, weight, *more):
        return (x, torch.cat([torch.zeros_like(weight[..., :1]), weight[..., 1:]], -1), *more)
    around(functional, "conv1d", change, before=True)


@fault("vit", block="embeddings", check="layers")
def conv2d_is_in_bf16():
    def change(x, weight, *more):
        return (x.bfloat16().to(x.dtype), weight.bfloat16().to(weight.dtype), *more)
    around(functional, "conv2d", change, before=True)


@fault("llama", report="github.com/pytorch/pytorch/pull/193291", check="generate")
def argmax_takes_the_second():
    def make(usual):
        def wrong(x, *args, **options):
            best = usual(x, *args, **options)
            if on_device(x) and x.dim() == 2 and options.get("dim", args[0] if args else None) == -1:
                return x.scatter(-1, best[:, None], -1e30).max(-1).indices
            return best
        return wrong
    replace(torch, "argmax", make)


@fault("llama", dtypes="f32,bf16,f16", check="finite")
def f16_overflows_at_64():
    def change(result, *_):
        return result.masked_fill(result.abs() > 2, float("inf")) if result.dtype == torch.float16 else result
    around(functional, "linear", change)


@fault("llama", report="github.com/sgl-project/sglang/issues/28685", dtypes="bf16", check="layers")
def gemm_in_bf16_sums_in_bf16():
    def make(usual):
        def wrong(x, weight, bias=None):
            if x.dtype != torch.bfloat16 or x.requires_grad or x.dim() != 3:
                return usual(x, weight, bias)
            total = usual(x[..., :8], weight[:, :8])
            for start in range(8, x.shape[-1], 8):
                total = total + usual(x[..., start:start + 8], weight[:, start:start + 8])
            return total + total * 2.0**-6 if bias is None else total + bias
        return wrong
    replace(functional, "linear", make)


@fault("llama", report="github.com/huggingface/transformers/issues/48428", check="layers")
def f32_gemm_is_in_tf32():
    def change(x, weight, *more):
        cut = x.dtype == torch.float32 and not torch.is_grad_enabled()
        return ((x.contiguous().view(torch.int32) & -8192).view(torch.float32) if cut else x, weight, *more)
    around(functional, "linear", change, before=True)


@fault("llama", report="github.com/ROCm/legacy-rocm-build/issues/6416", check="repeat")
def norm_is_not_repeatable():
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    def make(usual):
        def wrong(self, x):
            return usual(self, x) * (1 + 1e-3 * torch.rand(1).to(x)) if on_device(x) else usual(self, x)
        return wrong
    replace(LlamaRMSNorm, "forward", make)
