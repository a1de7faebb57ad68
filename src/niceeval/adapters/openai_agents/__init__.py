"""Agents of the OpenAI Agents SDK, run in this process."""
