"""`image --init`, --mask, --lora, --batch, --hires, --parameters and --resume-latent, and what is refused."""
import json
import shutil
import struct
import zlib

import support
from picture_files import chunks, pixels, png_of, text_of
from support import ROOT, TestCase

MODEL = ROOT / "tests" / "data" / "pictures" / "sd15"


def color(x, y):
    return 10 * x % 256, 20 * y % 256, 90


class Drawn(TestCase):
    def setUp(self):
        super().setUp()
        self.init = self.file("init.png", png_of(24, 16, color))

    def draw(self, *arguments, name="out.png"):
        out = self.folder / name
        result = self.succeeds("image", MODEL, "a red heart", "-o", out, "--steps", "4", "--seed", "5", "--device", "cpu",
                               *arguments)
        return out.read_bytes(), result

    def refused(self, *arguments, says):
        out = self.folder / "none.png"
        self.fails(2, "image", MODEL, "a", "-o", out, "--steps", "4", "--device", "cpu", *arguments, says=says)
        self.assertFalse(out.exists())


class ImageEdits(Drawn):
    def test_a_picture_redrawn(self):
        png, _ = self.draw("--init", self.init, "--strength", "0.5")
        self.assertEqual(pixels(png)[:2], (24, 16))
        self.assertIn(b"Denoising strength: 0.5", text_of(png)["parameters"])
        same, _ = self.draw("--init", self.init, "--strength", "0")
        self.assertEqual(pixels(same)[2], b"".join(bytes(color(x, y)) for y in range(16) for x in range(24)))
        redrawn, _ = self.draw("--init", self.init, "--strength", "1")
        text, _ = self.draw("-W", "24", "-H", "16")
        self.assertEqual(pixels(redrawn), pixels(text))
        self.assertNotEqual(pixels(png), pixels(text))

    def test_the_size_of_the_picture(self):
        odd = self.file("odd.png", png_of(21, 9, color))
        png, result = self.draw("--init", odd, "--strength", "0.5")
        self.assertEqual(pixels(png)[:2], (20, 8))
        self.assertIn("note: the picture of 21 x 9 pixels is resized to 20 x 8", result.err.decode())
        png, _ = self.draw("--init", odd, "--strength", "0.5", "-W", "32", "-H", "16")
        self.assertEqual(pixels(png)[:2], (32, 16))
        point = self.file("point.png", png_of(1, 1, color))
        self.assertEqual(pixels(self.draw("--init", point)[0])[:2], (2, 2))

    def test_other_kinds_of_pictures(self):
        gray = self.file("gray.png", png_of(24, 16, lambda x, y: (10 * x % 256,), 1))
        clear = self.file("clear.png", png_of(24, 16, lambda x, y: (*color(x, y), 128), 4))
        for path in (gray, clear):
            self.assertEqual(pixels(self.draw("--init", path)[0])[:2], (24, 16))

    def test_the_steps_of_other_programs(self):
        evaluations = {}
        for like in ("diffusers", "comfyui", "a1111"):
            out = self.folder / "like.png"
            document = json.loads(self.succeeds("image", MODEL, "a", "-o", out, "--steps", "8", "--device", "cpu", "--json",
                                                "--sampler", "euler", "--init", self.init, "--strength", "0.5", "--like",
                                                like).text)
            evaluations[like] = document["pictures"][0]["evaluations"]
        self.assertEqual(evaluations, {"diffusers": 4, "comfyui": 8, "a1111": 5})
        # Options count more than the program's.
        nv, _ = self.draw("--like", "a1111", "-W", "24", "-H", "16")
        cpu, _ = self.draw("--like", "a1111", "-W", "24", "-H", "16", "--rng", "torch")
        self.assertIn(b"RNG: NV", text_of(nv)["parameters"])
        self.assertIn(b"Sampler: DPM++ 2M, Schedule type: Karras", text_of(nv)["parameters"])
        self.assertIn(b"RNG: CPU", text_of(cpu)["parameters"])
        self.assertNotEqual(dict(chunks(nv))["IDAT"], dict(chunks(cpu))["IDAT"])

    def test_refused_pictures(self):
        bomb = png_of(1, 1, color)
        bomb = bomb[:16] + b"\x7f\xff\xff\xff" * 2 + bomb[24:]
        for arguments, says in (
                (("--init", self.folder / "none.png"), "none.png"), (("--init", self.folder), ""),
                (("--init", self.file("text.png", "x")), "text.png"),
                (("--init", self.file("cut.png", self.init.read_bytes()[:40])), "cut.png"),
                (("--init", self.file("bomb.png", bomb)), "bomb.png"), (("--strength", "0.5"), "--init"),
                (("--init", self.init, "--strength", "2"), "--strength 2"),
                (("--init", self.init, "--strength", "-1"), "--strength -1"),
                (("--init", self.init, "--strength", "nan"), "nan"),
                (("--init", self.init, "--strength", "0.2"), ("less than a step", "0.25")),
                (("--like", "other"), "other")):
            with self.subTest(arguments=arguments):
                self.refused(*arguments, says=says)


