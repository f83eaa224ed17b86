#!/usr/bin/env python3
"""Writes tests/data/pictures/sdxl_edits: what diffusers makes of pictures with the pipeline tests/data/pictures/sdxl.

expected.safetensors has the latents after 10 steps from seed 0, of the picture and the mask in `edits`:
  to_picture.SAMPLER.latent     of StableDiffusionXLImg2ImgPipeline, strength 0.6
  inpaint.SAMPLER.latent        of StableDiffusionXLInpaintPipeline, strength 1
  inpaint_part.SAMPLER.latent   the same with strength 0.6
  inpaint9.SAMPLER.latent       the same with the U-Net of 9 channels in unet9/, strength 1
Needs torch, diffusers (written with 0.42.1), transformers and Pillow. Usage: make_sdxl_edit_fixtures.py
"""
import diffusers
import numpy
import PIL.Image
import torch
from make_picture_fixtures import BETAS, NEGATIVE, OUT, PROMPT, SAMPLERS, randomize
from safetensors.torch import load_file, save_file

FOLDER = OUT / "sdxl_edits"


@torch.no_grad()
def main():
    expected = {}
    edits = load_file(OUT / "edits" / "expected.safetensors")
    init, mask = (PIL.Image.fromarray(edits[name].numpy().astype(numpy.uint8)) for name in ("init", "mask"))
    xl = diffusers.StableDiffusionXLPipeline.from_pretrained(OUT / "sdxl")
    unet9 = diffusers.UNet2DConditionModel.from_config(xl.unet.config, in_channels=9).eval()
    randomize(unet9, torch.Generator().manual_seed(5))
    unet9.save_pretrained(FOLDER / "unet9")

    def run(kind, sampler, unet=xl.unet, **arguments):
        class_name, options, *_ = SAMPLERS[sampler]
        pipe = kind(vae=xl.vae, text_encoder=xl.text_encoder, text_encoder_2=xl.text_encoder_2, tokenizer=xl.tokenizer,
                    tokenizer_2=xl.tokenizer_2, unet=unet, add_watermarker=False,
                    scheduler=getattr(diffusers, class_name)(**BETAS, **options))
        pipe.set_progress_bar_config(disable=True)
        return pipe(prompt=PROMPT, negative_prompt=NEGATIVE, image=init, num_inference_steps=10, guidance_scale=5.0,
                    generator=torch.Generator().manual_seed(0), output_type="latent", **arguments).images[0]

    inpaint = diffusers.StableDiffusionXLInpaintPipeline
    masked = dict(mask_image=mask, height=init.height, width=init.width)
    for sampler in ("ddim", "euler", "dpmpp_2m"):
        expected[f"to_picture.{sampler}.latent"] = run(diffusers.StableDiffusionXLImg2ImgPipeline, sampler, strength=0.6)
        expected[f"inpaint.{sampler}.latent"] = run(inpaint, sampler, strength=1.0, **masked)
        expected[f"inpaint_part.{sampler}.latent"] = run(inpaint, sampler, strength=0.6, **masked)
        expected[f"inpaint9.{sampler}.latent"] = run(inpaint, sampler, unet9, strength=1.0, **masked)
    save_file({key: value.contiguous().float().clone() for key, value in expected.items()}, FOLDER / "expected.safetensors")


if __name__ == "__main__":
    main()
