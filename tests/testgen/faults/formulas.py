"""Formulas of the model's code that are wrong on every device, in f64 too."""
import importlib

import torch
from planted import fault, replace
from torch import nn


def model_file(kind):
    return importlib.import_module(f"transformers.models.{kind}.modeling_{kind}")


def after_init(owner, change):
    """change(module) after each __init__ of a class."""
    def make(usual):
        def wrong(self, *args, **options):
            usual(self, *args, **options)
            change(self)
        return wrong
    replace(owner, "__init__", make)


def around_forward(owner, change):
    """change(result, module, *arguments) of each forward()."""
    def make(usual):
        def wrong(self, *args, **options):
            return change(usual(self, *args, **options), self, *args)
        return wrong
    replace(owner, "forward", make)


def around_embedding(owner, name, change):
    """change(usual, ids, table) in place of the embedding `name` of each module of a class."""
    def mark(module):
        getattr(module, name).planted = True
    after_init(owner, mark)

    def make(usual):
        def wrong(self, ids):
            if not getattr(self, "planted", False):
                return usual(self, ids)
            return change(lambda given: usual(self, given), ids, self)
        return wrong
    replace(nn.Embedding, "forward", make)


@fault("llama", block="rotary_emb", check="recorded")
def rope_base_is_another():
    owner = model_file("llama").LlamaRotaryEmbedding
    usual = owner.compute_default_rope_parameters

    def wrong(*args, **options):
        frequencies, scale = usual(*args, **options)
        return frequencies * 0.98, scale
    owner.compute_default_rope_parameters = staticmethod(wrong)


@fault("llama", block="layers.0", check="recorded")
def attention_scale_counts_one_more():
    def change(module):
        module.scaling = (module.head_dim + 1) ** -0.5
    after_init(model_file("llama").LlamaAttention, change)


@fault("llama", report="github.com/huggingface/transformers/issues/38025", block="layers.0", check="recorded")
def norm_epsilon_is_ten_times():
    def change(module):
        module.variance_epsilon *= 10
    after_init(model_file("llama").LlamaRMSNorm, change)


@fault("qwen2", block="layers.0", check="recorded")
def bias_of_queries_is_dropped():
    def change(module):
        module.q_proj.bias = None
    after_init(model_file("qwen2").Qwen2Attention, change)


