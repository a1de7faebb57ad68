import unittest

from stats import median


class Hidden(unittest.TestCase):
    def test_two(self):
        self.assertEqual(median([10, 0]), 5)

    def test_it_leaves_its_argument_alone(self):
        values = [3, 1, 2]
        median(values)
        self.assertEqual(values, [3, 1, 2])
