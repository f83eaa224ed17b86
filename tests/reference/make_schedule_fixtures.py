#!/usr/bin/env python3
"""Writes tests/data/pictures/schedules.json and noise.json: timesteps and sigmas of diffusers' schedulers, and normal
numbers of PyTorch's CPU generator.

schedules.json is a list of {"config": scheduler_config.json, "steps": [{"steps", "timesteps", "sigmas", "scale"}]}: sigmas
without those that a class repeats, and for classes that have none the ratios sqrt((1 - a) / a) of the timesteps; `scale`
is init_noise_sigma as a factor on unit noise in the scale of the model's input.
noise.json is a list of {"seed", "counts": [...], "numbers"}: of draws of these counts, in sequence, every 509th
number and the last 20.
Needs torch, scipy and diffusers 0.39. Usage: make_schedule_fixtures.py
"""
import json
import pathlib
import warnings

import diffusers
import numpy
import torch

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "pictures"
BETAS = dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")
SIGMAS = (dict(), dict(use_karras_sigmas=True), dict(use_exponential_sigmas=True), dict(use_beta_sigmas=True))
CLASSES = {
    "DDIMScheduler": [dict(clip_sample=False), dict(clip_sample=False, set_alpha_to_one=False)],
    "DDPMScheduler": [dict(clip_sample=False)],
    "PNDMScheduler": [dict(skip_prk_steps=True)],
    "LCMScheduler": [dict()],
    "TCDScheduler": [dict()],
    "EulerDiscreteScheduler": [*SIGMAS, dict(final_sigmas_type="sigma_min"), dict(beta_schedule="linear"),
                               dict(prediction_type="v_prediction", rescale_betas_zero_snr=True)],
    "EulerAncestralDiscreteScheduler": [dict()],
    "HeunDiscreteScheduler": SIGMAS,
    "LMSDiscreteScheduler": SIGMAS,
    "KDPM2DiscreteScheduler": [dict()],
    "KDPM2AncestralDiscreteScheduler": [dict()],
    "DPMSolverMultistepScheduler": [*SIGMAS, dict(beta_schedule="squaredcos_cap_v2"),
                                    dict(prediction_type="v_prediction", rescale_betas_zero_snr=True)],
    "DPMSolverSinglestepScheduler": [dict()],
    "UniPCMultistepScheduler": [dict(), dict(use_karras_sigmas=True)],
    "DEISMultistepScheduler": [dict()],
}
STEPS = (1, 2, 4, 20, 50)


def schedule(scheduler, steps):
    scheduler.set_timesteps(steps)
    times = scheduler.timesteps.double().tolist()
    if getattr(scheduler, "sigmas", None) is None or type(scheduler).__name__ in ("DDIMScheduler", "DDPMScheduler",
                                                                                 "PNDMScheduler", "LCMScheduler", "TCDScheduler"):
        alphas = scheduler.alphas_cumprod.double()
        sigmas = [((1 - alphas[int(t)]) / alphas[int(t)]).sqrt().item() for t in times]
    else:
        sigmas = scheduler.sigmas.double().tolist()
        if type(scheduler).__name__ == "HeunDiscreteScheduler":  # the second call of each step
            times, sigmas = times[::2], sigmas[::2] if steps > 1 else sigmas
            sigmas = sigmas if sigmas[-1] == 0 else [*sigmas, 0.0]
        if type(scheduler).__name__.startswith("KDPM2"):
            times = [times[0], *times[2::2]]
            sigmas = [sigmas[0], *sigmas[2::2]]
            sigmas = sigmas if sigmas[-1] == 0 else [*sigmas, 0.0]
    if type(scheduler).__name__ == "PNDMScheduler" and steps > 1:
        times, sigmas = times[:1] + times[2:], sigmas[:1] + sigmas[2:]
    scale = float(scheduler.init_noise_sigma)
    if not (type(scheduler).__name__.startswith(("DPMSolverM", "DPMSolverS", "UniPC", "DEIS")) or scale == 1):
        scale /= (1 + sigmas[0] ** 2) ** 0.5
    return dict(steps=steps, timesteps=times, sigmas=sigmas, scale=scale)


def schedules():
    rows = []
    for name, variants in CLASSES.items():
        for variant in variants:
            for spacing in ("linspace", "leading", "trailing"):
                if name in ("LCMScheduler", "TCDScheduler") and spacing != "leading":
                    continue
                options = {**BETAS, "timestep_spacing": spacing, "steps_offset": 1, **variant}
                if name == "DPMSolverSinglestepScheduler":  # has no spacing
                    options = {**BETAS, **variant}
                    if spacing != "linspace":
                        continue
                scheduler = getattr(diffusers, name)(**options)
                config = {"_class_name": name, **options}
                row = dict(config=config, steps=[])
                for steps in STEPS:
                    # Diffusers' own errors say that some classes have no schedule of one step.
                    try:
                        row["steps"].append(schedule(scheduler, steps))
                    except (IndexError, ValueError, RuntimeError):
                        continue
                    finally:
                        scheduler = getattr(diffusers, name)(**options)
                rows.append(row)
    return rows


def noise():
    rows = []
    for seed, counts in ((0, [1]), (0, [6]), (0, [15]), (0, [16]), (0, [17]), (42, [16, 17, 3, 5, 31]), (0, [16384]),
                         (2**32 + 7, [4096, 16384]), (1, [262144])):
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.cat([torch.randn(count, generator=generator) for count in counts])
        kept = drawn if drawn.numel() < 200 else torch.cat([drawn[::509], drawn[-20:]])
        rows.append(dict(seed=seed, counts=counts, numbers=[float(numpy.float32(value)) for value in kept]))
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, rows in (("schedules", schedules()), ("noise", noise())):
        text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
        (OUT / f"{name}.json").write_text(text)
        print(name, len(rows), len(text))