LORAS = ROOT / "tests" / "data" / "pictures" / "lora"


class Adapters(TestCase):
    def draw(self, *arguments, prompt="a cat", name="out.png"):
        out = self.folder / name
        self.succeeds("image", MODEL, prompt, "-o", out, "-W", "24", "-H", "16", "--steps", "2", "--seed", "5", "--device",
                      "cpu", *arguments)
        return out.read_bytes()

    def refused(self, *arguments, says, prompt="a"):
        out = self.folder / "none.png"
        self.fails(2, "image", MODEL, prompt, "-o", out, "--steps", "2", "-W", "16", "-H", "16", "--device", "cpu",
                   *arguments, says=says)
        self.assertFalse(out.exists())

    def test_strengths(self):
        file = LORAS / "lora_kohya.safetensors"
        none = pixels(self.draw())
        whole, half = pixels(self.draw("--lora", file)), pixels(self.draw("--lora", f"{file}:0.5"))
        self.assertNotEqual(whole, none)
        self.assertNotEqual(half, whole)
        self.assertEqual(pixels(self.draw("--lora", f"{file}:0")), none)
        self.assertEqual(pixels(self.draw("--lora", f"{file}:0.8", "--lora", f"{file}:-0.8")), none)
        folder = ("--lora-folder", LORAS)
        self.assertEqual(pixels(self.draw(*folder, prompt="<lora:lora_kohya:0.5>a cat")), half)
        self.assertEqual(pixels(self.draw(*folder, prompt="a cat<lora:lora_kohya>")), whole)
        # A file that has its strength in its prompt is drawn again.
        png = self.draw("--lora", f"{file}:0.5", name="half.png")
        self.assertIn(b"a cat <lora:lora_kohya:0.5>", text_of(png)["parameters"])
        out = self.folder / "again.png"
        self.succeeds("image", MODEL, "--parameters", self.folder / "half.png", *folder, "-o", out, "--device", "cpu")
        self.assertEqual(pixels(out.read_bytes()), half)
        self.assertEqual(out.read_bytes(), png)

    def test_refused_adapters(self):
        other = self.file("other.safetensors", struct.pack("<Q", 2) + b"{}")
        for arguments, says in (
                (("--lora", self.folder / "none.safetensors"), "none.safetensors"), (("--lora", self.folder), ""),
                (("--lora", self.file("a.safetensors", "x")), "a.safetensors"), (("--lora", other), "no tensors"),
                (("--lora", self.file("a.pt", "x")), "pickle"), (("--lora", f"{LORAS / 'lokr.safetensors'}:x"), "lokr"),
                (("--lora", MODEL / "unet" / "diffusion_pytorch_model.safetensors"), "no known kind of adapter")):
            with self.subTest(arguments=arguments):
                self.refused(*arguments, says=says)
        self.refused(prompt="<lora:lokr:1>", says="--lora-folder")
        self.refused("--lora-folder", LORAS, prompt="<lora:other:1>", says="other.safetensors")
        self.refused("--lora-folder", LORAS, prompt="<lora:lokr:x>", says="'x'")
        self.refused("--lora-folder", self.folder / "none", prompt="<lora:lokr>", says="none")


