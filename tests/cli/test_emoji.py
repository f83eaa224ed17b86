"""The pipeline that comes with the program: its picture of a red heart next to diffusers' of the same weights and seed
(tests/data/pictures/emoji_red_heart.png, in f32)."""
import math

import support
from picture_files import pixels
from support import ROOT, TestCase

LEAST_PSNR = 45  # dB


class Emoji(TestCase):
    def test_a_red_heart(self):
        out = self.folder / "heart.png"
        self.succeeds("image", "emoji", "a red heart", "-o", out, "--seed", "1", "--device", "cpu")
        *size, drawn = pixels(out.read_bytes())
        *expected_size, expected = pixels((ROOT / "tests" / "data" / "pictures" / "emoji_red_heart.png").read_bytes())
        self.assertEqual(size, expected_size)
        error = sum((a - b) ** 2 for a, b in zip(drawn, expected)) / len(expected)
        self.assertGreater(10 * math.log10(255**2 / max(error, 1e-9)), LEAST_PSNR)


if __name__ == "__main__":
    support.main()
