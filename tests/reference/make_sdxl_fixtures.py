#!/usr/bin/env python3
"""Writes tests/data/pictures/sdxl: a tiny random pipeline in the layout of SDXL as diffusers saves it.

expected.safetensors has the blocks, the whole UNet and the autoencoder as make_picture_fixtures.py describes, and
  text.ids, text_2.ids                    tokens of PROMPT with padding, of either tokenizer
  text.states, text.pooled, text.skipped  penultimate states of both encoders, the pooled text, states of clip_skip 1
  unet.added                              the pooled texts and the numbers of the size, as the UNet takes them
  CASE.latent                             the latents after 10 steps from seed 0, and for `euler` the picture
Needs torch, diffusers 0.39, transformers and tokenizers.
"""
import json

import diffusers
import make_picture_fixtures as common
import torch
import transformers
from safetensors.torch import save_file

FOLDER = common.OUT / "sdxl"
UNET = dict(block_out_channels=(4, 8, 12), layers_per_block=1, sample_size=64, cross_attention_dim=20, norm_num_groups=2,
            attention_head_dim=(1, 2, 3), use_linear_projection=True, transformer_layers_per_block=(1, 2, 3),
            addition_embed_type="text_time", addition_time_embed_dim=6, projection_class_embeddings_input_dim=10 + 6 * 6,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"))
TEXT = dict(hidden_size=8, intermediate_size=16, num_hidden_layers=3, num_attention_heads=2)
TEXT_2 = dict(hidden_size=12, intermediate_size=24, num_hidden_layers=4, num_attention_heads=3, hidden_act="gelu",
              projection_dim=10)
VAE = dict(block_out_channels=(4, 8), norm_num_groups=2, scaling_factor=0.13025,
           down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)
EULER = ("EulerDiscreteScheduler", dict(timestep_spacing="leading", steps_offset=1))
GUIDED = dict(negative_prompt=common.NEGATIVE, guidance_scale=5.0)
# Scheduler and arguments of the pipeline. Turbo and Lightning take one pass a step.
CASES = {
    "euler": (*EULER, GUIDED),
    "zeros": (*EULER, dict(guidance_scale=5.0)),
    "karras": ("DPMSolverMultistepScheduler", dict(use_karras_sigmas=True), GUIDED),
    "turbo": ("EulerAncestralDiscreteScheduler", dict(timestep_spacing="trailing"), dict(guidance_scale=0.0)),
    "lightning": ("EulerDiscreteScheduler", dict(timestep_spacing="trailing"), dict(guidance_scale=0.0)),
    "velocity": ("EulerDiscreteScheduler", common.ZERO_SNR, dict(guidance_rescale=0.7, **GUIDED)),
}


def save_index():
    index = {"_class_name": "StableDiffusionXLPipeline", "_diffusers_version": "0.39.0", "feature_extractor": [None, None],
             "force_zeros_for_empty_prompt": True, "image_encoder": [None, None],
             "scheduler": ["diffusers", EULER[0]], "text_encoder": ["transformers", "CLIPTextModel"],
             "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
             "tokenizer": ["transformers", "CLIPTokenizer"], "tokenizer_2": ["transformers", "CLIPTokenizer"],
             "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"]}
    (FOLDER / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")


def train_tokenizers():
    """The second one pads with "!", as OpenCLIP does."""
    first, words = common.train_tokenizer(FOLDER / "tokenizer")
    common.train_tokenizer(FOLDER / "tokenizer_2")
    file = FOLDER / "tokenizer_2" / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "pad_token": "!"}, indent=2))
    return first, transformers.CLIPTokenizer.from_pretrained(FOLDER / "tokenizer_2"), words


