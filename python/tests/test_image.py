"""gabbro.image: pictures equal diffusers' and the command line's; arguments, callbacks, cancellation."""

import shutil
import struct
import subprocess
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

import gabbro as gb

PIPELINES = Path(__file__).resolve().parents[2] / "tests" / "data" / "pictures"
PROGRAM = Path(gb._core.__file__).parents[2] / "bin" / "gabbro"
PROMPT = "a Red heart, 2 cats' eyes"
SIZE = {"width": 24, "height": 16}


@pytest.fixture(scope="module")
def pipe():
    return gb.image.Pipeline.from_pretrained(PIPELINES / "sd15", device="cpu", threads=1)


def pixels_of_png(data):
    """[H, W, 3] of an RGB file of 8 bits (PNG specification, section 9)."""
    width, height = struct.unpack(">II", data[16:24])
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        packed += data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
    pixels = np.zeros((height + 1, 3 * width + 3), np.int64)
    for y, row in enumerate(rows, 1):
        for x, value in enumerate(row[1:], 3):
            left, up, corner = pixels[y, x - 3], pixels[y - 1, x], pixels[y - 1, x - 3]
            nearest = min((left, up, corner), key=lambda p: abs(left + up - corner - p))
            guess = [0, left, up, (left + up) // 2, nearest][row[0]]
            pixels[y, x] = (int(value) + guess) % 256
    return pixels[1:, 3:].reshape(height, width, 3).astype(np.uint8)


def test_pictures_and_latents_equal_those_of_diffusers(pipe):
    expected = gb.load_state(str(PIPELINES / "sd15" / "expected.safetensors"))
    arguments = {"negative_prompt": "blurry", "num_inference_steps": 10, "guidance_scale": 7.5, "seed": 0, **SIZE}
    [latent] = pipe(PROMPT, output_type="latent", **arguments).images
    wanted = expected["pndm.latent"].numpy()
    assert np.linalg.norm(latent.numpy() - wanted) <= 1e-4 * np.linalg.norm(wanted)
    picture = pipe(PROMPT, output_type="np", **arguments).images
    assert picture.shape == (1, 16, 24, 3) and picture.dtype == np.float32
    assert np.abs(picture[0] - expected["picture"].numpy()).max() <= 1 / 255


@pytest.mark.skipif(not PROGRAM.exists(), reason="the command line is not built")
def test_a_picture_equals_that_of_the_command_line(pipe, tmp_path):
    out = tmp_path / "out.png"
    options = ["-W", "24", "-H", "16", "--steps", "3", "--seed", "5", "--device", "cpu", "--weights", "a1111"]
    options += ["--sampler", "euler_a", "--schedule", "karras", "--rng", "nv", "--clip-skip", "1", "-n", "dull"]
    subprocess.run([PROGRAM, "image", PIPELINES / "sd15", "a (red:1.3) heart", "-o", out, *options], check=True)
    result = pipe(
        "a (red:1.3) heart",
        negative_prompt="dull",
        num_inference_steps=3,
        seed=5,
        sampler="euler_a",
        schedule="karras",
        rng="nv",
        clip_skip=1,
        weights="a1111",
        output_type="np",
        **SIZE,
    )
    assert (result.sampler, result.schedule, result.seeds) == ("euler_a", "karras", [5])
    assert np.array_equal(np.round(result.images[0] * 255).astype(np.uint8), pixels_of_png(out.read_bytes()))


def test_each_picture_has_its_seed(pipe):
    arguments = {"num_inference_steps": 2, "output_type": "np", **SIZE}
    many = pipe(["a cat", "a dog"], num_images_per_prompt=2, generator=7, **arguments)
    assert many.seeds == [7, 8, 9, 10]
    assert np.array_equal(many.images[2], pipe("a dog", seed=9, **arguments).images[0])

    class Generator:
        def initial_seed(self):
            return 8

    assert np.array_equal(many.images[1], pipe("a cat", generator=Generator(), **arguments).images[0])
    first, second = (pipe("a cat", **arguments).seeds[0] for _ in range(2))
    assert first != second
    assert pipe("7 " * 90, seed=1, **arguments).notes


def test_steps_are_reported(pipe):
    seen = []

    def on_step(caller, step, timestep, values):
        assert caller is pipe
        seen.append((step, timestep, values["pred_original_sample"].shape))

    pipe("a", num_inference_steps=3, seed=1, sampler="euler", callback_on_step_end=on_step, output_type="np", **SIZE)
    assert [step for step, _, _ in seen] == [0, 1, 2]
    assert seen[0][1] > seen[1][1] > seen[2][1] >= 0
    assert {shape for _, _, shape in seen} == {(4, 8, 12)}

    def fails(*_):
        raise LookupError("from the callback")

    with pytest.raises(LookupError, match="from the callback"):
        pipe("a", num_inference_steps=3, callback_on_step_end=fails, output_type="np", **SIZE)


def test_a_call_is_canceled(pipe):
    steps = []

    def stops(caller, step, *_):
        steps.append(step)
        thread = threading.Thread(target=caller.cancel)
        thread.start()
        thread.join()

    with pytest.raises(gb.image.Interrupted):
        pipe("a", num_inference_steps=9, callback_on_step_end=stops, output_type="np", **SIZE)
    assert steps == [0]
    assert pipe("a", num_inference_steps=1, output_type="np", **SIZE).images.shape == (1, 16, 24, 3)


def test_pictures_of_pillow(pipe):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    [picture] = pipe("a", num_inference_steps=1, seed=1, **SIZE).images
    assert isinstance(picture, image.Image) and picture.size == (24, 16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 25}, "width 25"),
        ({"num_inference_steps": 0}, "steps 0"),
        ({"guidance_scale": float("nan")}, "guidance"),
        ({"sampler": "none"}, "'none'"),
        ({"schedule": "none"}, "'none'"),
        ({"weights": "other"}, "'other'"),
        ({"rng": "cuda"}, "'cuda'"),
        ({"eta": 2.0}, "eta 2"),
        ({"clip_skip": 9}, "3 layers"),
        ({"num_images_per_prompt": 0}, "num_images_per_prompt 0"),
        ({"negative_prompt": ["a", "b"]}, "2 negative prompts"),
        ({"generator": 1, "seed": 1}, "exclude"),
        ({"output_type": "jpeg"}, "'jpeg'"),
    ],
)
def test_refused_arguments(pipe, arguments, message):
    with pytest.raises(ValueError, match=message):
        pipe("a", **{"output_type": "np", **SIZE, **arguments})


