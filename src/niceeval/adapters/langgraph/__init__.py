"""A graph of LangGraph, or an agent of LangChain, in this process: `niceeval.adapters.langgraph_agent`."""
