"""Recordings of sandbox agents: what an agent saw of its sandbox in one run, kept to be gone through again."""
