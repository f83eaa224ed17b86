#!/usr/bin/env python3
"""Writes tests/data/quantized: a tiny random model in each quantized form of Hugging Face folders, and its logits.

A folder has config.json with its quantization_config, model.safetensors and expected.safetensors: `ids` i32 [T], logits
f32 [T, V] of the model with dequantized weights, computed as by make_family_fixtures.py, and `k_proj` f32 [N, K], the
dequantized weights of the first layer's matrix of that name. The layouts of GPTQ and AWQ are implemented here after
gptqmodel/nn_modules/qlinear (pack_block, dequantize_weight) and awq/utils/packing_utils.py; the layouts of bitsandbytes and
compressed-tensors are made, and dequantized, by these libraries.
Needs torch, transformers, bitsandbytes and compressed-tensors.
Usage: make_quantized_fixtures.py [NAME...]
"""
import json
import pathlib
import shutil
import sys
import zlib

import torch
import transformers
from make_family_fixtures import HalfCache, randomize
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "quantized"
TOKENS = 20
VOCABULARY = 64
SIZES = dict(vocab_size=VOCABULARY, hidden_size=128, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def pack_rows(codes, bits):
    """Codes [K, N] of consecutive rows to words [K · bits / 32, N], the first in the lowest bits."""
    per_word = 32 // bits
    rows = (codes.shape[0] + per_word - 1) // per_word * per_word
    padded = torch.zeros(rows, codes.shape[1], dtype=torch.int64)
    padded[:codes.shape[0]] = codes
    shifts = torch.arange(per_word).mul(bits)[None, :, None]
    words = (padded.reshape(-1, per_word, codes.shape[1]) << shifts).sum(1)
    return words.to(torch.uint32).view(torch.int32)


def pack_rows_3(codes):
    """The same of 3 bits, in three words for 32 codes, as gptqmodel/nn_modules/qlinear (pack_original) writes them."""
    words = torch.zeros(codes.shape[0] // 32 * 3, codes.shape[1], dtype=torch.int64)
    for block in range(codes.shape[0] // 32):
        q, at = codes[32 * block:32 * block + 32], 3 * block
        for j in range(10):
            words[at] |= q[j] << (3 * j)
        words[at] |= (q[10] << 30) & 0xffffffff
        words[at + 1] |= q[10] >> 2 & 1
        for j in range(10):
            words[at + 1] |= q[11 + j] << (3 * j + 1)
        words[at + 1] |= (q[21] << 31) & 0xffffffff
        words[at + 2] |= q[21] >> 1 & 3
        for j in range(10):
            words[at + 2] |= q[22 + j] << (3 * j + 2)
    return words.to(torch.uint32).view(torch.int32)


def integers(weight, bits, group, symmetric, scale_type):
    """Round-to-nearest codes [N, K], scales [N, G] and zero points [N, G] of weight [N, K]."""
    rows, columns = weight.shape
    group = columns if group == -1 else group
    grouped = weight.reshape(rows, -1, group)
    largest = 2**bits - 1
    if symmetric:
        scales = 2 * grouped.abs().amax(-1) / largest
        zeros = torch.full_like(scales, 2**(bits - 1))
    else:
        low, high = grouped.amin(-1).clamp(max=0), grouped.amax(-1).clamp(min=0)
        scales = (high - low) / largest
        zeros = (-low / scales).round()
    scales = scales.to(scale_type).float()
    codes = ((grouped / scales[..., None]).round() + zeros[..., None]).clamp(0, largest)
    return codes.reshape(rows, columns).long(), scales, zeros.clamp(0, largest).long()


def gptq(bits=4, group=128, symmetric=True, act_order=False, v2=False):
    def packed_rows(numbers):
        return pack_rows_3(numbers) if bits == 3 else pack_rows(numbers, bits)

    def pack(weight, generator):
        columns = weight.shape[1]
        order = torch.randperm(columns, generator=generator) if act_order else torch.arange(columns)
        codes, scales, zeros = integers(weight[:, order], bits, group, symmetric, torch.float16)
        g_idx = torch.empty(columns, dtype=torch.int32)
        g_idx[order] = (torch.arange(columns) // (columns if group == -1 else group)).to(torch.int32)
        in_place = torch.empty_like(codes)
        in_place[:, order] = codes
        stored = zeros if v2 else zeros.clamp(min=1) - 1
        zeros = stored if v2 else stored + 1
        long = g_idx.long()
        value = scales[:, long] * (in_place - zeros[:, long]).float()
        return {"qweight": packed_rows(in_place.T.contiguous()), "qzeros": packed_rows(stored).T.contiguous(),
                "scales": scales.T.contiguous().to(torch.float16), "g_idx": g_idx}, value
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric, "desc_act": act_order}
    return pack, {**config, "checkpoint_format": "gptq_v2"} if v2 else config


def awq(group):
    def pack(weight, generator):
        codes, scales, zeros = integers(weight, 4, group, False, torch.float16)
        order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])

        def packed(numbers):  # [R, N] to words of eight columns
            dealt = numbers.reshape(numbers.shape[0], -1, 8)[:, :, order].reshape(numbers.shape)
            return pack_rows(dealt.T.contiguous(), 4).T.contiguous()
        value = scales.repeat_interleave(group, 1) * (codes - zeros.repeat_interleave(group, 1)).float()
        return {"qweight": packed(codes.T.contiguous()), "qzeros": packed(zeros.T.contiguous()),
                "scales": scales.T.contiguous().to(torch.float16)}, value
    return pack, {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}


def fp8(kind, dtype=torch.float8_e4m3fn):
    largest = torch.finfo(dtype).max

    def pack(weight, generator):
        if kind == "block":
            scales = weight.reshape(weight.shape[0] // 64, 64, -1, 32).abs().amax((1, 3)) / largest
            spread = scales.repeat_interleave(64, 0).repeat_interleave(32, 1)
        else:
            scales = weight.abs().amax(1, keepdim=True) / largest if kind == "row" else weight.abs().max() / largest
            spread = scales
        stored = (weight / spread).clamp(-largest, largest).to(dtype)
        return {"weight": stored, "weight_scale_inv" if kind == "block" else "weight_scale": scales.float()}, \
            stored.float() * spread
    config = {"quant_method": "fbgemm_fp8" if kind == "row" else "fp8", "activation_scheme": "dynamic"}
    return pack, {**config, "weight_block_size": [64, 32]} if kind == "block" else config


def bits_and_bytes(kind, double):
    import bitsandbytes.functional as bnb

    def pack(weight, generator):
        if kind == "int8":
            scales = weight.abs().amax(1)
            stored = (weight * 127 / scales[:, None]).round().to(torch.int8)
            return {"weight": stored, "SCB": scales}, bnb.int8_vectorwise_dequant(stored, scales)
        stored, state = bnb.quantize_4bit(weight, blocksize=64, quant_type=kind, compress_statistics=double)
        rest = {f"weight.{key}": value for key, value in state.as_dict(packed=True).items()}
        return {"weight": stored, **rest}, bnb.dequantize_4bit(stored, state)
    if kind == "int8":
        return pack, {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}
    return pack, {"quant_method": "bitsandbytes", "load_in_8bit": False, "load_in_4bit": True,
                  "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": double}


def modelopt_nvfp4():
    """NVFP4 as NVIDIA's Model Optimizer saves it (modelopt/torch/quantization/qtensor/nvfp4_tensor.py): codes E2M1 of
    consecutive inputs, the first in the low nibble; value = code · weight_scale (E4M3, of 16) · weight_scale_2."""
    levels = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])

    def pack(weight, generator):
        grouped = weight.reshape(weight.shape[0], -1, 16)
        whole = weight.abs().max() / (6 * 448)
        scales = (grouped.abs().amax(-1) / (6 * whole)).to(torch.float8_e4m3fn)
        spread = scales.float()[..., None] * whole
        codes = ((grouped / spread).abs()[..., None] - levels).abs().argmin(-1)
        value = (levels[codes] * grouped.sign() * spread).reshape(weight.shape)
        codes = (codes | (grouped < 0).long() << 3).reshape(weight.shape)
        return {"weight": (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8), "weight_scale": scales,
                "weight_scale_2": whole.float(), "input_scale": torch.tensor(1.0)}, value
    return pack, {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": None, "ignore": ["lm_head"]}


def compressed(form, **arguments):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)

    def pack(weight, generator):
        compressor = BaseCompressor.get_value_from_registry(form)
        if args.type == "float" and args.num_bits == 8:
            scales, zeros = weight.abs().amax(1, keepdim=True) / 448, None
        elif form.startswith("nvfp4"):
            whole = 448 * 6 / weight.abs().max()
            peaks = weight.reshape(weight.shape[0], -1, 16).abs().amax(-1)
            state = {"weight": weight, "weight_global_scale": whole.reshape(1),
                     "weight_scale": (peaks * whole / 6).to(torch.float8_e4m3fn).float()}
            packed = compressor.compress(state, scheme)
            return packed, compressor.decompress(packed, scheme)["weight"].float()
        elif form.startswith("mxfp4"):
            peaks = weight.reshape(weight.shape[0], -1, 32).abs().amax(-1)
            scales, zeros = 2.0 ** (peaks.log2().floor() - 2), None
        else:
            group = args.group_size or weight.shape[1]
            _, scales, zeros = integers(weight, args.num_bits, group, args.symmetric, torch.bfloat16)
            zeros = None if args.symmetric else (zeros - 2**(args.num_bits - 1)).to(torch.int8)
            if args.symmetric and args.num_bits == 8:
                scales = scales * 1.0009765625  # no f16 number
        state = {"weight": weight, "weight_scale": scales.to(torch.bfloat16) if args.num_bits == 4 and zeros is None and
                 args.type == "int" else scales}
        if zeros is not None:
            state["weight_zero_point"] = zeros
        packed = compressor.compress(state, scheme)
        exact = {key: part.float() if key == "weight_scale" and part.dtype == torch.bfloat16 else part
                 for key, part in packed.items()}  # with bf16 scales the library rounds the weights to bf16
        return packed, compressor.decompress(exact, scheme)["weight"].float()
    weights = json.loads(args.model_dump_json())
    return pack, {"quant_method": "compressed-tensors", "format": form,
                  "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}, "ignore": ["lm_head"]}


FORMS = {
    "gptq": lambda: gptq(),
    "gptq_asymmetric": lambda: gptq(group=32, symmetric=False),
    "gptq_act_order": lambda: gptq(group=32, act_order=True),
    "gptq_8bit_v2": lambda: gptq(bits=8, group=-1, v2=True),
    "gptq_3bit": lambda: gptq(bits=3, group=64, symmetric=False),
    "awq": lambda: awq(64),
    "fp8_block": lambda: fp8("block"),
    "fp8_row": lambda: fp8("row"),
    "fp8_tensor_fnuz": lambda: fp8("tensor", torch.float8_e4m3fnuz),
    "bitsandbytes_nf4": lambda: bits_and_bytes("nf4", True),
    "bitsandbytes_fp4": lambda: bits_and_bytes("fp4", False),
    "bitsandbytes_int8": lambda: bits_and_bytes("int8", False),
    "compressed_int4": lambda: compressed("pack-quantized", num_bits=4, type="int", strategy="group", group_size=64),
    "compressed_int4_asymmetric": lambda: compressed("pack-quantized", num_bits=4, type="int", strategy="group",
                                                     group_size=32, symmetric=False),
    "compressed_int8": lambda: compressed("int-quantized", num_bits=8, type="int", strategy="channel"),
    "compressed_fp8": lambda: compressed("float-quantized", num_bits=8, type="float", strategy="channel"),
    "compressed_mxfp4": lambda: compressed("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group",
                                           group_size=32, scale_dtype=torch.uint8),
    "compressed_nvfp4": lambda: compressed("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group",
                                           group_size=16),
    "modelopt_nvfp4": modelopt_nvfp4,
}


def write(name, seed):
    pack, quantization = FORMS[name]()
    qwen = name in ("awq", "bitsandbytes_nf4")  # with biases of q, k and v, and a tied head
    kind = transformers.Qwen2Config if qwen else transformers.LlamaConfig
    config = kind(**SIZES, tie_word_embeddings=qwen)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    randomize(model, seed)
    model.tie_weights()
    generator = torch.Generator().manual_seed(seed + 1)
    ids = torch.randint(3, VOCABULARY, (1, TOKENS), generator=generator)
    tensors, expected = {}, {}
    with torch.no_grad():
        for module_name, module in model.named_modules():
            if not isinstance(module, torch.nn.Linear) or module_name == "lm_head":
                continue
            parts, value = pack(module.weight.data.clone(), generator)
            tensors |= {f"{module_name}.{key}": part.contiguous() for key, part in parts.items()}
            module.weight.data.copy_(value)
            if module_name.endswith("k_proj"):
                expected["k_proj"] = value.float().contiguous()
        logits = model(ids, cache=HalfCache(config=config)).logits[0].float()
    quantized = {key.rsplit(".", 1)[0] for key in tensors}
    for key, value in model.state_dict().items():
        if (key.endswith(".weight") and key[:-len(".weight")] in quantized) or (key == "lm_head.weight" and qwen):
            continue
        tensors[key] = value.to(torch.bfloat16).contiguous()
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = {key: value for key, value in config.to_dict().items() if key != "transformers_version"}
    old = name == "gptq_act_order"  # has its configuration in another file
    if old:
        (folder / "quantize_config.json").write_text(json.dumps(quantization, indent=1) + "\n")
    else:
        kept["quantization_config"] = quantization
    (folder / "config.json").write_text(json.dumps(kept, indent=1, default=str) + "\n")
    save_file(tensors, folder / "model.safetensors")
    save_file({"ids": ids[0].to(torch.int32), "logits": logits, **expected}, folder / "expected.safetensors")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) / 1e3:.0f} KB, "
          f"logits up to {logits.abs().max():.1f}, {len(tensors)} tensors")