@torch.no_grad()
def main():
    generator, expected = torch.Generator().manual_seed(4), {}
    tokenizer, tokenizer_2, words = train_tokenizers()
    tokens = dict(vocab_size=words, bos_token_id=words - 2, eos_token_id=words - 1, layer_norm_eps=1e-5)
    text = transformers.CLIPTextModel(transformers.CLIPTextConfig(pad_token_id=1, **tokens, **TEXT)).eval()
    text_2 = transformers.CLIPTextModelWithProjection(transformers.CLIPTextConfig(pad_token_id=0, **tokens, **TEXT_2)).eval()
    unet = diffusers.UNet2DConditionModel(in_channels=4, out_channels=4, **UNET).eval()
    vae = diffusers.AutoencoderKL(in_channels=3, out_channels=3, latent_channels=4, **VAE).eval()
    for module in (text, text_2, unet, vae):
        common.randomize(module, generator)
    scheduler = getattr(diffusers, EULER[0])(**common.BETAS, **EULER[1])
    for part, name in ((text, "text_encoder"), (text_2, "text_encoder_2"), (unet, "unet"), (vae, "vae"),
                       (scheduler, "scheduler")):
        part.save_pretrained(FOLDER / name)
    save_index()

    def pipeline(scheduler):
        pipe = diffusers.StableDiffusionXLPipeline(vae=vae, text_encoder=text, text_encoder_2=text_2, tokenizer=tokenizer,
                                                   tokenizer_2=tokenizer_2, unet=unet, scheduler=scheduler)
        pipe.set_progress_bar_config(disable=True)
        return pipe

    pipe = pipeline(scheduler)
    for name, of in (("text", tokenizer), ("text_2", tokenizer_2)):
        ids = of(common.PROMPT, padding="max_length", max_length=77, truncation=True, return_tensors="pt").input_ids
        expected[f"{name}.ids"] = ids[0].int()
    states, negative, pooled, negative_pooled = pipe.encode_prompt(common.PROMPT, negative_prompt=common.NEGATIVE)
    expected["text.states"], expected["text.pooled"] = states[0], pooled[0]
    expected["text.skipped"] = pipe.encode_prompt(common.PROMPT, clip_skip=1)[0][0]

    expected["unet.x"] = torch.randn((2, 4, 8, 12), generator=generator)
    expected["unet.t"] = torch.tensor([981.0, 981.0])
    expected["unet.context"] = torch.cat([negative, states])
    ids = torch.tensor([[16.0, 24.0, 3.0, 5.0, 16.0, 20.0]] * 2)
    added = dict(text_embeds=torch.cat([negative_pooled, pooled]), time_ids=ids)
    expected["unet.pooled"], expected["unet.ids"] = added["text_embeds"], ids[0].int()
    hooks = [*common.record(unet, "unet.", expected), unet.add_embedding.register_forward_hook(
        lambda module, args, output: expected.update({"unet.added": args[0]}))]
    expected["unet.y"] = unet(expected["unet.x"], torch.tensor(981.0), expected["unet.context"],
                              added_cond_kwargs=added).sample
    for hook in hooks:
        hook.remove()
    hooks = common.record(vae, "vae.", expected)
    expected["vae.latent"] = torch.randn((1, 4, 4, 6), generator=generator)
    expected["vae.decoded"] = vae.decode(expected["vae.latent"]).sample
    expected["vae.picture"] = torch.rand((1, 3, 8, 12), generator=generator) * 2 - 1
    expected["vae.moments"] = vae.encode(expected["vae.picture"]).latent_dist.parameters
    for hook in hooks:
        hook.remove()
    for case, (class_name, options, arguments) in CASES.items():
        pipe = pipeline(getattr(diffusers, class_name)(**common.BETAS, **options))
        run = lambda kind: pipe(prompt=common.PROMPT, num_inference_steps=10, height=16, width=24, output_type=kind,
                                generator=torch.Generator().manual_seed(0), **arguments).images
        expected[f"{case}.latent"] = run("latent")[0]
        if case == "euler":
            expected["picture"] = torch.from_numpy(run("np")[0])
    save_file({key: value.contiguous().clone() for key, value in expected.items()}, FOLDER / "expected.safetensors")
    size = sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file())
    print(f"sdxl: {size} bytes, {len(expected)} tensors")


if __name__ == "__main__":
    main()
