"""A few of the conversions of random_conversions.py; more of them are run by hand."""
import random_conversions
import support
from support import TestCase


class RandomConversions(TestCase):
    def test_what_is_done_is_right_and_nothing_else_is_left(self):
        done, failures = random_conversions.run_cases(range(24), 1)
        self.assertEqual(failures, [])
        self.assertGreater(done, 8)


if __name__ == "__main__":
    support.main()
