#!/usr/bin/env python3
"""Times of diffusers with random weights of the published shapes, to compare with `gabbro bench image --json`:

    python3 bench.py [--device cuda|cpu] [--parts sd15,sdxl,vae] [--modes eager,compile,graph] [--dtype float16]
                     [--threads N] [--size PIXELS] [--repetitions 20]

Needs torch and diffusers. A step is a call of UNet2DConditionModel for both prompts (batch 2) with channels last; `vae`
is AutoencoderKL.decode of one latent. Modes: eager; torch.compile; graph, which is torch.compile with
mode="reduce-overhead" (CUDA graphs). Prints one JSON document: for each part and mode the median, least and largest
seconds of a call, the seconds of the first call, compilation included, and the peak of allocated memory on cuda.

`gabbro bench image --shape sdxl --device cuda --precision f16 --json` has the same figures as step_seconds and
decode_seconds, with sampler and copies of latents included.
"""
import argparse
import json
import statistics
import sys
import time

import torch
import diffusers
from diffusers import AutoencoderKL, UNet2DConditionModel

CROSS_DOWN, CROSS_UP = "CrossAttnDownBlock2D", "CrossAttnUpBlock2D"
UNETS = {
    "sd15": {"sample_size": 64, "cross_attention_dim": 768, "attention_head_dim": 8,
             "block_out_channels": (320, 640, 1280, 1280),
             "down_block_types": (CROSS_DOWN, CROSS_DOWN, CROSS_DOWN, "DownBlock2D"),
             "up_block_types": ("UpBlock2D", CROSS_UP, CROSS_UP, CROSS_UP)},
    "sdxl": {"sample_size": 128, "cross_attention_dim": 2048, "attention_head_dim": [5, 10, 20],
             "block_out_channels": (320, 640, 1280), "use_linear_projection": True,
             "transformer_layers_per_block": [1, 2, 10], "addition_embed_type": "text_time",
             "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2816,
             "down_block_types": ("DownBlock2D", CROSS_DOWN, CROSS_DOWN),
             "up_block_types": (CROSS_UP, CROSS_UP, "UpBlock2D")},
}
VAE = {"block_out_channels": (128, 256, 512, 512), "layers_per_block": 2, "latent_channels": 4,
       "down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4}
SIZES = {"sd15": 512, "sdxl": 1024, "vae": 1024}


def made_on(device, dtype, make):
    """A model whose weights are made on the device: random ones of the default initialization."""
    torch.manual_seed(1)
    with torch.device(device):
        model = make()
    return model.eval().to(device=device, dtype=dtype).to(memory_format=torch.channels_last)


def unet_call(name, size, device, dtype):
    config = UNETS[name]
    model = made_on(device, dtype, lambda: UNet2DConditionModel(in_channels=4, out_channels=4, **config))
    latent = torch.randn(2, 4, size // 8, size // 8, device=device, dtype=dtype).to(memory_format=torch.channels_last)
    states = torch.randn(2, 77, config["cross_attention_dim"], device=device, dtype=dtype)
    added = None
    if "addition_embed_type" in config:
        added = {"text_embeds": torch.randn(2, 1280, device=device, dtype=dtype),
                 "time_ids": torch.tensor([[size, size, 0, 0, size, size]] * 2, device=device, dtype=dtype)}
    timestep = torch.tensor(981, device=device)
    return model, lambda forward: forward(latent, timestep, encoder_hidden_states=states, added_cond_kwargs=added,
                                          return_dict=False)[0]


def vae_call(size, device, dtype):
    model = made_on(device, dtype, lambda: AutoencoderKL(**VAE))
    latent = torch.randn(1, 4, size // 8, size // 8, device=device, dtype=dtype).to(memory_format=torch.channels_last)
    return model, lambda decode: decode(latent, return_dict=False)[0]


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def timed(call, device):
    wait(device)
    start = time.perf_counter()
    call()
    wait(device)
    return time.perf_counter() - start


def measure(part, mode, args, dtype):
    size = args.size or SIZES[part]
    if args.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    model, call = vae_call(size, args.device, dtype) if part == "vae" else unet_call(part, size, args.device, dtype)
    function = model.decode if part == "vae" else model
    if mode == "compile":
        function = torch.compile(function)
    elif mode == "graph":
        function = torch.compile(function, mode="reduce-overhead")
    with torch.no_grad():
        first = timed(lambda: call(function), args.device)
        for _ in range(args.warm_up):
            call(function)
        seconds = [timed(lambda: call(function), args.device) for _ in range(args.repetitions)]
    peak = torch.cuda.max_memory_allocated() if args.device == "cuda" else None
    return {"part": part, "mode": mode, "size": size, "median": statistics.median(seconds), "min": min(seconds),
            "max": max(seconds), "count": len(seconds), "first_call_seconds": first, "memory_peak": peak}


def words(text, known, what):
    chosen = text.split(",")
    for word in chosen:
        if word not in known:
            sys.exit(f"bench: error: {what} '{word}' is none of {', '.join(known)}")
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    parser.add_argument("--parts", default="sd15,sdxl,vae")
    parser.add_argument("--modes", default="eager,compile,graph")
    parser.add_argument("--dtype", default="", help="float16 on cuda, else float32")
    parser.add_argument("--threads", type=int, default=0, help="of a CPU; 0: as torch chooses")
    parser.add_argument("--size", type=int, default=0, help="pixels of a side; 0: 512 of sd15, else 1024")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=2, help="calls after the first one that are not counted")
    args = parser.parse_args()
    parts = words(args.parts, [*UNETS, "vae"], "part")
    modes = words(args.modes, ["eager", "compile", "graph"], "mode")
    if args.size % 64:
        sys.exit("bench: error: --size is not a multiple of 64")
    if args.device == "cpu" and "graph" in modes:
        modes.remove("graph")  # CUDA graphs
    if args.threads:
        torch.set_num_threads(args.threads)
    dtype = getattr(torch, args.dtype or ("float16" if args.device == "cuda" else "float32"))
    rows = []
    for part in parts:
        for mode in modes:
            torch._dynamo.reset()
            rows.append(measure(part, mode, args, dtype))
            print(f"== {part} {mode}: {rows[-1]['median'] * 1e3:.2f} ms", file=sys.stderr, flush=True)
    name = torch.cuda.get_device_name() if args.device == "cuda" else f"{torch.get_num_threads()} threads"
    print(json.dumps({"torch": torch.__version__, "diffusers": diffusers.__version__, "device": args.device,
                      "device_name": name, "dtype": str(dtype).removeprefix("torch."), "results": rows}, indent=1))


if __name__ == "__main__":
    main()
