"""Pictures from texts: pipelines of Stable Diffusion, with diffusers' names.

>>> pipe = gb.image.Pipeline.from_pretrained("stable-diffusion-v1-5")  # doctest: +SKIP
>>> pipe("a red heart", num_inference_steps=20, seed=1).images[0].save("heart.png")  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _core
from ._core import Tensor

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Interrupted", "Pipeline", "PipelineOutput"]


class Interrupted(RuntimeError):
    """`Pipeline.cancel` was called."""


@dataclass(frozen=True)
class PipelineOutput:
    """Pictures, and how they were drawn.

    Attributes
    ----------
    images : list of PIL.Image.Image, numpy.ndarray or list of Tensor
        As `output_type` says: float32 [N, H, W, 3] from 0 to 1 for 'np'; latents [C, h, w] for 'latent'.
    seeds : list of int
    sampler, schedule : str
    notes : list of str
        A line each, for example on words of a prompt that were left out.
    seconds : float
    """

    images: Any
    seeds: list[int]
    sampler: str
    schedule: str
    notes: list[str]
    seconds: float


class Pipeline:
    """A loaded pipeline; :meth:`from_pretrained` makes one.

    Attributes
    ----------
    facts : dict
        name, class_name, sampler, width, height, size_multiple, file_bytes, device, precision ...
    """

    def __init__(self, pipeline: _core._PicturePipeline) -> None:
        self._pipeline = pipeline
        self._cancel = _core._CancelFlag()
        self.facts: dict[str, Any] = pipeline.facts()

    def __repr__(self) -> str:
        f = self.facts
        return f"<Pipeline {f['name']}: {f['class_name']}, {f['width']} x {f['height']} on {f['device']}>"

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | os.PathLike[str],
        *,
        device: str = "auto",
        threads: int = 0,
        torch_dtype: Any = "auto",
        embeddings: Sequence[str] = (),
        progress: Callable[[str, float], Any] | None = None,
    ) -> Pipeline:
        """Loads the folder of a pipeline, as diffusers or ``gabbro convert`` writes it.

        Parameters
        ----------
        pretrained_model_name_or_path : path
        device : str
            As `gabbro.set_device` takes it, or 'auto'.
        threads : int
            Of a CPU; 0: one per core.
        torch_dtype : str or dtype
            What the U-Net and the autoencoder compute in: 'f32', or 'f16' and 'bf16' with sums in f32; also
            ``torch.float16``. 'auto' is 'f16' on a GPU and 'f32' on a CPU.
        embeddings : list of str
            Files of textual inversion, ``"NAME=FILE"`` or ``"FILE"``.
        progress : callable
            Called with the part that is loaded, and a share from 0 to 1.

        Raises
        ------
        ValueError
            If the files are damaged, or of another pipeline; the message names the file.
        """
        folder = os.fspath(pretrained_model_name_or_path)
        precision = str(torch_dtype).rsplit(".", 1)[-1]
        return cls(_core._PicturePipeline.load(folder, device, threads, precision, list(embeddings), progress))

    def cancel(self) -> None:
        """Stops the call that runs, from another thread or from a callback, within a step."""
        self._cancel.cancel()

    def __call__(
        self,
        prompt: str | Sequence[str],
        *,
        height: int | None = None,
        width: int | None = None,
        num_inference_steps: int = 50,
        guidance_scale: float = 7.5,
        negative_prompt: str | Sequence[str] | None = None,
        num_images_per_prompt: int = 1,
        eta: float | None = None,
        generator: Any = None,
        seed: int | None = None,
        output_type: Literal["pil", "np", "latent"] = "pil",
        guidance_rescale: float = 0.0,
        clip_skip: int | None = None,
        callback_on_step_end: Callable[[Pipeline, int, float, dict[str, Any]], Any] | None = None,
        image: Any = None,
        strength: float = 0.8,
        sampler: str = "",
        schedule: str = "",
        like: Literal["", "diffusers", "comfyui", "a1111"] = "",
        weights: Literal["none", "a1111", "comfyui"] = "none",
        rng: Literal["torch", "nv"] = "torch",
    ) -> PipelineOutput:
        """Draws pictures.

        Parameters
        ----------
        prompt, negative_prompt : str or list of str
        height, width : int
            Multiples of ``facts["size_multiple"]``; None: the sides of `image`, else the model's.
        num_inference_steps : int
        guidance_scale : float
            At most 1: no negative prompt, and half the work.
        num_images_per_prompt : int
        eta : float
            New noise in each step; None: the sampler's.
        generator : int, or an object with ``initial_seed()``
            Another name of `seed`, for example a ``torch.Generator``; only its seed counts.
        seed : int
            Picture i has seed + i; None: random.
        output_type : str
            'pil' needs Pillow.
        guidance_rescale : float
        clip_skip : int
            Last layers of the text encoder to leave out.
        callback_on_step_end : callable
            Called with the pipeline, the number of the step from 0, its timestep, and a dict whose
            ``"pred_original_sample"`` is the latent picture [C, h, w] that the model sees.
        image : PIL.Image.Image or numpy.ndarray
            A picture to redraw: RGB, [H, W, 3] of uint8, or of floats from 0 to 1.
        strength : float
            0: `image` unchanged; 1: from noise alone.
        sampler, schedule, like, weights, rng : str
            As the options of ``gabbro image``.

        Returns
        -------
        PipelineOutput

        Raises
        ------
        ValueError
            If an argument is out of range; the message names it.
        Interrupted
            If `cancel` was called.
        """
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        negatives = [negative_prompt or ""] if isinstance(negative_prompt, str | None) else list(negative_prompt)
        if len(negatives) == 1:
            negatives *= len(prompts)
        if len(negatives) != len(prompts):
            raise ValueError(f"[Pipeline] {len(negatives)} negative prompts for {len(prompts)} prompts")
        if num_images_per_prompt < 1:
            raise ValueError(f"[Pipeline] num_images_per_prompt {num_images_per_prompt} is less than 1")
        if output_type not in ("pil", "np", "latent"):
            raise ValueError(f"[Pipeline] output_type is {output_type!r}, expected 'pil', 'np' or 'latent'")
        first = _seed_of(generator, seed)
        options: dict[str, Any] = {
            "height": height or 0,
            "width": width or 0,
            "num_inference_steps": num_inference_steps,
            "guidance_scale": guidance_scale,
            "guidance_rescale": guidance_rescale,
            "clip_skip": clip_skip or 0,
            "sampler": sampler,
            "schedule": schedule,
            "like": like,
            "strength": strength,
            "weights": weights,
            "rng": rng,
        }
        if eta is not None:
            options["eta"] = eta
        if image is not None:
            options["image"] = _rgb_of("image", image)

        def on_step(step: int, steps: int, timestep: float, latent: Tensor) -> None:
            assert callback_on_step_end is not None
            callback_on_step_end(self, step - 1, timestep, {"pred_original_sample": latent})

        report = None if callback_on_step_end is None else on_step
        self._cancel = _core._CancelFlag()
        results: list[dict[str, Any]] = []
        for text, negative in zip(prompts, negatives, strict=True):
            for _ in range(num_images_per_prompt):
                each = {"prompt": text, "negative_prompt": negative, "seed": first + len(results)}
                result = self._pipeline.generate({**options, **each}, report, self._cancel)
                if not result:
                    raise Interrupted("canceled")
                results.append(result)
        return PipelineOutput(
            images=_images(results, output_type),
            seeds=[first + i for i in range(len(results))],
            sampler=results[0]["sampler"] if results else "",
            schedule=results[0]["schedule"] if results else "",
            notes=list(dict.fromkeys(note for result in results for note in result["notes"])),
            seconds=sum(result["seconds"] for result in results),
        )


def _seed_of(generator: Any, seed: int | None) -> int:
    if generator is not None and seed is not None:
        raise ValueError("[Pipeline] generator and seed exclude each other")
    if generator is not None:
        seed = generator if isinstance(generator, int) else generator.initial_seed()
    return random.getrandbits(32) if seed is None else seed


def _rgb_of(name: str, picture: Any) -> tuple[bytes, int, int]:
    """Bytes, width and height of a picture of Pillow, or of an array."""
    import numpy as np

    array = np.asarray(picture.convert("RGB") if hasattr(picture, "convert") else picture)
    if array.ndim != 3 or array.shape[2] != 3:
        raise ValueError(f"[Pipeline] {name} has shape {array.shape}, expected (height, width, 3)")
    if array.dtype != np.uint8:
        array = np.rint(np.clip(array, 0, 1) * 255).astype(np.uint8)
    return array.tobytes(), array.shape[1], array.shape[0]


def _pixels(result: dict[str, Any]) -> np.ndarray:
    import numpy as np

    return np.frombuffer(result["pixels"], np.uint8).reshape(result["height"], result["width"], 3)


def _images(results: list[dict[str, Any]], output_type: str) -> Any:
    if output_type == "latent":
        return [result["latent"] for result in results]
    if output_type == "np":
        import numpy as np

        return np.stack([_pixels(result) for result in results]).astype(np.float32) / 255
    try:
        from_array = importlib.import_module("PIL.Image").fromarray
    except ImportError:
        raise ImportError("[Pipeline] output_type='pil' needs Pillow; 'np' gives arrays") from None
    return [from_array(_pixels(result)) for result in results]
