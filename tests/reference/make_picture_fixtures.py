#!/usr/bin/env python3
"""Writes tests/data/pictures: tiny random Stable Diffusion pipelines as diffusers saves them, and what they compute.

A folder has the layout of Stable Diffusion 1.5: model_index.json, scheduler/, text_encoder/, tokenizer/ (vocab.json and
merges.txt of a small byte-level BPE trained on tests/data/english.txt), unet/, vae/. Its expected.safetensors, all of
float32, has
  text.ids, text.states, text.skipped   tokens of PROMPT with padding, the last states, and the states of clip_skip 1
  unet.x, unet.t, unet.context, unet.y  one call of the UNet
  BLOCK.in.N, BLOCK.out                 inputs and output of each block of that call, and of the autoencoder
  vae.latent, vae.decoded, vae.picture, vae.moments
  SAMPLER.latent                        the latents after 10 steps with guidance 7.5, from seed 0
  picture                               the decoded picture of the first of these, in [0, 1]
taesd has a small decoder instead of a pipeline.
Needs torch, diffusers 0.39, transformers and tokenizers. Usage: make_picture_fixtures.py [NAME...]
"""
import json
import pathlib
import sys

import diffusers
import tokenizers
import torch
import transformers
from diffusers.models.downsampling import Downsample2D
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.transformers.transformer_2d import Transformer2DModel
from diffusers.models.unets.unet_2d_blocks import UNetMidBlock2D
from diffusers.models.upsampling import Upsample2D
from safetensors.torch import load_file, save_file

TESTS = pathlib.Path(__file__).resolve().parents[1]
OUT = TESTS / "data" / "pictures"
PROMPT = "a Red heart, 2 cats' eyes"
NEGATIVE = "blurry"
VOCABULARY = 500
CLIP_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
BETAS = dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")
PNDM = ("PNDMScheduler", dict(skip_prk_steps=True, steps_offset=1, set_alpha_to_one=False))
DDIM = ("DDIMScheduler", dict(clip_sample=False, steps_offset=1, set_alpha_to_one=False))
SAMPLERS = {
    "pndm": PNDM,
    "ddim": DDIM,
    "euler": ("EulerDiscreteScheduler", dict(timestep_spacing="leading", steps_offset=1)),
    "euler_trailing": ("EulerDiscreteScheduler", dict(timestep_spacing="trailing")),
    "euler_karras": ("EulerDiscreteScheduler", dict(use_karras_sigmas=True)),
    "euler_a": ("EulerAncestralDiscreteScheduler", {}),
    "heun": ("HeunDiscreteScheduler", {}),
    "dpmpp_2m": ("DPMSolverMultistepScheduler", {}),
    "dpmpp_2m_karras": ("DPMSolverMultistepScheduler", dict(use_karras_sigmas=True)),
    "dpmpp_2m_sde": ("DPMSolverMultistepScheduler", dict(algorithm_type="sde-dpmsolver++")),
    "unipc": ("UniPCMultistepScheduler", {}),
    "lcm": ("LCMScheduler", {}),
    "lms": ("LMSDiscreteScheduler", {}),
    "ddpm": ("DDPMScheduler", {}),  # the pipeline sets clip_sample to False
    "tcd": ("TCDScheduler", {}),
    "tcd_noise": ("TCDScheduler", {}, dict(eta=0.3)),
}
ZERO_SNR = dict(prediction_type="v_prediction", rescale_betas_zero_snr=True, timestep_spacing="trailing")
# Name, seed, arguments of the UNet, of the text encoder and of the VAE, and the samplers.
PIPELINES = {
    "sd15": dict(
        seed=1, published_names=True, unet=dict(block_out_channels=(4, 8), layers_per_block=1, sample_size=32, cross_attention_dim=8,
                          norm_num_groups=2, attention_head_dim=2,
                          down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                          up_block_types=("CrossAttnUpBlock2D", "UpBlock2D")),
        text=dict(hidden_size=8, intermediate_size=16, num_hidden_layers=3, num_attention_heads=2),
        vae=dict(block_out_channels=(4, 8), norm_num_groups=2, down_block_types=("DownEncoderBlock2D",) * 2,
                 up_block_types=("UpDecoderBlock2D",) * 2),
        samplers=SAMPLERS),
    # As Stable Diffusion 2.1: linear projections, one head size, v-prediction from pure noise.
    "sd21": dict(
        seed=2, unet=dict(block_out_channels=(8, 16), layers_per_block=1, sample_size=32, cross_attention_dim=8,
                          norm_num_groups=4, attention_head_dim=(2, 4), use_linear_projection=True,
                          down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                          up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")),
        text=dict(hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, hidden_act="gelu"),
        vae=dict(block_out_channels=(4, 4, 8), norm_num_groups=2, down_block_types=("DownEncoderBlock2D",) * 3,
                 up_block_types=("UpDecoderBlock2D",) * 3),
        samplers={"ddim": ("DDIMScheduler", dict(clip_sample=False, **ZERO_SNR)),
                  "euler": ("EulerDiscreteScheduler", ZERO_SNR)}),
}
BLOCKS = (ResnetBlock2D, Transformer2DModel, Downsample2D, Upsample2D, UNetMidBlock2D)


def train_tokenizer(folder):
    """A byte-level BPE as CLIP has it: lower case, "</w>" ends a word, single digits."""
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(end_of_word_suffix="</w>", unk_token="<|endoftext|>"))
    trained.normalizer = tokenizers.normalizers.Lowercase()
    trained.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(CLIP_WORDS), "removed", invert=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)])
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, end_of_word_suffix="</w>",
                                             show_progress=False)
    trained.train([str(TESTS / "data" / "english.txt")], trainer)
    model = json.loads(trained.to_str())["model"]
    words = alphabet + [letter + "</w>" for letter in alphabet]
    merges = [tuple(merge) for merge in model["merges"]]
    for left, right in merges:
        if left + right not in words:
            words.append(left + right)
    words += ["<|startoftext|>", "<|endoftext|>"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    config = dict(tokenizer_class="CLIPTokenizer", model_max_length=77, bos_token="<|startoftext|>",
                  eos_token="<|endoftext|>", unk_token="<|endoftext|>", pad_token="<|endoftext|>")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2))
    return transformers.CLIPTokenizer.from_pretrained(folder), len(words)


