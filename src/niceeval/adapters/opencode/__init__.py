"""The opencode command line as an agent."""
