import unittest

from slugs import slug


class Hidden(unittest.TestCase):
    def test_edges(self):
        self.assertEqual(slug("  (a_b) "), "a-b")