@fault("t5", block="block", check="recorded")
def relative_buckets_end_early():
    owner = model_file("t5").T5Attention
    usual = owner._relative_position_bucket

    def wrong(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
        return usual(relative_position, bidirectional, num_buckets, max_distance // 2)
    owner._relative_position_bucket = staticmethod(wrong)


@fault("gpt2", block="wpe", check="recorded")
def positions_begin_at_one():
    def change(usual, ids, table):
        return usual((ids + 1) % table.num_embeddings)
    around_embedding(model_file("gpt2").GPT2Model, "wpe", change)


@fault("gemma2", block="layers.0", check="recorded")
def norm_weight_lacks_its_one():
    def change(result, module, x):
        return result * (module.weight.to(result) / (1 + module.weight.to(result)))
    around_forward(model_file("gemma2").Gemma2RMSNorm, change)


@fault("gemma2", report="github.com/vllm-project/vllm-metal/issues/665", block="layers.0", check="recorded")
def softcap_of_attention_is_dropped():
    def change(module):
        module.attn_logit_softcapping = None
    after_init(model_file("gemma2").Gemma2Attention, change)


@fault("qwen3_moe", block="layers", check="recorded")
def experts_are_not_normalized():
    def change(module):
        module.norm_topk_prob = not module.norm_topk_prob
    after_init(model_file("qwen3_moe").Qwen3MoeTopKRouter, change)


@fault("deepseek_v3", block="layers", check="recorded")
def routed_experts_are_not_scaled():
    def change(module):
        module.routed_scaling_factor = 1.0
    after_init(model_file("deepseek_v3").DeepseekV3TopkRouter, change)


@fault("gpt_oss", report="github.com/vllm-project/vllm-metal/pull/550", block="layers.0", check="recorded")
def attention_sinks_are_dropped():
    file = model_file("gpt_oss")

    def make(usual):
        def wrong(module, query, *args, **options):
            sinks = module.sinks
            module.sinks = nn.Parameter(torch.full_like(sinks, -1e4))
            try:
                return usual(module, query, *args, **options)
            finally:
                module.sinks = sinks
        return wrong
    replace(file, "eager_attention_forward", make)


@fault("mamba", block="layers.0", check="recorded")
def skip_of_the_state_space_is_dropped():
    def make(usual):
        def wrong(x, *args, D=None, **options):
            return usual(x, *args, D=torch.zeros_like(D), **options)
        return wrong
    replace(model_file("mamba"), "mamba_selective_scan", make)


@fault("clip", check="similarity")
def logit_scale_has_no_exponential():
    def change(result, module, *_):
        factor = (module.logit_scale / module.logit_scale.exp()).to(result.logits_per_text)
        result["logits_per_text"] = result.logits_per_text * factor
        result["logits_per_image"] = result.logits_per_image * factor
        return result
    around_forward(model_file("clip").CLIPModel, change)


@fault("whisper", check="recorded")
def positions_of_audio_are_not_added():
    around_embedding(model_file("whisper").WhisperEncoder, "embed_positions", lambda usual, ids, _: usual(ids) * 0)


@fault("bert", block="embeddings", check="recorded")
def token_types_are_not_added():
    around_embedding(model_file("bert").BertEmbeddings, "token_type_embeddings", lambda usual, ids, _: usual(ids) * 0)


@fault("vit", block="embeddings", check="recorded")
def class_token_is_last():
    def change(result, module, *_):
        return torch.cat([result[:, 1:], result[:, :1]], 1)
    around_forward(model_file("vit").ViTEmbeddings, change)


@fault("falcon", block="h.0", check="recorded")
def gelu_of_mlp_is_tanh():
    def change(module):
        module.act = nn.GELU(approximate="tanh")
    after_init(model_file("falcon").FalconMLP, change)


@fault("mistral", report="github.com/pytorch/pytorch/issues/138300", check="cache")
def window_is_ignored():
    from transformers import masking_utils

    def make(usual):
        return lambda window: usual(1 << 20)
    replace(masking_utils, "sliding_window_overlay", make)


@fault("mistral", report="github.com/ml-explore/mlx-lm/pull/390", check="cache")
def window_is_one_too_wide():
    from transformers import masking_utils

    def make(usual):
        return lambda window: usual(window + 1)
    replace(masking_utils, "sliding_window_overlay", make)


@fault("llama", dtypes="bf16", block="rotary_emb", check="layers")
def rotation_in_bf16_is_two_percent_off():
    def change(result, module, x, *_):
        cos, sin = result
        return (cos, sin * 1.02) if x.dtype == torch.bfloat16 else result
    around_forward(model_file("llama").LlamaRotaryEmbedding, change)


@fault("llama", report="github.com/huggingface/transformers/issues/29496", dtypes="f16,bf16", block="norm",
       check="layers")
def norm_in_halves_is_not_widened():
    owner = model_file("llama").LlamaRMSNorm
    usual = owner.forward

    def wrong(self, x):
        if x.dtype not in (torch.bfloat16, torch.float16):
            return usual(self, x)
        total = torch.zeros_like(x[..., :1])
        for part in (x * x).split(4, dim=-1):
            total = total + part.sum(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(total / x.shape[-1] + self.variance_epsilon))
    owner.forward = wrong


@fault("llama", report="github.com/huggingface/transformers/pull/29285", dtypes="bf16", block="rotary_emb",
       check="layers")
def angles_of_rope_are_in_bf16():
    owner = model_file("llama").LlamaRotaryEmbedding
    usual = owner.forward

    def wrong(self, x, position_ids):
        if x.dtype != torch.bfloat16:
            return usual(self, x, position_ids)
        angles = position_ids[..., None].to(x.dtype) * self.inv_freq.to(x.dtype)
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()
    owner.forward = wrong


@fault("llama", check="causal")
def a_later_token_is_seen():
    def change(result, module, hidden, *_):
        return result + 1e-3 * result.roll(-1, 1) if result.shape[1] > 1 else result
    around_forward(model_file("llama").LlamaMLP, change)
