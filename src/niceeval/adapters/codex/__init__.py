"""The Codex command line as an agent."""
