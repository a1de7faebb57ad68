"""The command line: the only place that wires the rooms together, and the one that decides how the process ends."""
