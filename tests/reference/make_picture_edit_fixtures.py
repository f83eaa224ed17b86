#!/usr/bin/env python3
"""Writes tests/data/pictures/edits: what diffusers makes of pictures with the pipeline tests/data/pictures/sd15.

expected.safetensors, all of float32:
  init, mask                    a picture [16, 24, 3] and a mask [16, 24], 0 .. 255; where the mask is 255 it is redrawn
  to_picture.SAMPLER.latent     latents of StableDiffusionImg2ImgPipeline: 10 steps, strength 0.6, seed 0
  to_picture.picture            the decoded picture of ddim, in [0, 1]
  inpaint.SAMPLER.latent        of StableDiffusionInpaintPipeline with the mask, strength 1
  inpaint_part.SAMPLER.latent   the same with strength 0.6
  inpaint9.SAMPLER.latent       the same with the U-Net of 9 channels in unet9/, strength 1
  resized.WxH, blurred.R        Pillow's Lanczos of init [H, W, 3], and its Gaussian blur of mask
Needs torch, diffusers 0.39, transformers and Pillow. Usage: make_picture_edit_fixtures.py
"""
import diffusers
import numpy
import PIL.Image
import PIL.ImageFilter
import torch
from make_picture_fixtures import BETAS, NEGATIVE, OUT, PROMPT, SAMPLERS, randomize
from safetensors.torch import save_file

WIDTH, HEIGHT = 24, 16
# Without LMS, which uses slopes that it does not have when it begins after the first step.
TO_PICTURE = ["ddim", "euler", "euler_karras", "euler_a", "heun", "dpmpp_2m", "dpmpp_2m_sde", "unipc", "lcm", "ddpm"]
INPAINT = ["ddim", "euler", "euler_a", "dpmpp_2m"]


def tensor(picture):
    return torch.from_numpy(numpy.array(picture)).float()


@torch.no_grad()
def main():
    folder, generator, expected = OUT / "edits", torch.Generator().manual_seed(4), {}
    sd15 = diffusers.StableDiffusionPipeline.from_pretrained(OUT / "sd15", safety_checker=None)
    # Smooth colors, as far as so few pixels can be.
    small = torch.randint(0, 256, (5, 7, 3), generator=generator).to(torch.uint8).numpy()
    init = PIL.Image.fromarray(small).resize((WIDTH, HEIGHT), PIL.Image.Resampling.BICUBIC)
    mask = numpy.zeros((HEIGHT, WIDTH), numpy.uint8)
    mask[3:11, 5:18] = 255
    mask = PIL.Image.fromarray(mask)
    expected["init"], expected["mask"] = tensor(init), tensor(mask)
    for width, height in ((13, 9), (24, 10), (40, 33), (1, 1)):
        expected[f"resized.{width}x{height}"] = tensor(init.resize((width, height), PIL.Image.Resampling.LANCZOS))
    for radius in (0.5, 2, 7):
        expected[f"blurred.{radius}"] = tensor(mask.filter(PIL.ImageFilter.GaussianBlur(radius)))

    def pipeline(kind, sampler, unet=sd15.unet):
        class_name, options, *_ = SAMPLERS[sampler]
        pipe = kind(vae=sd15.vae, text_encoder=sd15.text_encoder, tokenizer=sd15.tokenizer, unet=unet,
                    scheduler=getattr(diffusers, class_name)(**BETAS, **options), safety_checker=None,
                    feature_extractor=None, requires_safety_checker=False)
        pipe.set_progress_bar_config(disable=True)
        return pipe

    def run(pipe, output="latent", **arguments):
        return pipe(PROMPT, negative_prompt=NEGATIVE, image=init, num_inference_steps=10, guidance_scale=7.5,
                    generator=torch.Generator().manual_seed(0), output_type=output, **arguments).images

    for sampler in TO_PICTURE:
        pipe = pipeline(diffusers.StableDiffusionImg2ImgPipeline, sampler)
        expected[f"to_picture.{sampler}.latent"] = run(pipe, strength=0.6)[0]
    pipe = pipeline(diffusers.StableDiffusionImg2ImgPipeline, "ddim")
    expected["to_picture.picture"] = torch.from_numpy(run(pipe, "np", strength=0.6)[0])
    unet9 = diffusers.UNet2DConditionModel.from_config(sd15.unet.config, in_channels=9).eval()
    randomize(unet9, generator)
    unet9.save_pretrained(folder / "unet9")
    size = dict(height=HEIGHT, width=WIDTH)
    for sampler in INPAINT:
        pipe = pipeline(diffusers.StableDiffusionInpaintPipeline, sampler)
        expected[f"inpaint.{sampler}.latent"] = run(pipe, mask_image=mask, strength=1.0, **size)[0]
        expected[f"inpaint_part.{sampler}.latent"] = run(pipe, mask_image=mask, strength=0.6, **size)[0]
        pipe = pipeline(diffusers.StableDiffusionInpaintPipeline, sampler, unet9)
        expected[f"inpaint9.{sampler}.latent"] = run(pipe, mask_image=mask, strength=1.0, **size)[0]
    save_file({key: value.contiguous().float().clone() for key, value in expected.items()},
              folder / "expected.safetensors")


if __name__ == "__main__":
    main()
