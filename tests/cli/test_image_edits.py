"""`image --init`: pictures that begin with a picture, and what is refused."""
import json

import support
from picture_files import chunks, pixels, png_of, text_of
from support import ROOT, TestCase

MODEL = ROOT / "tests" / "data" / "pictures" / "sd15"


def color(x, y):
    return 10 * x % 256, 20 * y % 256, 90


class ImageEdits(TestCase):
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


if __name__ == "__main__":
    support.main()
