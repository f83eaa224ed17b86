"""The folder of a Stable Diffusion pipeline, as diffusers saves it."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import networks
import numpy as np
import text_encoder

import gabbro as gb
from gabbro import nn

SIDE = 16  # of latents
SCHEDULER = {
    "_class_name": "DPMSolverMultistepScheduler",
    "_diffusers_version": "0.39.0",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000,
    "prediction_type": "v_prediction",
    "solver_order": 2,
    "steps_offset": 1,
    "timestep_spacing": "trailing",
}


def unet_config() -> dict[str, Any]:
    channels = networks.UNET["channels"]
    down = ["CrossAttnDownBlock2D"] * (len(channels) - 1) + ["DownBlock2D"]
    return {
        "_class_name": "UNet2DConditionModel",
        "_diffusers_version": "0.39.0",
        "act_fn": "silu",
        "attention_head_dim": list(networks.UNET["heads"]),  # diffusers' name for numbers of heads
        "block_out_channels": list(channels),
        "cross_attention_dim": text_encoder.TEXT["hidden_size"],
        "down_block_types": down,
        "up_block_types": [name.replace("Down", "Up") for name in down[::-1]],
        "in_channels": networks.UNET["latent"],
        "out_channels": networks.UNET["latent"],
        "layers_per_block": networks.UNET["resnets"],
        "norm_num_groups": networks.UNET["groups"],
        "norm_eps": 1e-5,
        "sample_size": SIDE,
        "use_linear_projection": True,
    }


def vae_config() -> dict[str, Any]:
    channels = networks.VAE["channels"]
    return {
        "_class_name": "AutoencoderKL",
        "_diffusers_version": "0.39.0",
        "act_fn": "silu",
        "block_out_channels": list(channels),
        "down_block_types": ["DownEncoderBlock2D"] * len(channels),
        "up_block_types": ["UpDecoderBlock2D"] * len(channels),
        "in_channels": 3,
        "out_channels": 3,
        "latent_channels": networks.VAE["latent"],
        "layers_per_block": networks.VAE["resnets"],
        "norm_num_groups": networks.VAE["groups"],
        "sample_size": SIDE * 2 ** (len(channels) - 1),
        "scaling_factor": 1.0,
    }


def text_config(words: int) -> dict[str, Any]:
    return {
        "architectures": ["CLIPTextModel"],
        "model_type": "clip_text_model",
        "bos_token_id": words - 2,
        "eos_token_id": words - 1,
        "pad_token_id": words - 1,
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": text_encoder.TOKENS,
        "projection_dim": text_encoder.TEXT["hidden_size"],
        "vocab_size": words,
        **text_encoder.TEXT,
    }


def write_json(path: pathlib.Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def save(
    path: pathlib.Path, modules: dict[str, nn.Module], vocabulary: dict[str, int], merges: list[Any], weights: str
) -> None:
    files = {"vae": "diffusion_pytorch_model", "unet": "diffusion_pytorch_model", "text_encoder": "model"}
    configs = {"vae": vae_config(), "unet": unet_config(), "text_encoder": text_config(len(vocabulary))}
    kind = np.float16 if weights == "f16" else np.float32
    for name, module in modules.items():
        write_json(path / name / "config.json", configs[name])
        state = {key: gb.tensor(value.numpy().astype(kind)) for key, value in module.state_dict().items()}
        gb.save_state(path / name / f"{files[name]}.safetensors", state)
    write_json(path / "scheduler" / "scheduler_config.json", SCHEDULER)
    write_json(path / "tokenizer" / "vocab.json", vocabulary)
    lines = "".join(f"{first} {second}\n" for first, second in merges)
    (path / "tokenizer" / "merges.txt").write_text("#version: 0.2\n" + lines, encoding="utf-8")
    special = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
    tokenizer = {
        "tokenizer_class": "CLIPTokenizer",
        "model_max_length": text_encoder.TOKENS,
        "pad_token": "<|endoftext|>",
    }
    write_json(path / "tokenizer" / "tokenizer_config.json", {**tokenizer, **special})
    index = {
        "_class_name": "StableDiffusionPipeline",
        "_diffusers_version": "0.39.0",
        "feature_extractor": [None, None],
        "requires_safety_checker": False,
        "safety_checker": [None, None],
        "scheduler": ["diffusers", SCHEDULER["_class_name"]],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    write_json(path / "model_index.json", index)
