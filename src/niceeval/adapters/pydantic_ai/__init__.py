"""Agents of Pydantic AI, run in this process."""
