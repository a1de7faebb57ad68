"""Assertions and verdicts: what is recorded, how evidence coverage decides it, and what an attempt comes to. Pure."""
