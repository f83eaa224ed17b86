"""AirLLM and Gabbro side by side, with the same model folder, precision, prompt and number of tokens:

    python3 bench/peers/airllm/compare.py --airllm-python VENV/bin/python --folder /tmp --memory 1536MiB
    python3 bench/peers/airllm/compare.py --airllm-python VENV/bin/python --device cuda --memory 2GiB --rounds 1

VENV has the PyPI packages `airllm` and what it needs; this script needs numpy, safetensors and tokenizers. It writes a
model of Llama's architecture with random weights in bf16, and lets each program write the same number of tokens
greedily. Gabbro runs without a limit of memory, and within --memory, with one token a pass. Rounds alternate; the
figures are medians of tokens per second after the first token.

Plain transformers, of the same environment, computes the same tokens once in bf16, as AirLLM does, and once in f32 with
the same weights: random weights leave the first two tokens close together, so that rounding decides between them.
`gaps` has the distance of the two largest logits at each token in f32, `rounding` the largest difference of bf16's
logits there. Prints one JSON document."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROMPT = "abcdefgh"
SIZES = {"14GB": (32, 4096, 32, 8, 14336), "3.7GB": (24, 2560, 20, 5, 6912), "1.3GB": (12, 2048, 16, 4, 5632), "0.2GB": (6, 1024, 8, 4, 2816)}
VOCABULARY = 32000

AIRLLM = """
import json, sys, time
import torch
from airllm import AutoModel
folder, prompt, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(int(sys.argv[4]))
device = sys.argv[5]
model = AutoModel.from_pretrained(folder, device=device, dtype=torch.bfloat16)
ids = model.tokenizer([prompt], return_tensors="pt")["input_ids"].to(device)
times = []
class Clock:
    def put(self, value): times.append(time.monotonic())
    def end(self): pass
out = model.generate(ids, max_new_tokens=count, min_new_tokens=count, do_sample=False, use_cache=True, streamer=Clock())
times = times[1:]  # the first one is the prompt
peak = torch.cuda.max_memory_reserved() if device != "cpu" else None
print("RESULT " + json.dumps({"token_ids": out[0, ids.shape[1]:].tolist(), "memory_peak": peak,
                              "tokens_per_second": (len(times) - 1) / (times[-1] - times[0])}))
"""

TRANSFORMERS = """
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, prompt, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(int(sys.argv[4]))
ids = AutoTokenizer.from_pretrained(folder)([prompt], return_tensors="pt")["input_ids"]
found, logits, path = {}, {}, None
for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    out = model.generate(ids, max_new_tokens=count, min_new_tokens=count, do_sample=False)
    found[name] = out[0, ids.shape[1]:].tolist()
    path = out if path is None else path  # both along the tokens of f32
    with torch.no_grad():
        logits[name] = model(path).logits[0, ids.shape[1] - 1:-1].float()
    del model
top = logits["f32"].topk(2, dim=-1).values
print("RESULT " + json.dumps({**found, "gaps": (top[:, 0] - top[:, 1]).tolist(),
                              "rounding": (logits["f32"] - logits["bf16"]).abs().amax(-1).tolist()}))
