"""From what an agent returned to what can be believed: normalising, pairing, coverage, facts. Pure functions."""
