"""The Claude Code command line as an agent."""
