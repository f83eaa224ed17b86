#!/usr/bin/env python3
"""Writes tests/data/pictures/sdxl_variants: latents of the tiny SDXL pipeline with the schedulers of its variants.

expected.safetensors has CASE.latent from seed 0, of Turbo, Lightning, velocity and zero terminal SNR. Needs torch,
diffusers 0.39 or later and transformers; it first draws a picture of make_sdxl_fixtures.py again, so that a diffusers
that draws others is noticed.
"""
import diffusers
import make_picture_fixtures as common
import torch
from make_sdxl_fixtures import CASES as KNOWN
from make_sdxl_fixtures import FOLDER, GUIDED
from safetensors.torch import load_file, save_file

OUT = common.OUT / "sdxl_variants"
ONE_PASS = dict(guidance_scale=0.0)
EULER, TRAILING, VELOCITY = "EulerDiscreteScheduler", dict(timestep_spacing="trailing"), dict(prediction_type="v_prediction")
# Scheduler, its options, steps, arguments of the pipeline.
CASES = {
    "turbo_1": ("EulerAncestralDiscreteScheduler", TRAILING, 1, ONE_PASS),
    "turbo_4": ("EulerAncestralDiscreteScheduler", TRAILING, 4, ONE_PASS),
    "lightning_1": (EULER, dict(prediction_type="sample", **TRAILING), 1, ONE_PASS),
    "lightning_2": (EULER, TRAILING, 2, ONE_PASS),
    "lightning_4": (EULER, TRAILING, 4, ONE_PASS),
    "lightning_8": (EULER, TRAILING, 8, ONE_PASS),
    "velocity_leading": (EULER, dict(timestep_spacing="leading", steps_offset=1, **VELOCITY), 10, GUIDED),
    "velocity_dpmpp": ("DPMSolverMultistepScheduler", VELOCITY, 10, GUIDED),
    "velocity_unipc": ("UniPCMultistepScheduler", VELOCITY, 10, GUIDED),
    "zero_4": (EULER, common.ZERO_SNR, 4, GUIDED),
    "zero_ddim": ("DDIMScheduler", dict(clip_sample=False, **common.ZERO_SNR), 10, dict(guidance_rescale=0.7, **GUIDED)),
}


@torch.no_grad()
def main():
    loaded = diffusers.StableDiffusionXLPipeline.from_pretrained(FOLDER)
    loaded.set_progress_bar_config(disable=True)

    def draw(class_name, options, steps, arguments):
        loaded.scheduler = getattr(diffusers, class_name)(**common.BETAS, **options)
        return loaded(prompt=common.PROMPT, num_inference_steps=steps, height=16, width=24, output_type="latent",
                      generator=torch.Generator().manual_seed(0), **arguments).images[0]

    known = load_file(FOLDER / "expected.safetensors")
    for name in ("euler", "turbo"):
        class_name, options, arguments = KNOWN[name]
        latent = known[f"{name}.latent"]
        error = (draw(class_name, options, 10, arguments) - latent).norm() / latent.norm()
        print(f"{name}: {error:.1e} from make_sdxl_fixtures.py")
        assert error < 5e-5, f"{name} differs by {error} from make_sdxl_fixtures.py"
    expected = {f"{name}.latent": draw(*case).contiguous().clone() for name, case in CASES.items()}
    OUT.mkdir(exist_ok=True)
    save_file(expected, OUT / "expected.safetensors")
    print(f"sdxl_variants: {len(expected)} tensors, diffusers {diffusers.__version__}")


if __name__ == "__main__":
    main()
