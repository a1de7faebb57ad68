"""The Bub command line as an agent."""
