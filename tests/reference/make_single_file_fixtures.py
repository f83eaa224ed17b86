#!/usr/bin/env python3
"""Writes tests/data/pictures/single_files: how the tensors of a folder are named in a single file.

NAME.txt, for the pipelines of tests/data/pictures, has a line a tensor: its name in the single file, the part, what is
done (same, convolution: two axes more, transpose, join: rows of three tensors), and the tensors of the part. The file
that they make is checked with diffusers' own conversion. published.json has, for published U-Nets, the names and shapes
by which a file is recognized, and fields of the configuration that they were published with.
Needs torch, diffusers 0.39, safetensors. Usage: make_single_file_fixtures.py
"""
import json
import types

import diffusers
import ldm_names
import torch
from diffusers.loaders import single_file_utils
from make_picture_fixtures import OUT
from safetensors.torch import load_file

FOLDER = OUT / "single_files"
WEIGHTS = {"unet": "diffusion_pytorch_model", "vae": "diffusion_pytorch_model", "text_encoder": "model",
           "text_encoder_2": "model"}
# Prefixes of the text encoders' names, and whether they are in OpenCLIP's layout.
TEXT = {"sd15": [("text_encoder", "cond_stage_model.transformer.", False)],
        "sd21": [("text_encoder", "cond_stage_model.model.", True)],
        "sdxl": [("text_encoder", "conditioner.embedders.0.transformer.", False),
                 ("text_encoder_2", "conditioner.embedders.1.model.", True)]}
CROSS, PLAIN = ("CrossAttnDownBlock2D", "CrossAttnUpBlock2D"), ("DownBlock2D", "UpBlock2D")
PUBLISHED = {
    "sd15": dict(cross_attention_dim=768, attention_head_dim=8, block_out_channels=(320, 640, 1280, 1280), sample_size=64,
                 transformer_layers_per_block=1, use_linear_projection=False, kinds=(CROSS, CROSS, CROSS, PLAIN)),
    "sd21": dict(cross_attention_dim=1024, attention_head_dim=(5, 10, 20, 20), use_linear_projection=True, sample_size=64,
                 block_out_channels=(320, 640, 1280, 1280), transformer_layers_per_block=1,
                 kinds=(CROSS, CROSS, CROSS, PLAIN)),
    "sdxl": dict(cross_attention_dim=2048, attention_head_dim=(5, 10, 20), block_out_channels=(320, 640, 1280),
                 sample_size=128, transformer_layers_per_block=(1, 2, 10), use_linear_projection=True,
                 addition_embed_type="text_time", addition_time_embed_dim=256,
                 projection_class_embeddings_input_dim=2816, kinds=(PLAIN, CROSS, CROSS)),
}
DECIDING = ("attn2.to_q.weight", "middle_block.1.transformer_blocks.0.attn2.to_k.weight", "proj_in.weight",
            "in_layers.2.weight", ".op.weight", "input_blocks.0.0.weight", "out.2.weight", "label_emb.0.0.weight")


def rows_of(name):
    """(name in the single file, part, what is done, names in the part)."""
    weights = {part: load_file(OUT / name / part / f"{stem}.safetensors") for part, stem in WEIGHTS.items()
               if (OUT / name / part).is_dir()}
    config = json.loads((OUT / name / "unet" / "config.json").read_text())
    rows = [("model.diffusion_model." + ldm_names.of_unet(key, config), "unet", "same", [key]) for key in weights["unet"]]
    levels = len(json.loads((OUT / name / "vae" / "config.json").read_text())["block_out_channels"])
    for key, value in weights["vae"].items():
        matrix = "attentions.0.to_" in key and value.ndim == 2
        rows.append(("first_stage_model." + ldm_names.of_autoencoder(key, levels), "vae",
                     "convolution" if matrix else "same", [key]))
    for part, prefix, is_open in TEXT[name]:
        joined = {}
        for key, value in weights[part].items():
            if not is_open:
                rows.append((prefix + "text_model." + key.removeprefix("text_model."), part, "same", [key]))
                continue
            original, third = ldm_names.of_open_clip(key)
            if third is not None:
                joined.setdefault(original, [None] * 3)[third] = key
            else:
                rows.append((prefix + original, part, "transpose" if original == "text_projection" else "same", [key]))
        rows += [(prefix + original, part, "join", keys) for original, keys in joined.items()]
        if name == "sd21":  # the published files have a last layer that is not used
            last = max(int(key.split(".")[-4]) for key in weights[part] if "fc1.weight" in key)
            unused = [(row[0].replace(f"resblocks.{last}.", f"resblocks.{last + 1}."), *row[1:]) for row in rows
                      if f"resblocks.{last}." in row[0]]
            rows += unused
    return rows, weights


