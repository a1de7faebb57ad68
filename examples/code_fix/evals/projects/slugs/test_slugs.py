import unittest

from slugs import slug


class Slugs(unittest.TestCase):
    def test_words(self):
        self.assertEqual(slug("Two Words"), "two-words")

    def test_marks(self):
        self.assertEqual(slug("Hello,  World!"), "hello-world")