"""


def write_tokenizer(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0, "</s>": 1, **{letter: i + 2 for i, letter in enumerate(alphabet)}}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}))


def write_model(folder, size):
    """Shards of one layer each, as published models have them."""
    import numpy as np
    layers, width, heads, kv_heads, inner = SIZES[size]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "intermediate_size": inner, "hidden_act": "silu",
        "vocab_size": VOCABULARY, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "bfloat16"}))
    write_tokenizer(folder)
    rng = np.random.default_rng(1)
    # A prime number: rows of a matrix that is larger than the pool are not equal, and no tokens tied.
    pool = (rng.standard_normal(16777213, dtype=np.float32) * np.float32(0.02)).view(np.uint32) >> 16
    pool = pool.astype("<u2")
    where, weight_map = 0, {}

    def values(shape):
        nonlocal where
        count = int(np.prod(shape))
        where = (where + 7919) % len(pool)
        return np.resize(np.roll(pool, -where), count).reshape(shape)

    def save(name, tensors):
        """safetensors, written here: NumPy has no bf16."""
        header, at = {}, 0
        for key, array in tensors.items():
            header[key] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
            at += array.nbytes
            weight_map[key] = name
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / name, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for array in tensors.values():
                file.write(array.tobytes())

    shard = lambda i: f"model-{i + 1:05}-of-{layers + 1:05}.safetensors"
    ones = lambda: np.full(width, 0x3F80, "<u2")
    kv_width = width // heads * kv_heads
    for i in range(layers):
        prefix = f"model.layers.{i}."
        save(shard(i), {
            prefix + "input_layernorm.weight": ones(), prefix + "post_attention_layernorm.weight": ones(),
            prefix + "self_attn.q_proj.weight": values((width, width)),
            prefix + "self_attn.k_proj.weight": values((kv_width, width)),
            prefix + "self_attn.v_proj.weight": values((kv_width, width)),
            prefix + "self_attn.o_proj.weight": values((width, width)),
            prefix + "mlp.gate_proj.weight": values((inner, width)),
            prefix + "mlp.up_proj.weight": values((inner, width)),
            prefix + "mlp.down_proj.weight": values((width, inner))})
    save(shard(layers), {"model.embed_tokens.weight": values((VOCABULARY, width)), "model.norm.weight": ones(),
                         "lm_head.weight": values((VOCABULARY, width))})
    total = sum((folder / name).stat().st_size for name in set(weight_map.values()))
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))
    return folder


def python(options, model, script):
    """What a script in AirLLM's environment prints after RESULT."""
    device = "cpu" if options.device == "cpu" else "cuda:0"  # torch's name of ROCm devices, too
    command = [options.airllm_python, "-c", script, str(model), PROMPT, str(options.tokens), str(options.threads),
               device]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode != 0 or not lines:
        sys.exit(f"{options.airllm_python} ended with {done.returncode}:\n{done.stdout}")
    return json.loads(lines[-1].removeprefix("RESULT "))


def gabbro(options, model, *more):
    command = [options.gabbro, "run", str(model), PROMPT, "--raw", "--temperature", "0", "-n", str(options.tokens),
               "--ctx", "512", "--json", "--device", options.device, "--threads", str(options.threads), *more]
    done = subprocess.run(command, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--airllm-python", required=True, help="of an environment that has airllm")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, rocm; transformers alone is on the CPU")
    parser.add_argument("--folder", default="/tmp")
    parser.add_argument("--host-memory", help="of Gabbro within --memory, on a GPU; AirLLM has the page cache")
    parser.add_argument("--size", default="3.7GB", choices=SIZES)
    parser.add_argument("--memory", default="1536MiB")
    parser.add_argument("--tokens", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--keep", action="store_true", help="leave the model there")
    parser.add_argument("--gabbro", default=str(ROOT / "build" / "release" / "bin" / "gabbro"))
    options = parser.parse_args()
    model = pathlib.Path(options.folder) / f"random-llama-{options.size}-bf16"
    if not model.exists():
        write_model(model, options.size)
    try:
        runs = {"airllm": [], "gabbro": [], "gabbro_limited": []}
        for _ in range(options.rounds):
            runs["airllm"].append(python(options, model, AIRLLM))
            runs["gabbro"].append(gabbro(options, model))
            host = ["--host-memory", options.host_memory] if options.host_memory else []
            runs["gabbro_limited"].append(gabbro(options, model, "--memory", options.memory, *host, "--no-lookup"))
        speeds = {name: statistics.median(run["tokens_per_second"] for run in all_runs)
                  for name, all_runs in runs.items()}
        plain = python(options, model, TRANSFORMERS)
        limited = runs["gabbro_limited"][0].get("streaming")
        print(json.dumps({
            "model_bytes": sum(file.stat().st_size for file in model.glob("*.safetensors")),
            "tokens": options.tokens, "rounds": options.rounds, "tokens_per_second": speeds,
            "all": {name: [run["tokens_per_second"] for run in all_runs] for name, all_runs in runs.items()},
            "ratio": speeds["gabbro"] / speeds["airllm"],
            "ratio_limited": speeds["gabbro_limited"] / speeds["airllm"], "memory": options.memory,
            "device": options.device, "airllm_memory_peak": max((run["memory_peak"] or 0) for run in runs["airllm"]),
            "streamed_bytes_per_pass": limited and limited["bytes_per_pass"],
            "first_tokens": {**{name: all_runs[0]["token_ids"] for name, all_runs in runs.items()},
                             "transformers_bf16": plain["bf16"], "transformers_f32": plain["f32"]},
            "gaps": plain["gaps"], "rounding": plain["rounding"]}, indent=1))
    finally:
        if not options.keep:
            shutil.rmtree(model)


if __name__ == "__main__":
    main()
