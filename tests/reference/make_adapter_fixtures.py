#!/usr/bin/env python3
"""Writes tests/data/adapters: LoRA adapters as PEFT saves them, for models of tests/data/families, and their logits.

A folder NAME has adapter_config.json, adapter_model.safetensors and expected.safetensors: `model`'s folder is in its
metadata, `ids` i32 [T], and `logits` (and of some `half`: at half the scale) f32 [T, V] that PEFT gives in float32 with
keys and values rounded to f16. llama.gguf is the adapter `llama` in the form of llama.cpp, written by its own
convert_lora_to_gguf.py where --llama-cpp names its sources. Needs torch, transformers and peft.
Usage: make_adapter_fixtures.py [--llama-cpp FOLDER]
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from make_family_fixtures import HalfCache, OUT as FAMILIES

OUT = FAMILIES.parent / "adapters"
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]

# Folder, the family's folder, and what differs from the configuration that all have.
ADAPTERS = {
    "llama": ("llama", dict(target_modules=[*ATTENTION, "gate_proj", "up_proj", "down_proj"])),
    "llama_head": ("llama", dict(target_modules=["v_proj", "lm_head"], r=2, lora_alpha=8)),
    "qwen2_stabilized": ("qwen2", dict(target_modules=ATTENTION, use_rslora=True, rank_pattern={"q_proj": 6},
                                       alpha_pattern={"k_proj": 9})),
    "phi3": ("phi3", dict(target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])),
    "gpt_neox": ("gpt_neox", dict(target_modules=["query_key_value", "dense_h_to_4h"])),
    "gpt2": ("gpt2", dict(target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)),
    "qwen2_patterns": ("qwen2", dict(target_modules=r"model\.layers\.\d+\.(self_attn|mlp)\.(q|k|up)_proj",
                                     # The first match counts, and the file has them sorted.
                                     rank_pattern={r"(q|k)_proj": 3, r"layers\.1\..*": 2},
                                     alpha_pattern={r".*\.1\.mlp\.[a-z]+_proj": 16, "k_proj": 9, r"self_attn\..*": 2})),
    "qwen2_moe": ("qwen2_moe", dict(target_modules=[*ATTENTION, "shared_expert.up_proj"])),
}


def model_of(family):
    model = transformers.AutoModelForCausalLM.from_pretrained(FAMILIES / family, dtype=torch.float32,
                                                              attn_implementation="eager")
    return model.eval()


def logits_of(model, config, ids, scale=1.0):
    """The logits with the adapter's products times `scale`."""
    for module in model.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            module.set_scale("default", scale)
    with torch.no_grad():
        return model(input_ids=ids, cache=HalfCache(config=config)).logits[0].float()


def write(name, seed):
    family, fields = ADAPTERS[name]
    base = model_of(family)
    config = base.config
    fixture = load_file(FAMILIES / family / "expected.safetensors")
    ids = fixture["ids"].long()[None]
    model = peft.get_peft_model(base, peft.LoraConfig(**{**dict(r=4, lora_alpha=6, task_type="CAUSAL_LM"), **fields}))
    generator = torch.Generator().manual_seed(seed)
    for key, value in model.named_parameters():
        if "lora_" in key:
            noise = torch.randn(value.shape, generator=generator) * 0.6 * value.shape[-1] ** -0.5
            value.data.copy_(noise.to(torch.bfloat16).to(torch.float32))
    model.eval()
    logits = logits_of(model, config, ids)
    changed = (logits - fixture["logits"]).abs().max() / fixture["logits"].abs().max()
    assert changed > 0.05, (name, changed)
    expected = {"ids": fixture["ids"], "logits": logits}
    if name == "llama":
        expected["half"] = logits_of(model, config, ids, 0.5)
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    for path in folder.iterdir():
        if path.name not in ("adapter_config.json", "adapter_model.safetensors"):
            path.unlink()
    settings = json.loads((folder / "adapter_config.json").read_text())
    settings.update(base_model_name_or_path=family, peft_version=None)
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")
    save_file(expected, folder / "expected.safetensors", metadata={"model": family})
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) / 1e3:.0f} KB, changes logits by {changed:.2f}")


def write_gguf(sources):
    path = OUT / "llama.gguf"
    subprocess.run([sys.executable, sources / "convert_lora_to_gguf.py", "--outtype", "f32", "--outfile", path,
                    "--base", FAMILIES / "llama", OUT / "llama"], check=True)
    print(f"llama.gguf: {path.stat().st_size / 1e3:.0f} KB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llama-cpp", type=pathlib.Path, help="the folder of llama.cpp's sources")
    args = parser.parse_args()
    for seed, name in enumerate(ADAPTERS):
        write(name, seed + 50)
    if args.llama_cpp:
        write_gguf(args.llama_cpp)


if __name__ == "__main__":
    main()
