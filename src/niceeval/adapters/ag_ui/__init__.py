"""A service that speaks AG-UI: `niceeval.adapters.ag_ui_agent`."""
