"""The author's `t`: driving the agent, reading what it did, recording assertions."""