def mxfp4_experts(weight):
    """The parts X_blocks and X_scales of experts [E, K, N], as gpt-oss has them, and the weights that they stand for."""
    from transformers.integrations.mxfp4 import FP4_VALUES, convert_moe_packed_tensors
    rows = weight.transpose(1, 2).float()  # [E, N, K]
    rows = rows.reshape(*rows.shape[:2], -1, 32)
    exponents = rows.abs().amax(-1).log2().floor() - 2
    scaled = rows / 2.0 ** exponents[..., None]
    codes = (scaled[..., None] - torch.tensor(FP4_VALUES)).abs().argmin(-1)
    blocks = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
    scales = (exponents + 127).to(torch.uint8)
    return blocks, scales, convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)


def write_fp8_experts(name, seed):
    """Mixtral with the experts of a layer together in FP8, in tiles of 64 × 32, and all else in bf16."""
    config = transformers.MixtralConfig(**{**SIZES, "hidden_size": 64, "intermediate_size": 64}, num_local_experts=3,
                                        sliding_window=8)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    randomize(model, seed)
    ids = torch.randint(3, VOCABULARY, (1, TOKENS), generator=torch.Generator().manual_seed(seed + 1))
    tensors, expected = {}, {}
    with torch.no_grad():
        for key, value in model.named_parameters():
            if not key.endswith(("experts.gate_up_proj", "experts.down_proj")):
                tensors[key] = value.to(torch.bfloat16).contiguous()
                continue
            tiles = value.data.reshape(value.shape[0], value.shape[1] // 64, 64, value.shape[2] // 32, 32)
            scales = tiles.abs().amax((2, 4), keepdim=True) / 448
            stored = (tiles / scales).to(torch.float8_e4m3fn)
            tensors[key] = stored.reshape(value.shape)
            tensors[f"{key}_scale_inv"] = scales[:, :, 0, :, 0].float().contiguous()
            value.data.copy_((stored.float() * scales).reshape(value.shape))
            if key == "model.layers.0.mlp.experts.down_proj":
                expected["down_proj"] = value.data.clone()
        logits = model(ids, cache=HalfCache(config=config)).logits[0].float()
    save_folder(name, config, tensors, {"quant_method": "fp8", "activation_scheme": "dynamic",
                                        "weight_block_size": [64, 32]}, ids, logits, expected)


def save_folder(name, config, tensors, quantization, ids, logits, expected):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = {key: value for key, value in config.to_dict().items() if key != "transformers_version"}
    kept["quantization_config"] = quantization
    (folder / "config.json").write_text(json.dumps(kept, indent=1, default=str) + "\n")
    save_file(tensors, folder / "model.safetensors")
    save_file({"ids": ids[0].to(torch.int32), "logits": logits, **expected}, folder / "expected.safetensors")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) / 1e3:.0f} KB, "
          f"logits up to {logits.abs().max():.1f}, {len(tensors)} tensors")


