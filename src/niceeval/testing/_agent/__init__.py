"""The conformance kit for agents: drives it as a run does, then judges what was seen, one check at a time."""
