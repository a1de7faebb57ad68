"""Judging by a model: recipes, the client that asks, and what an answer comes to. No number that was not given."""
