"""A graph that a LangGraph server runs: `niceeval.adapters.langgraph_server_agent`."""
