"""Looking back: stored results as text for a terminal, and as JSON for programs."""
