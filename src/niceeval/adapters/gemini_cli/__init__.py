"""The Gemini CLI command line as an agent."""
