"""A Python function that is an agent: `niceeval.adapters.function_agent`."""