def randomize(module, generator):
    """Values of a size that keeps the signal: also of what is zero or one at first."""
    for name, tensor in module.named_parameters():
        noise = torch.randn(tensor.shape, generator=generator)
        if tensor.ndim > 1:
            tensor.data = noise / tensor[0].numel() ** 0.5
        else:
            tensor.data = noise * 0.1 + (1 if "norm" in name and name.endswith("weight") else 0)


def record(model, prefix, expected):
    hooks = []

    def of(name):
        def hook(module, args, kwargs, output):
            values = [v for v in [*args, *kwargs.values()] if isinstance(v, torch.Tensor)]
            for i, value in enumerate(values):
                expected[f"{prefix}{name}.in.{i}"] = value
            expected[f"{prefix}{name}.out"] = output if isinstance(output, torch.Tensor) else output[0]
        return hook

    for name, module in model.named_modules():
        if isinstance(module, BLOCKS):
            hooks.append(module.register_forward_hook(of(name), with_kwargs=True))
    return hooks


@torch.no_grad()
def make(name, row):
    folder, generator, expected = OUT / name, torch.Generator().manual_seed(row["seed"]), {}
    tokenizer, words = train_tokenizer(folder / "tokenizer")
    text_config = transformers.CLIPTextConfig(vocab_size=words, bos_token_id=words - 2, eos_token_id=words - 1,
                                              pad_token_id=1, layer_norm_eps=1e-5, **row["text"])
    text = transformers.CLIPTextModel(text_config).eval()
    unet = diffusers.UNet2DConditionModel(in_channels=4, out_channels=4, **row["unet"]).eval()
    vae = diffusers.AutoencoderKL(in_channels=3, out_channels=3, latent_channels=4, **row["vae"]).eval()
    for module in (text, unet, vae):
        randomize(module, generator)
    vae.encoder.conv_out.weight.data *= 0.1
    first = next(iter(row["samplers"].values()))
    scheduler = getattr(diffusers, first[0])(**BETAS, **first[1])
    text.save_pretrained(folder / "text_encoder")
    if row.get("published_names"):  # transformers 5 leaves the prefix out
        file = folder / "text_encoder" / "model.safetensors"
        save_file({"text_model." + key.removeprefix("text_model."): value for key, value in load_file(file).items()}, file)
    unet.save_pretrained(folder / "unet")
    vae.save_pretrained(folder / "vae")
    scheduler.save_pretrained(folder / "scheduler")
    index = {"_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.39.0", "feature_extractor": [None, None],
             "requires_safety_checker": False, "safety_checker": [None, None],
             "scheduler": ["diffusers", first[0]], "text_encoder": ["transformers", "CLIPTextModel"],
             "tokenizer": ["transformers", "CLIPTokenizer"], "unet": ["diffusers", "UNet2DConditionModel"],
             "vae": ["diffusers", "AutoencoderKL"]}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")

    def states_of(prompt, skip=None):
        ids = tokenizer(prompt, padding="max_length", max_length=77, truncation=True, return_tensors="pt").input_ids
        out = text(ids, output_hidden_states=True)
        if skip is None:
            return ids, out.last_hidden_state
        return ids, (text.text_model if hasattr(text, "text_model") else text).final_layer_norm(out.hidden_states[-(skip + 1)])

    ids, states = states_of(PROMPT)
    expected["text.ids"] = ids[0].int()
    expected["text.states"], expected["text.skipped"] = states[0], states_of(PROMPT, 1)[1][0]

    shape = (2, 4, 8, 12)
    expected["unet.x"] = torch.randn(shape, generator=generator)
    expected["unet.t"] = torch.tensor([981.0, 981.0])
    expected["unet.context"] = torch.cat([states_of(NEGATIVE)[1], states])
    hooks = record(unet, "unet.", expected)
    expected["unet.y"] = unet(expected["unet.x"], torch.tensor(981.0), expected["unet.context"]).sample
    for hook in hooks:
        hook.remove()
    hooks = record(vae, "vae.", expected)
    expected["vae.latent"] = torch.randn((1, 4, 4, 6), generator=generator)
    expected["vae.decoded"] = vae.decode(expected["vae.latent"]).sample
    factor = 2 ** (len(vae.config.block_out_channels) - 1)
    expected["vae.picture"] = torch.rand((1, 3, 4 * factor, 6 * factor), generator=generator) * 2 - 1
    expected["vae.moments"] = vae.encode(expected["vae.picture"]).latent_dist.parameters
    for hook in hooks:
        hook.remove()
    for sampler, (class_name, options, *more) in row["samplers"].items():
        pipe = diffusers.StableDiffusionPipeline(
            vae=vae, text_encoder=text, tokenizer=tokenizer, unet=unet,
            scheduler=getattr(diffusers, class_name)(**BETAS, **options), safety_checker=None, feature_extractor=None,
            requires_safety_checker=False)
        pipe.set_progress_bar_config(disable=True)
        arguments = dict(prompt=PROMPT, negative_prompt=NEGATIVE, num_inference_steps=10, guidance_scale=7.5,
                         height=8 * factor, width=12 * factor, **(more[0] if more else {}))
        run = lambda kind: pipe(generator=torch.Generator().manual_seed(0), output_type=kind, **arguments).images
        expected[f"{sampler}.latent"] = run("latent")[0]
        if "picture" not in expected:
            expected["picture"] = torch.from_numpy(run("np")[0])
    save_file({key: value.contiguous().clone() for key, value in expected.items()}, folder / "expected.safetensors")
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{name}: {size} bytes, {len(expected)} tensors")


@torch.no_grad()
def make_tiny_decoder():
    """tests/data/pictures/taesd: an AutoencoderTiny, `latent` and what it decodes to, in -1 .. 1."""
    folder, generator = OUT / "taesd", torch.Generator().manual_seed(3)
    model = diffusers.AutoencoderTiny(
        encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 2),
        num_decoder_blocks=(2, 1)).eval()
    randomize(model, generator)
    model.save_pretrained(folder)
    latent = torch.randn((1, 4, 6, 10), generator=generator) * 2
    save_file({"latent": latent, "decoded": model.decode(latent).sample.clone()}, folder / "expected.safetensors")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [*PIPELINES, "taesd"]:
        if wanted == "taesd":
            make_tiny_decoder()
        else:
            make(wanted, PIPELINES[wanted])