def test_refused_types_and_files(pipe, tmp_path):
    with pytest.raises(TypeError, match="num_inference_steps"):
        pipe("a", num_inference_steps="3", output_type="np")
    with pytest.raises(ValueError, match="no such folder"):
        gb.image.Pipeline.from_pretrained(tmp_path / "none")
    shutil.copytree(PIPELINES / "sd15", tmp_path / "cut")
    (tmp_path / "cut" / "unet" / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json"):
        gb.image.Pipeline.from_pretrained(tmp_path / "cut")


def test_loading_is_reported():
    seen = []
    pipe = gb.image.Pipeline.from_pretrained(
        PIPELINES / "sd21", device="cpu", progress=lambda part, done: seen.append((part, done))
    )
    assert seen[-1] == ("autoencoder", 1.0)
    assert "sd21: StableDiffusionPipeline" in repr(pipe)
    assert pipe.facts["width"] == 128


def test_half_precision_is_near_to_f32(pipe):
    arguments = {"num_inference_steps": 4, "seed": 0, "output_type": "latent", **SIZE}
    assert pipe.facts["precision"] == "f32"
    [wide] = pipe(PROMPT, **arguments).images
    for dtype, name in (("f16", "f16"), (gb.float16, "f16"), ("float16", "f16")):
        half = gb.image.Pipeline.from_pretrained(PIPELINES / "sd15", device="cpu", threads=1, torch_dtype=dtype)
        assert half.facts["precision"] == name
        [latent] = half(PROMPT, **arguments).images
        difference = np.linalg.norm(latent.numpy() - wide.numpy())
        assert 0 < difference <= 2e-2 * np.linalg.norm(wide.numpy())
    with pytest.raises(ValueError, match="precision 'f8'"):
        gb.image.Pipeline.from_pretrained(PIPELINES / "sd15", device="cpu", torch_dtype="f8")