def write_gpt_oss(name, seed):
    """gpt-oss in its published form: experts in MXFP4, all else in bf16."""
    config = transformers.GptOssConfig(**{**SIZES, "intermediate_size": 64}, head_dim=32, num_local_experts=4,
                                       num_experts_per_tok=2, sliding_window=8, tie_word_embeddings=False)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    randomize(model, seed)
    ids = torch.randint(3, VOCABULARY, (1, TOKENS), generator=torch.Generator().manual_seed(seed + 1))
    tensors, expected = {}, {}
    with torch.no_grad():
        for key, value in model.named_parameters():
            if not key.endswith(("experts.gate_up_proj", "experts.down_proj")):
                tensors[key] = value.to(torch.bfloat16).contiguous()
                continue
            tensors[f"{key}_blocks"], tensors[f"{key}_scales"], weights = mxfp4_experts(value.data)
            value.data.copy_(weights)
            if key == "model.layers.0.mlp.experts.down_proj":
                expected["down_proj"] = weights.transpose(1, 2).contiguous()
        logits = model(ids, cache=HalfCache(config=config)).logits[0].float()
    save_folder(name, config, tensors, {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, ids, logits,
                expected)


def main():
    experts = {"fp8_experts": write_fp8_experts, "gpt_oss": write_gpt_oss}
    for name in sys.argv[1:] or [*FORMS, *experts]:
        experts.get(name, write)(name, seed=zlib.crc32(name.encode()))


if __name__ == "__main__":
    main()
