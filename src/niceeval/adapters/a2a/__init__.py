"""An agent that speaks A2A: `niceeval.adapters.a2a_agent`."""
