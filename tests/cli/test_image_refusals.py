"""`image` with bad arguments and files: one line that names the thing, exit code 2, and no picture."""
import json
import struct
import zlib

import support
from picture_files import png_of
from support import ROOT, TestCase

PICTURES = ROOT / "tests" / "data" / "pictures"
MODEL = PICTURES / "sd15"
LAYER = "lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn1_to_q"


def safetensors(tensors, cut=0):
    """Tensors by name: (dtype, shape, bytes)."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    whole = struct.pack("<Q", len(text)) + text + data
    return whole[:len(whole) - cut]


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def floats(shape, value=0.5):
    count = 1
    for length in shape:
        count *= length
    return "F32", list(shape), f32(*[value] * count)


class Refused(TestCase):
    def setUp(self):
        super().setUp()
        self.init = self.file("init.png", png_of(24, 16, lambda x, y: (10 * x, 9 * y, 90)))

    def refused(self, says, *arguments, prompt="a"):
        out = self.folder / "none.png"
        before = {path.name for path in self.folder.iterdir()}
        size = () if {"-W", "-H"} & set(arguments) else ("-W", "16", "-H", "16")
        steps = () if "--steps" in arguments else ("--steps", "2")
        self.fails(2, "image", MODEL, prompt, "-o", out, "--device", "cpu", *size, *steps, *arguments, says=says)
        self.assertEqual({path.name for path in self.folder.iterdir()}, before)

    def table(self, rows):
        for name, says, *arguments in rows:
            with self.subTest(name=name):
                self.refused(says, *arguments)

    def test_arguments(self):
        self.table((
            ("width not a multiple", ("--width 15", "the nearest is"), "-W", "15"),
            ("height 0", "-H: 0", "-H", "0"),
            ("side too large", "-W: 99999", "-W", "99999"),
            ("no steps", "--steps", "--steps", "0"),
            ("steps not a number", "--steps", "--steps", "many"),
            ("guidance below 0", "--guidance -1", "--guidance", "-1"),
            ("guidance not a number", "--guidance", "--guidance", "x"),
            ("guidance infinite", "guidance", "--guidance", "inf"),
            ("rescale above 1", "--guidance-rescale 1.5", "--guidance-rescale", "1.5"),
            ("eta above 1", "--eta 2", "--eta", "2"),
            ("unknown sampler", "eulre", "--sampler", "eulre"),
            ("unknown schedule", "karas", "--schedule", "karas", "--sampler", "euler"),
            ("schedule of ddim", "--schedule karras", "--schedule", "karras", "--sampler", "ddim"),
            ("unknown program", "--like", "--like", "midjourney"),
            ("unknown noise", "--rng", "--rng", "cuda"),
            ("clip skip", "--clip-skip 7", "--clip-skip", "7"),
            ("seed not a number", "--seed", "--seed", "x"),
            ("negative seed", "--seed", "--seed", "-1"),
            ("count 0", "--count", "--count", "0"),
            ("batch 0", "--batch", "--batch", "0"),
            ("bands", "--decode-bands", "--decode-bands", "some"),
            ("unknown option", "--stepz", "--stepz", "3"),
            ("hires below 1", "--hires 0.5", "--hires", "0.5"),
            ("hires of a picture", "--hires", "--hires", "2", "--init", self.init),
            ("strength without a picture", "--init", "--strength", "0.5"),
            ("strength above 1", "--strength 1.5", "--init", self.init, "--strength", "1.5"),
        ))

    def test_masks(self):
        gray = self.file("gray.png", png_of(24, 16, lambda x, y: (x,), 1))
        self.table((
            ("mask without a picture", "--init", "--mask", gray),
            ("mask of another size", ("--mask", "8 x 8"), "--init", self.init, "--mask",
             self.file("small.png", png_of(8, 8, lambda x, y: (x,), 1))),
            ("mask is missing", "no.png", "--init", self.init, "--mask", self.folder / "no.png"),
            ("mask is a text", "text.png", "--init", self.init, "--mask", self.file("text.png", "x")),
            ("mask is cut", "cut.png", "--init", self.init, "--mask", self.file("cut.png", gray.read_bytes()[:60])),
            ("blur without a mask", "--mask", "--init", self.init, "--mask-blur", "1"),
            ("negative blur", "--mask-blur -1", "--init", self.init, "--mask", gray, "--mask-blur", "-1"),
            ("large blur", "--mask-blur 1000", "--init", self.init, "--mask", gray, "--mask-blur", "1000"),
            ("blur not a number", "--mask-blur", "--init", self.init, "--mask", gray, "--mask-blur", "nan"),
        ))

    def lora(self, name, tensors, cut=0):
        return self.file(name + ".safetensors", safetensors(tensors, cut))

    def test_adapters(self):
        down, up = floats((1, 8)), floats((8, 1))
        pair = {LAYER + ".lora_down.weight": down, LAYER + ".lora_up.weight": up}
        files = (
            ("another model", "lora_unet_middle_block_7", {"lora_unet_middle_block_7.lora_down.weight": down}),
            ("missing factor", ("missing factor", "'up'"), {LAYER + ".lora_down.weight": down}),
            ("wrong shape", "does not fit", {**pair, LAYER + ".lora_down.weight": floats((1, 7))}),
            ("rank mismatch", "does not fit", {**pair, LAYER + ".lora_up.weight": floats((8, 3))}),
            ("rank 0", "no elements", {LAYER + ".lora_down.weight": floats((0, 8)), LAYER + ".lora_up.weight": floats((8, 0))}),
            ("two alphas", "alpha", {**pair, LAYER + ".alpha": floats((2,))}),
            ("integers", "I32", {**pair, LAYER + ".alpha": ("I32", [1], struct.pack("<i", 1))}),
            ("infinity", "not numbers", {**pair, LAYER + ".alpha": floats((1,), float("inf"))}),
            ("nan", "not numbers", {**pair, LAYER + ".lora_up.weight": floats((8, 1), float("nan"))}),
            ("overflow", "not numbers", {**pair, LAYER + ".alpha": floats((1,), 3e38), LAYER + ".lora_up.weight":
                                         floats((8, 1), 1e5)}),
            ("glora", "no known kind", {LAYER + ".a1.weight": down}),
            ("oft", "no known kind", {LAYER + ".oft_blocks": down}),
            ("two spellings", "twice", {**pair, LAYER + ".lora_A.weight": down}),
            ("large product", "does not fit", {LAYER + f".hada_w{i}_{x}": floats((3000, 1) if x == "a" else (1, 3000))
                                               for i in (1, 2) for x in "ab"}),
            ("control characters", "control", {"a\nb.alpha": floats((1,))}),
            ("no place", "no place", {**pair, LAYER + ".lokr_w1": floats((1, 1))}),
            ("no tensors", "no tensors", {}),
        )
        self.table([(name, (f"{name}.safetensors", *([says] if isinstance(says, str) else says)), "--lora",
                     self.lora(name, tensors)) for name, says, tensors in files])
        self.table((
            ("cut file", "cut.safetensors", "--lora", self.lora("cut", pair, cut=3)),
            ("text", "text.safetensors", "--lora", self.file("text.safetensors", "hello")),
            ("missing", "none.safetensors", "--lora", self.folder / "none.safetensors"),
            ("pickle", "pickle", "--lora", self.file("old.pt", b"\x80\x02")),
            ("strength", "lora", "--lora", f"{self.lora('lora', pair)}:strong"),
        ))

    def test_embeddings(self):
        files = (
            ("width", "vectors of 9 numbers", {"emb_params": floats((1, 9))}),
            ("too many", "76 vectors", {"emb_params": floats((76, 8))}),
            ("no vectors", "no vectors", {"emb_params": floats((1, 1, 8))}),
            ("nan", "not numbers", {"emb_params": floats((1, 8), float("nan"))}),
            ("integers", "emb_params", {"emb_params": ("I32", [1, 8], bytes(32))}),
        )
        self.table([(name, (f"{name}.safetensors", says), "--embedding", self.lora(name, tensors))
                    for name, says, tensors in files])
        good = self.lora("good", {"emb_params": floats((1, 8))})
        self.table((
            ("pickle", "pickle", "--embedding", self.file("old.bin", b"\x80\x02")),
            ("missing", "none.safetensors", "--embedding", self.folder / "none.safetensors"),
            ("no name", "names no word", "--embedding", f"={good}"),
            ("twice", "already", "--embedding", good, "--embedding", good),
        ))

    def test_latents(self):
        files = (
            ("no latent", "no latent", {"x": floats((4, 2, 2))}),
            ("two axes", "no latent", {"latent": floats((4, 2))}),
            ("f16", "no latent", {"latent": ("F16", [4, 1, 1], bytes(8))}),
            ("empty", "no latent", {"latent": floats((4, 0, 2))}),
            ("channels", "--resume-latent", {"latent": floats((3, 2, 2))}),
            ("nan", "not numbers", {"latent": floats((4, 2, 2), float("nan"))}),
        )
        self.table([(name, says if says == "--resume-latent" else (f"{name}.safetensors", says), "--resume-latent",
                     self.lora(name, tensors)) for name, says, tensors in files])
        self.table((
            ("cut latent", "cut.safetensors", "--resume-latent", self.lora("cut", {"latent": floats((4, 2, 2))}, cut=1)),
            ("picture", "init.png", "--resume-latent", self.init),
            ("missing", "none", "--resume-latent", self.folder / "none.safetensors"),
        ))

    def test_parameters(self):
        def with_text(text, keyword=b"parameters"):
            data = keyword + b"\0" + text.encode()
            chunk = struct.pack(">I", len(data)) + b"tEXt" + data + struct.pack(">I", zlib.crc32(b"tEXt" + data))
            png = self.init.read_bytes()
            return self.file("said.png", png[:33] + chunk + png[33:])

        out = self.folder / "none.png"
        for settings, word in (("Steps: x", "Steps"), ("Size: 0x16", "Size"), ("Size: big", "Size"), ("Seed: 1.5", "Seed"),
                               ("Sampler: Restart", "Restart"), ("Schedule type: Turbo", "Turbo"), ("CFG scale: high", "CFG scale"),
                               ("CFG scale: nan", "guidance"), ("Clip skip: many", "Clip skip"), ("ENSD: 31337", "ENSD"),
                               ("Version: gabbro 0, Like: diffusers, Batch size: 2, Batch pos: 5", "batch"),
                               ("Version: gabbro 0, Like: diffusers, Batch size: 99999, Batch pos: 0", "--batch"), ("Hires upscale: x", "Hires upscale"),
                               ("Denoising strength: 0.5", "--init"), ("Refiner: xl", "Refiner")):
            lines = {"Steps": "2", "Sampler": "Euler", "Size": "16x16", "Seed": "1"}
            lines.update(setting.split(": ") for setting in settings.split(", "))
            said = with_text("a\n" + ", ".join(f"{key}: {value}" for key, value in lines.items()))
            with self.subTest(settings=settings):
                self.fails(2, "image", MODEL, "--parameters", said, "-o", out, "--device", "cpu", says=word)
                self.assertFalse(out.exists())
        for path, word in ((self.init, "does not say"), (self.folder / "no.png", "no.png"), (self.file("t.png", "x"), "t.png"),
                           (with_text("{", b"prompt"), "said.png"), (with_text("{}", b"prompt"), "said.png")):
            with self.subTest(path=path):
                self.fails(2, "image", MODEL, "--parameters", path, "-o", out, "--device", "cpu", says=word)
                self.assertFalse(out.exists())


if __name__ == "__main__":
    support.main()
