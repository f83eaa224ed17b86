#!/usr/bin/env python3
"""Writes tests/data/families: a tiny random model of each family as transformers saves it, and its logits.

A folder has config.json and model.safetensors (bf16), and expected.safetensors: `ids` i32 [T] and `logits` f32 [T, V],
computed in float32 with keys and values rounded to f16, as Gabbro's cache holds them. Needs torch and transformers.
Usage: make_family_fixtures.py [NAME...]
"""
import json
import pathlib
import shutil
import sys
import zlib

import torch
import transformers
from safetensors.torch import load_file, save_file

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "families"
TOKENS = 28
VOCABULARY = 96
COMMON = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)

# Folder, configuration class and what differs from COMMON (None removes a field, "null" is None).
FAMILIES = {
    "llama": ("LlamaConfig", dict(rope_theta=5000.0)),
    "mistral": ("MistralConfig", dict(sliding_window=8, head_dim=16)),
    "qwen2": ("Qwen2Config", dict(tie_word_embeddings=True)),
    "qwen3": ("Qwen3Config", dict(head_dim=16)),
    "gemma": ("GemmaConfig", dict(head_dim=16)),
    "gemma2": ("Gemma2Config", dict(head_dim=16, query_pre_attn_scalar=24, sliding_window=8, num_hidden_layers=4)),
    "gemma3": ("Gemma3TextConfig", dict(head_dim=16, query_pre_attn_scalar=24, sliding_window=8, num_hidden_layers=7)),
    "gemma3n": ("Gemma3nTextConfig", dict(
        head_dim=8, num_hidden_layers=4, intermediate_size=24, sliding_window=8, num_kv_shared_layers=2,
        layer_types=["sliding_attention", "full_attention"] * 2, activation_sparsity_pattern=[0.75, 0.5, 0.0, 0.0],
        altup_active_idx=1, altup_num_inputs=3, hidden_size_per_layer_input=8, vocab_size_per_layer_input=90,
        laurel_rank=4)),
    "phi": ("PhiConfig", dict(num_key_value_heads=4, partial_rotary_factor=0.5)),
    "phi3": ("Phi3Config", dict()),
    "gpt2": ("GPT2Config", dict(n_embd=32, n_layer=3, n_head=4, n_positions=256, hidden_size=None,
                                intermediate_size=None, num_hidden_layers=None, num_attention_heads=None,
                                num_key_value_heads=None, max_position_embeddings=None)),
    "gpt_neox": ("GPTNeoXConfig", dict(num_key_value_heads=None, rotary_pct=0.5)),
    "falcon": ("FalconConfig", dict(num_key_value_heads=None, intermediate_size=None, num_kv_heads=2,
                                    new_decoder_architecture=True, bias=False, alibi=False)),
    "falcon_multi_query": ("FalconConfig", dict(num_key_value_heads=None, intermediate_size=None, multi_query=True,
                                                parallel_attn=True, new_decoder_architecture=False, bias=False,
                                                alibi=False)),
    "falcon_rw": ("FalconConfig", dict(num_key_value_heads=None, intermediate_size=None, multi_query=False, alibi=True,
                                       parallel_attn=False, new_decoder_architecture=False, bias=True)),
    "bloom": ("BloomConfig", dict(num_attention_heads=None, n_head=6, hidden_size=24, num_hidden_layers=None, n_layer=2,
                                  intermediate_size=None, num_key_value_heads=None, max_position_embeddings=None)),
    "mpt": ("MptConfig", dict(d_model=32, n_heads=4, n_layers=3, max_seq_len=256, hidden_size=None,
                              intermediate_size=None, num_hidden_layers=None, num_attention_heads=None,
                              num_key_value_heads=None, max_position_embeddings=None)),
    "gpt_bigcode": ("GPTBigCodeConfig", dict(n_embd=32, n_layer=3, n_head=4, n_positions=256, n_inner=64,
                                             hidden_size=None, intermediate_size=None, num_hidden_layers=None,
                                             num_attention_heads=None, num_key_value_heads=None,
                                             max_position_embeddings=None)),
    "olmo2": ("Olmo2Config", dict()),
    "olmo3": ("Olmo3Config", dict(sliding_window=8, num_hidden_layers=5)),
    "smollm3": ("SmolLM3Config", dict(num_hidden_layers=5)),
    "granite": ("GraniteConfig", dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.5,
                                      logits_scaling=2.0)),
    "cohere": ("CohereConfig", dict(logit_scale=0.25)),
    "cohere2": ("Cohere2Config", dict(logit_scale=0.25, sliding_window=8, num_hidden_layers=5)),
    "stablelm": ("StableLmConfig", dict(partial_rotary_factor=0.5, use_qkv_bias=True)),
    "stablelm_parallel": ("StableLmConfig", dict(partial_rotary_factor=0.5, use_parallel_residual=True)),
    "stablelm_qk_norm": ("StableLmConfig", dict(partial_rotary_factor=0.5, use_parallel_residual=True, qk_layernorm=True)),
    "starcoder2": ("Starcoder2Config", dict(use_bias=True)),
    "mixtral": ("MixtralConfig", dict(num_local_experts=5, sliding_window=8)),
    "qwen2_moe": ("Qwen2MoeConfig", dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=32,
                                         shared_expert_intermediate_size=64, mlp_only_layers=[1])),
    "qwen3_moe": ("Qwen3MoeConfig", dict(head_dim=16, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24,
                                         norm_topk_prob=True, decoder_sparse_step=2, num_hidden_layers=4)),
    "olmoe": ("OlmoeConfig", dict(num_experts=6, num_experts_per_tok=2)),
    "granitemoe": ("GraniteMoeConfig", dict(num_local_experts=5, embedding_multiplier=3.0, attention_multiplier=0.2,
                                            residual_multiplier=0.5, logits_scaling=2.0)),
    "phimoe": ("PhimoeConfig", dict(num_local_experts=5, router_jitter_noise=0.1)),
    "deepseek_v2": ("DeepseekV2Config", dict(q_lora_rank="null", kv_lora_rank=32, qk_nope_head_dim=12, qk_rope_head_dim=8,
                                             v_head_dim=20, head_dim=8, n_routed_experts=6, num_experts_per_tok=2,
                                             n_shared_experts=2, moe_intermediate_size=24, first_k_dense_replace=1,
                                             topk_method="group_limited_greedy", n_group=3, topk_group=2,
                                             routed_scaling_factor=2.0, num_key_value_heads=4)),
    "deepseek_v3": ("DeepseekV3Config", dict(q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=12, qk_rope_head_dim=8,
                                             v_head_dim=20, head_dim=8, n_routed_experts=8, num_experts_per_tok=2,
                                             n_shared_experts=1, moe_intermediate_size=24, first_k_dense_replace=1,
                                             n_group=4, topk_group=2, routed_scaling_factor=2.5, num_key_value_heads=4,
                                             rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                                                                  mscale=1.0, mscale_all_dim=1.0, beta_fast=32.0,
                                                                  beta_slow=1.0,
                                                                  original_max_position_embeddings=64))),
    "mamba": ("MambaConfig", dict(state_size=16, conv_kernel=4, expand=2, intermediate_size=None,
                                  num_attention_heads=None, num_key_value_heads=None, max_position_embeddings=None)),
    "falcon_mamba": ("FalconMambaConfig", dict(state_size=8, conv_kernel=4, expand=2, intermediate_size=None,
                                               num_attention_heads=None, num_key_value_heads=None,
                                               max_position_embeddings=None)),
    "mamba2": ("Mamba2Config", dict(num_heads=8, head_dim=8, state_size=24, n_groups=2, conv_kernel=4, expand=2,
                                    chunk_size=8, intermediate_size=None, num_attention_heads=None,
                                    num_key_value_heads=None, max_position_embeddings=None)),
    "lfm2": ("Lfm2Config", dict(layer_types=["conv", "full_attention", "conv"], block_auto_adjust_ff_dim=True,
                                block_multiple_of=16, conv_L_cache=3)),
    "gpt_oss": ("GptOssConfig", dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=8,
                                     num_hidden_layers=4, intermediate_size=24,
                                     rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                                                          beta_fast=32.0, beta_slow=1.0, truncate=False,
                                                          original_max_position_embeddings=64))),
    "glm4": ("Glm4Config", dict(head_dim=16, partial_rotary_factor=0.5, attention_bias=True)),
    "glm4_moe": ("Glm4MoeConfig", dict(head_dim=8, partial_rotary_factor=0.5, attention_bias=True, use_qk_norm=True,
                                       num_hidden_layers=2, n_routed_experts=6, num_experts_per_tok=2,
                                       n_shared_experts=1, n_group=3, topk_group=2, moe_intermediate_size=24,
                                       first_k_dense_replace=1, routed_scaling_factor=2.5,
                                       num_nextn_predict_layers=0)),
    "dots1": ("Dots1Config", dict(num_hidden_layers=2, head_dim=8, n_routed_experts=5, num_experts_per_tok=2,
                                  n_shared_experts=2, moe_intermediate_size=24, first_k_dense_replace=1,
                                  norm_topk_prob=True, routed_scaling_factor=2.5, sliding_window=8,
                                  max_window_layers=1)),
    "ernie4_5": ("Ernie4_5Config", dict(head_dim=16, use_bias=False, tie_word_embeddings=True)),
    "ernie4_5_moe": ("Ernie4_5_MoeConfig", dict(num_hidden_layers=2, moe_intermediate_size=24, moe_k=2,
                                                moe_num_experts=5, moe_num_shared_experts=2, moe_layer_start_index=1)),
    "seed_oss": ("SeedOssConfig", dict(head_dim=16, num_hidden_layers=2, attention_bias=True,
                                       attention_out_bias=False)),
    "exaone4": ("Exaone4Config", dict(sliding_window=8, sliding_window_pattern=2, num_hidden_layers=4)),
    "hunyuan_v1_dense": ("HunYuanDenseV1Config", dict(head_dim=16, num_hidden_layers=2, rope_parameters=dict(
        rope_type="dynamic", rope_theta=10000.0, alpha=50.0, factor=1.0))),
    "hunyuan_v1_moe": ("HunYuanMoEV1Config", dict(head_dim=8, num_hidden_layers=2, num_experts=4, moe_topk=2,
                                                  num_shared_expert=1, intermediate_size=24)),
    "minimax_m2": ("MiniMaxM2Config", dict(head_dim=16, rotary_dim=8, num_hidden_layers=2, num_local_experts=4,
                                           num_experts_per_tok=2, intermediate_size=24)),
    "arcee": ("ArceeConfig", dict()),
    "nemotron": ("NemotronConfig", dict(head_dim=16, num_hidden_layers=2, partial_rotary_factor=0.5)),
    "ministral3": ("Ministral3Config", dict(head_dim=16, num_hidden_layers=2, sliding_window="null",
                                            rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
        llama_4_scaling_beta=0.3, original_max_position_embeddings=10))),
    "granitemoeshared": ("GraniteMoeSharedConfig", dict(num_hidden_layers=2, num_local_experts=4, intermediate_size=24,
                                                        shared_intermediate_size=40, embedding_multiplier=3.0,
                                                        attention_multiplier=0.2, residual_multiplier=0.5,
                                                        logits_scaling=2.0)),
    "lfm2_moe": ("Lfm2MoeConfig", dict(layer_types=["conv", "full_attention", "conv"], conv_L_cache=3, num_experts=3,
                                       num_experts_per_tok=2, moe_intermediate_size=24, num_dense_layers=1,
                                       routed_scaling_factor=1.5, use_expert_bias=True, norm_topk_prob=True)),
    "apertus": ("ApertusConfig", dict(rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0,
                                                           low_freq_factor=1.0, high_freq_factor=4.0,
                                                           original_max_position_embeddings=64))),
    "llama4_text": ("Llama4TextConfig", dict(head_dim=8, num_local_experts=4, num_experts_per_tok=2,
                                             intermediate_size=20, intermediate_size_mlp=40, num_hidden_layers=4,
                                             interleave_moe_layer_step=2, attention_chunk_size=8, floor_scale=8,
                                             attn_scale=0.3, use_qk_norm=True)),
    "granitemoehybrid": ("GraniteMoeHybridConfig", dict(
        layer_types=["linear_attention", "full_attention"], num_hidden_layers=2, num_local_experts=3,
        intermediate_size=16, shared_intermediate_size=24, mamba_n_heads=8, mamba_n_groups=2, mamba_d_state=16,
        mamba_chunk_size=8, embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.5,
        logits_scaling=2.0, time_step_limit=[0.3, 1.5])),
    "granitehybrid_dense": ("GraniteMoeHybridConfig", dict(
        layer_types=["full_attention", "linear_attention"], num_hidden_layers=2, num_local_experts=0,
        shared_intermediate_size=24, mamba_n_heads=8, mamba_d_state=16, mamba_chunk_size=8,
        position_embedding_type="rope", attention_multiplier=0.2)),
    "bamba": ("BambaConfig", dict(attn_layer_indices=[0], num_hidden_layers=2, mamba_n_heads=8, mamba_n_groups=2,
                                  mamba_d_state=16, mamba_chunk_size=8)),
    "gpt_neo": ("GPTNeoConfig", dict(num_layers=2, num_heads=4, window_size=8,
                                     attention_types=[[["global", "local"], 1]], num_hidden_layers=None,
                                     num_attention_heads=None, num_key_value_heads=None)),
    "gptj": ("GPTJConfig", dict(n_embd=32, n_layer=2, n_head=4, n_positions=256, rotary_dim=4, hidden_size=None,
                                intermediate_size=None, num_hidden_layers=None, num_attention_heads=None,
                                num_key_value_heads=None, max_position_embeddings=None)),
    "olmo": ("OlmoConfig", dict(num_hidden_layers=2)),
    "opt": ("OPTConfig", dict(num_hidden_layers=2, ffn_dim=48, word_embed_proj_dim=32, intermediate_size=None,
                              num_key_value_heads=None)),
    "opt_faint": ("OPTConfig", dict(num_hidden_layers=2, ffn_dim=48, word_embed_proj_dim=32, intermediate_size=None,
                                    num_key_value_heads=None, tie_word_embeddings=False)),
    "qwen3_next": ("Qwen3NextConfig", dict(
        head_dim=16, layer_types=["linear_attention", "full_attention", "linear_attention"], mlp_only_layers=[2],
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=12, linear_value_head_dim=4,
        num_experts=3, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24)),
    "qwen3_5_text": ("Qwen3_5TextConfig", dict(
        head_dim=16, layer_types=["linear_attention", "full_attention"], num_hidden_layers=2, linear_num_key_heads=2,
        linear_num_value_heads=6, linear_key_head_dim=12, linear_value_head_dim=8, tie_word_embeddings=True)),
    "falcon_h1": ("FalconH1Config", dict(
        num_hidden_layers=2, mamba_d_ssm=48, mamba_n_heads=6, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=16,
        mamba_chunk_size=8, mamba_rms_norm=True, mamba_norm_before_gate=False, lm_head_multiplier=0.5,
        embedding_multiplier=2.5, mlp_multipliers=[0.8, 0.6], key_multiplier=0.7, attention_out_multiplier=0.9,
        attention_in_multiplier=1.1, ssm_multipliers=[0.9, 1.2, 0.8, 0.7, 0.6], ssm_in_multiplier=1.25,
        ssm_out_multiplier=0.75)),
    "jamba": ("JambaConfig", dict(
        attn_layer_period=3, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1, num_experts=3,
        num_experts_per_tok=2, mamba_d_state=8, mamba_dt_rank=6, intermediate_size=24)),
    "nemotron_h": ("NemotronHConfig", dict(
        num_hidden_layers=None, layers_block_type=["linear_attention", "mlp", "full_attention", "mlp"], head_dim=8,
        ssm_state_size=16, mamba_num_heads=6, mamba_head_dim=8, n_groups=2, chunk_size=8)),
    "nemotron_h_moe": ("NemotronHConfig", dict(
        num_hidden_layers=None, layers_block_type=["linear_attention", "moe", "full_attention", "moe"], head_dim=8,
        ssm_state_size=16, mamba_num_heads=6, mamba_head_dim=8, n_groups=2, chunk_size=8, n_routed_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=16, moe_shared_expert_intermediate_size=24, n_group=2,
        topk_group=1, routed_scaling_factor=1.5)),
    "cohere_qk_norm": ("CohereConfig", dict(logit_scale=0.25, num_hidden_layers=2, use_qk_norm=True)),
}


