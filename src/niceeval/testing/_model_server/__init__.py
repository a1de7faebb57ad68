"""A scripted model server, for tests of agents and of CLI adapters."""