class Repeated(Drawn):
    def repeat(self, png, *arguments):
        """The picture that is drawn by what `png` says."""
        path, out = self.file("from.png", png), self.folder / "again.png"
        self.succeeds("image", MODEL, "--parameters", path, "-o", out, "--device", "cpu", *arguments)
        return out.read_bytes()

    def test_pictures_are_repeated_to_the_bit(self):
        small = ("-W", "24", "-H", "16")
        for arguments in (
                (), ("-n", "blurry", "--guidance", "4.3", "--clip-skip", "1"), ("--sampler", "dpmpp_2m", "--schedule", "karras"),
                ("--rng", "nv", "--weights", "none"), ("--sampler", "ddim", "--eta", "0.5", "--guidance-rescale", "0.3"),
                ("--like", "comfyui", "--sampler", "euler_a"), ("--like", "a1111"), ("--like", "diffusers"),
                ("--hires", "1.5", "--hires-strength", "0.6")):
            with self.subTest(arguments=arguments):
                png, _ = self.draw(*small, *arguments)
                self.assertEqual(self.repeat(png), png)
        png, _ = self.draw("--init", self.init, "--strength", "0.7")
        self.assertEqual(self.repeat(png, "--init", self.init), png)
        other = self.repeat(png, "--init", self.init, "--seed", "6")
        self.assertNotEqual(pixels(other), pixels(png))

    def test_each_picture_of_a_batch(self):
        for like, seeds in (("diffusers", [5, 5, 6, 6]), ("a1111", [5, 6, 7, 8])):
            out = self.folder / "many.png"
            document = json.loads(self.succeeds("image", MODEL, "a", "-o", out, "-W", "24", "-H", "16", "--steps", "2",
                                                "--seed", "5", "--batch", "2", "--count", "2", "--like", like, "--device",
                                                "cpu", "--json").text)
            self.assertEqual([p["seed"] for p in document["pictures"]], seeds)
            drawn = [(self.folder / f"many-{i}.png").read_bytes() for i in range(1, 5)]
            self.assertEqual(len({pixels(png) for png in drawn}), 4)
            for png in drawn:
                self.assertEqual(self.repeat(png), png)

    def test_texts_of_other_programs(self):
        def with_text(keyword, text):
            png, _ = self.draw("-W", "16", "-H", "16", "--no-metadata")
            data = keyword.encode() + b"\0" + text.encode()
            chunk = struct.pack(">I", len(data)) + b"tEXt" + data + struct.pack(">I", zlib.crc32(b"tEXt" + data))
            return png[:33] + chunk + png[33:]

        a1111 = "a cat\nNegative prompt: blurry\nSteps: 3, Sampler: DPM++ 2M Karras, CFG scale: 5, Seed: 9, Size: 24x16"
        png = self.repeat(with_text("parameters", a1111))
        text = text_of(png)["parameters"].decode()
        for part in ("Steps: 3", "Sampler: DPM++ 2M, Schedule type: Karras", "Seed: 9", "Size: 24x16", "RNG: NV",
                     "Like: a1111"):
            self.assertIn(part, text)
        graph = {"1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "x"}},
                 "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat", "clip": ["1", 1]}},
                 "3": {"class_type": "EmptyLatentImage", "inputs": {"width": 24, "height": 16, "batch_size": 1}},
                 "4": {"class_type": "KSampler", "inputs": {
                     "seed": 7, "steps": 3, "cfg": 6, "sampler_name": "euler_ancestral", "scheduler": "normal", "denoise": 1,
                     "model": ["1", 0], "positive": ["2", 0], "negative": ["2", 0], "latent_image": ["3", 0]}}}
        text = text_of(self.repeat(with_text("prompt", json.dumps(graph))))["parameters"].decode()
        for part in ("Sampler: Euler a, Schedule type: Normal", "Seed: 7", "Like: comfyui", "RNG: CPU"):
            self.assertIn(part, text)
        for settings, says in (("Steps: x", "Steps"), ("Size: 24", "24"), ("ENSD: 31337", "ENSD"), ("Sampler: Other", "Other"),
                               ("Denoising strength: 0.5", "--init"), ("Hires upscaler: ESRGAN", "ESRGAN"),
                               ("Seed: -1", "-1")):
            path = self.file("bad.png", with_text("parameters", f"a\nA: 1, B: 2, {settings}"))
            with self.subTest(settings=settings):
                self.fails(2, "image", MODEL, "--parameters", path, "-o", self.folder / "x.png", "--device", "cpu", says=says)
        self.fails(2, "image", MODEL, "--parameters", self.init, "-o", self.folder / "x.png", says="does not say")

    def test_masks(self):
        mask = self.file("mask.png", png_of(24, 16, lambda x, y: (255 if x >= 12 else 0,), 1))
        png, _ = self.draw("--init", self.init, "--mask", mask, "--strength", "1")
        _, _, drawn = pixels(png)
        for y in range(16):
            for x in range(12):
                at = 3 * (24 * y + x)
                self.assertEqual(tuple(drawn[at:at + 3]), color(x, y))
        self.assertNotEqual(drawn, b"".join(bytes(color(x, y)) for y in range(16) for x in range(24)))
        blurred, _ = self.draw("--init", self.init, "--mask", mask, "--mask-blur", "2")
        self.assertIn(b"Mask blur: 2", text_of(blurred)["parameters"])
        small = self.file("small.png", png_of(8, 8, color))
        for arguments, says in ((("--mask", mask), "--init"), (("--init", self.init, "--mask", small), "8 x 8"),
                                (("--init", self.init, "--mask-blur", "2"), "--mask"),
                                (("--init", self.init, "--mask", mask, "--mask-blur", "-1"), "--mask-blur -1"),
                                (("--init", self.init, "--hires", "2"), "--hires"), (("--hires", "0.5"), "--hires 0.5"),
                                (("--batch", "0"), "--batch"), (("--hires", "2", "--hires-strength", "0"), "--hires-strength")):
            with self.subTest(arguments=arguments):
                self.refused(*arguments, says=says)

    def test_a_latent_is_kept_where_decoding_fails(self):
        folder = self.folder / "overflow"
        shutil.copytree(MODEL, folder)
        weights = folder / "vae" / "diffusion_pytorch_model.safetensors"
        data = bytearray(weights.read_bytes())
        size = struct.unpack_from("<Q", data)[0]
        start, end = json.loads(data[8:8 + size])["decoder.conv_out.weight"]["data_offsets"]
        for at in range(8 + size + start, 8 + size + end, 4):
            data[at:at + 4] = struct.pack("<f", 3e38)
        weights.write_bytes(data)
        out, kept = self.folder / "lost.png", self.folder / "lost.latent.safetensors"
        small = ("-W", "24", "-H", "16", "--steps", "2", "--seed", "5", "--device", "cpu")
        self.fails(1, "image", folder, "a", "-o", out, *small, says=("not numbers", "--resume-latent", str(kept)))
        self.assertFalse(out.exists())
        again = self.folder / "again.png"
        self.succeeds("image", MODEL, "--resume-latent", kept, "-o", again, "--device", "cpu")
        whole = self.folder / "whole.png"
        self.succeeds("image", MODEL, "a", "-o", whole, *small)
        self.assertEqual(pixels(again.read_bytes()), pixels(whole.read_bytes()))
        for path, says in ((self.init, "init.png"), (weights, "no latent"), (self.folder / "none", "none")):
            self.fails(2, "image", MODEL, "--resume-latent", path, "-o", again, "--device", "cpu", says=says)


if __name__ == "__main__":
    support.main()