FAINT = {"opt_faint": 1e-3}  # factors of the embeddings: their mean square is about an epsilon, which then counts


class HalfCache(transformers.DynamicCache):
    """Keys and values rounded to f16."""

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        def rounded(x):
            return x.to(torch.float16).to(x.dtype)
        return super().update(rounded(key_states), rounded(value_states), layer_idx, *args, **kwargs)


def randomize(model, seed, of_embeddings=1.0):
    """Weights that make every part count: matrices that keep the size of activations, norms and biases off neutral."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        noise = torch.randn(value.shape, generator=generator)
        if value.ndim >= 2 and "embed" not in name and "wte" not in name and "wpe" not in name:
            noise *= value.shape[-1] ** -0.5
        elif value.ndim >= 2:
            noise *= of_embeddings
        elif value.ndim == 1:
            neutral = value.data.mean().round()  # 1 of a norm's weight (0 of Gemma's), 0 of a bias
            noise = neutral + 0.2 * noise
        value.data.copy_(noise.to(torch.bfloat16).to(torch.float32))
    for name, value in model.named_buffers():
        if name.endswith(("e_score_correction_bias", "expert_bias")):
            noise = 0.1 * torch.randn(value.shape, generator=generator)
            value.data.copy_(noise.to(torch.bfloat16).to(torch.float32))


def write(name, seed):
    class_name, fields = FAMILIES[name]
    config = getattr(transformers, class_name)(
        **{key: None if value == "null" else value for key, value in {**COMMON, **fields}.items() if value is not None})
    # Falcon's own attention adds linear biases twice, to the scores and to the mask.
    config._attn_implementation = "sdpa" if name == "falcon_rw" else "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    randomize(model, seed, FAINT.get(name, 1.0))
    model.tie_weights()
    generator = torch.Generator().manual_seed(seed + 1)
    ids = torch.randint(3, VOCABULARY, (1, TOKENS), generator=generator)
    with torch.no_grad():
        logits = model(ids, cache=HalfCache(config=config)).logits[0].float()
        # Token by token through the cache: the same, or the fixture is about something else.
        # (In single steps, transformers 5.24 forgets the bounds of Mamba 2's step sizes, and Bamba's positions.)
        cache = HalfCache(config=config)
        bounded = getattr(config, "time_step_limit", None) not in (None, (0.0, float("inf")))
        for i in range(0 if bounded or name == "bamba" else TOKENS):
            step = model(ids[:, i:i + 1], cache=cache).logits[0, -1].float()
            assert (step - logits[i]).abs().max() < 1e-3 * logits.abs().max(), (name, i)
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config_file = folder / "config.json"
    kept = {key: value for key, value in json.loads(config_file.read_text()).items() if key != "transformers_version"}
    config_file.write_text(json.dumps(kept, indent=1) + "\n")
    weights = load_file(folder / "model.safetensors")
    save_file(weights, folder / "model.safetensors")
    save_file({"ids": ids[0].to(torch.int32), "logits": logits}, folder / "expected.safetensors")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) / 1e3:.0f} KB, "
          f"logits up to {logits.abs().max():.1f}, {len(weights)} tensors")


def main():
    names = sys.argv[1:] or list(FAMILIES)
    for name in names:
        write(name, seed=zlib.crc32(name.encode()))


if __name__ == "__main__":
    main()