def build(rows, weights):
    out = {}
    for original, part, action, keys in rows:
        values = [weights[part][key] for key in keys]
        out[original] = {"same": lambda v: v[0], "convolution": lambda v: v[0][:, :, None, None],
                         "transpose": lambda v: v[0].T.contiguous(), "join": torch.cat}[action](values)
    return out


def require_equal(actual, expected, what):
    strip = lambda values: {key.removeprefix("text_model."): value for key, value in values.items()}
    actual, expected = strip(actual), strip(expected)
    for key, value in expected.items():
        # Some versions of diffusers keep the autoencoder's attention as convolutions.
        assert key in actual, f"{what}: {key} is missing"
        assert torch.equal(actual[key].reshape(value.shape), value), f"{what}: {key}"


def check(name, rows, weights):
    """diffusers' conversion of the single file gives the tensors of the folder."""
    single = build(rows, weights)
    folder = OUT / name
    config = json.loads((folder / "unet" / "config.json").read_text())
    require_equal(single_file_utils.convert_ldm_unet_checkpoint(dict(single), config), weights["unet"], "unet")
    vae = json.loads((folder / "vae" / "config.json").read_text())
    require_equal(single_file_utils.convert_ldm_vae_checkpoint(dict(single), vae), weights["vae"], "vae")
    for part, prefix, is_open in TEXT[name]:
        if is_open:
            width = weights[part]["text_model.final_layer_norm.weight" if "text_model.final_layer_norm.weight"
                                  in weights[part] else "final_layer_norm.weight"].shape[0]
            model = types.SimpleNamespace(config=types.SimpleNamespace(hidden_size=width))
            converted = single_file_utils.convert_open_clip_checkpoint(model, dict(single), prefix=prefix)
        else:
            converted = single_file_utils.convert_ldm_clip_checkpoint(dict(single), remove_prefix=prefix)
        require_equal(converted, weights[part], part)


def published(row):
    row = dict(row)
    kinds = row.pop("kinds")
    row["down_block_types"] = [down for down, _ in kinds]
    row["up_block_types"] = [up for _, up in reversed(kinds)]
    with torch.device("meta"):
        unet = diffusers.UNet2DConditionModel(in_channels=4, out_channels=4, layers_per_block=2, **row)
    config = dict(unet.config)
    names = {}
    for key, value in unet.state_dict().items():
        original = ldm_names.of_unet(key, config)
        if original.endswith(DECIDING):
            names[original] = list(value.shape)
    fields = ("block_out_channels", "cross_attention_dim", "attention_head_dim", "transformer_layers_per_block",
              "down_block_types", "up_block_types", "use_linear_projection", "sample_size", "layers_per_block",
              "projection_class_embeddings_input_dim")
    return {"names": names, "config": {field: config[field] for field in fields}}


def main():
    FOLDER.mkdir(exist_ok=True)
    for name in TEXT:
        rows, weights = rows_of(name)
        check(name, rows, weights)
        (FOLDER / f"{name}.txt").write_text("".join(f"{a} {b} {c} {','.join(d)}\n" for a, b, c, d in rows))
        print(f"{name}: {len(rows)} tensors")
    document = {name: published(row) for name, row in PUBLISHED.items()}
    (FOLDER / "published.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
