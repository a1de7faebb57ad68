"""Any agent that speaks the Agent Client Protocol, in a sandbox: `niceeval.adapters.acp_agent`."""
