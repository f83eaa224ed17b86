"""`image` with odd inputs: what has no effect is said, and what could mean two things is refused."""
import json
import struct
import zlib

import support
from picture_files import chunks, pixels, png_of
from support import ROOT, TestCase
from test_image_refusals import f32, safetensors

MODEL = ROOT / "tests" / "data" / "pictures" / "sd15"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_chunk(png, kind, data):
    """After the header."""
    return png[:33] + chunk(kind, data) + png[33:]


def exif(orientation, order="<"):
    start = b"II*\0" if order == "<" else b"MM\0*"
    return start + struct.pack(order + "IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


def wide(width, height, color, channels):
    """A PNG of 16 bits a channel."""
    rows = b"".join(b"\0" + b"".join(struct.pack(f">{channels}H", *color(x, y)) for x in range(width))
                    for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class OddInputs(TestCase):
    def draw(self, *arguments, prompt="a heart"):
        out = self.folder / "out.png"
        result = self.succeeds("image", MODEL, prompt, "-o", out, "--steps", "2", "--seed", "5", "--device", "cpu", *arguments)
        return pixels(out.read_bytes())[2], result.err.decode()

    def small(self, *arguments, prompt="a heart"):
        return self.draw("-W", "24", "-H", "16", *arguments, prompt=prompt)

    def kept(self, path):
        """The picture as it is read: strength 0 gives it back."""
        out = self.folder / "kept.png"
        self.succeeds("image", MODEL, "a", "-o", out, "--init", path, "--strength", "0", "--device", "cpu")
        return pixels(out.read_bytes())

    def refused(self, says, *arguments):
        out = self.folder / "none.png"
        self.fails(2, "image", MODEL, "a", "-o", out, "--steps", "2", "--device", "cpu", *arguments, says=says)
        self.assertFalse(out.exists())

    def test_pictures_of_all_kinds(self):
        """Item 22 of the acceptance list, for PNG; JPEG is in images_test."""
        gray = [[(40 * x + 20 * y) % 256 for x in range(6)] for y in range(4)]
        expected = bytes(value for row in gray for value in row for _ in range(3))
        for channels in (1, 2, 3, 4):
            def color(x, y, count=channels):
                values = [257 * gray[y][x]] * (3 if count > 2 else 1)
                return (*values, 65535) if count in (2, 4) else values
            with self.subTest(channels=channels):
                self.assertEqual(self.kept(self.file("wide.png", wide(6, 4, color, channels))), (6, 4, expected))

    def test_orientations_of_png_files(self):
        width, height = 6, 4
        at = lambda x, y: (40 * x, 60 * y, 7)
        source = {1: lambda x, y: (x, y), 2: lambda x, y: (width - 1 - x, y), 3: lambda x, y: (width - 1 - x, height - 1 - y),
                  4: lambda x, y: (x, height - 1 - y), 5: lambda x, y: (y, x), 6: lambda x, y: (y, height - 1 - x),
                  7: lambda x, y: (width - 1 - y, height - 1 - x), 8: lambda x, y: (width - 1 - y, x)}
        plain = png_of(width, height, at)
        for orientation, place in source.items():
            sides = (width, height) if orientation < 5 else (height, width)
            expected = bytes(v for y in range(sides[1]) for x in range(sides[0]) for v in at(*place(x, y)))
            for order in "<>":
                with self.subTest(orientation=orientation, order=order):
                    stored = self.file("stored.png", with_chunk(plain, b"eXIf", exif(orientation, order)))
                    self.assertEqual(self.kept(stored), (*sides, expected))
        for damaged in (b"II*\0", exif(99), exif(1)[:12], b"II*\0\xff\xff\xff\xff"):
            self.assertEqual(self.kept(self.file("bad.png", with_chunk(plain, b"eXIf", damaged)))[:2], (width, height))

    def test_masks_with_transparency_are_refused(self):
        init = self.file("init.png", png_of(24, 16, lambda x, y: (10 * x, 9 * y, 90)))
        strokes = self.file("strokes.png", png_of(24, 16, lambda x, y: (255, 255, 255, 255) if x < 5 else (0, 0, 0, 0), 4))
        self.refused(("strokes.png", "transparent"), "--init", init, "--mask", strokes)
        full = self.file("full.png", png_of(24, 16, lambda x, y: (*(255 * (x < 5),) * 3, 255), 4))
        plain = self.file("plain.png", png_of(24, 16, lambda x, y: (255 * (x < 5),), 1))
        self.assertEqual(self.draw("--init", init, "--mask", full)[0], self.draw("--init", init, "--mask", plain)[0])

    def test_options_without_effect_are_said(self):
        for says, *arguments in (("the negative prompt has no part", "--guidance", "1", "-n", "blurry"),
                                 ("--guidance-rescale has no part", "--guidance", "1", "--guidance-rescale", "0.5"),
                                 ("--eta has no part in the sampler euler", "--eta", "0.5", "--sampler", "euler")):
            with self.subTest(says=says):
                self.assertIn("note: ", self.small(*arguments)[1])
                self.assertIn(says, self.small(*arguments)[1])
        self.assertNotIn("no part", self.small("--eta", "0.5", "--sampler", "ddim", "-n", "blurry")[1])
        self.refused("--hires-strength", "--hires-strength", "0.5")

    def test_prompts_of_other_programs(self):
        """Item 25 of the acceptance list, next to prompts/weighted_text_test."""
        for prompt, words in (("a [cat:dog:0.5]", "[cat:dog:0.5]"), ("[fur:0.25] cat", "[fur:0.25]"),
                              ("a [cat|dog]", "[cat|dog]"), ("a cat AND a dog", "'AND'"), ("a cat\nAND a dog", "'AND'")):
            with self.subTest(prompt=prompt):
                self.assertIn(f"A1111 takes {words}" if words.startswith("'") else f"A1111 takes '{words}'",
                              self.small(prompt=prompt)[1])
                self.assertNotIn("A1111", self.small("--weights", "comfyui", prompt=prompt)[1])
        for prompt in ("a [cat]", "a \\[cat|dog\\]", "[a: b]", "time 12:30", "HANDS AND_ANDY", "(a:1.2) [b"):
            with self.subTest(prompt=prompt):
                self.assertNotIn("A1111", self.small(prompt=prompt)[1])
        self.assertIn("--lora adds adapters", self.small("--weights", "none", prompt="a <lora:x:1>")[1])
        # Brackets without their other half are text or count to the end; no prompt stops the program.
        for prompt in ("", " ", "((((", "))))", "[[[[", "(:)", "(:1.2)", "(a:-1)", "(a:0)", "(a:1e9)", "(a:99999999)",
                       "\u202e\u0301\U0001f600", "\ufeffa", "a\u00a0b", "BREAK", "BREAK BREAK a", "\\", "(\\)"):
            with self.subTest(prompt=prompt):
                self.small(prompt=prompt)

    def test_byte_order_marks_are_no_part_of_a_prompt(self):
        self.assertEqual(self.small(prompt="\ufeffa heart")[0], self.small()[0])

    def test_embeddings_that_no_prompt_names_are_said(self):
        vector = self.file("sign.safetensors", safetensors({"emb_params": ("F32", [1, 8], f32(*[0.5] * 8))}))
        said = "no prompt uses the embedding 'sign'"
        self.assertIn(said, self.small("--embedding", vector)[1])
        self.assertNotIn(said, self.small("--embedding", vector, prompt="a sign")[1])
        self.assertNotIn(said, self.small("--embedding", vector, "-n", "sign")[1])
        self.assertIn("embedding:NAME", self.small("--embedding", vector, "--weights", "comfyui", prompt="a sign")[1])
        self.assertNotIn(said, self.small("--embedding", vector, "--weights", "comfyui", prompt="embedding:sign")[1])

    def test_sizes_that_are_too_large(self):
        row = self.file("row.png", png_of(16400, 1, lambda x, y: (9, 9, 9)))
        self.refused(("--init", "16384"), "--init", row)
        self.refused(("--hires", "16384"), "-W", "8192", "-H", "8", "--hires", "4")

    def said(self, settings, prompt="a heart", keyword=b"parameters"):
        png = png_of(24, 16, lambda x, y: (x, y, 0))
        return self.file("said.png", with_chunk(png, b"tEXt", keyword + b"\0" + (prompt + "\n" + settings).encode("latin-1")))

    def repeat(self, path, *arguments):
        out = self.folder / "again.png"
        result = self.succeeds("image", MODEL, "--parameters", path, "-o", out, "--device", "cpu", *arguments)
        return dict(chunks(out.read_bytes()))["IDAT"], result.err.decode()

    def test_settings_of_foreign_pictures(self):
        base = "Steps: 2, Sampler: Euler, CFG scale: 5, Seed: 9, Size: 24x16"
        _, err = self.repeat(self.said(base + ", VAE: a.pt, Model: other, Version: v1.9"))
        self.assertIn("not read: VAE", err)
        self.assertIn("drawn with the model other", err)
        # A picture of A1111's batch says its own seed.
        self.assertEqual(self.repeat(self.said(base + ", Batch size: 4, Batch pos: 3"))[0], self.repeat(self.said(base))[0])
        for setting in ("RNG: other", "Prompt weights: other", "Clip skip: -3", "Like: other", "Clip skip: 100"):
            with self.subTest(setting=setting):
                out = self.folder / "none.png"
                version = ", Version: gabbro 0" if setting.startswith("Like") else ""
                self.fails(2, "image", MODEL, "--parameters", self.said(base + ", " + setting + version), "-o", out,
                           "--device", "cpu", says=setting.split(": ")[1].lstrip("-").replace("100", "99"))
                self.assertFalse(out.exists())

    def test_graphs_of_comfyui(self):
        def graph(denoise=1, batch=1):
            return json.dumps({
                "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd15"}},
                "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat", "clip": ["1", 1]}},
                "3": {"class_type": "EmptyLatentImage", "inputs": {"width": 24, "height": 16, "batch_size": batch}},
                "4": {"class_type": "KSampler", "inputs": {
                    "seed": 7, "steps": 2, "cfg": 6, "sampler_name": "euler", "scheduler": "normal", "denoise": denoise,
                    "model": ["1", 0], "positive": ["2", 0], "negative": ["2", 0], "latent_image": ["3", 0]}}})

        out = self.folder / "none.png"
        self.fails(2, "image", MODEL, "--parameters", self.said("", graph(denoise=0.5), b"prompt"), "-o", out, "--device",
                   "cpu", says="denoise")
        self.assertIn("one of a batch", self.repeat(self.said("", graph(batch=3), b"prompt"))[1])
        self.assertNotIn("one of a batch", self.repeat(self.said("", graph(), b"prompt"))[1])

    def test_latents_of_another_size_than_given(self):
        latent = self.file("latent.safetensors", safetensors({"latent": ("F32", [4, 8, 12], f32(*[0.1] * 384))}))
        self.draw("--resume-latent", latent)
        self.refused(("--width 16", "24"), "--resume-latent", latent, "-W", "16")


if __name__ == "__main__":
    support.main()
