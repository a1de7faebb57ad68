"""An agent of Google's Agent Development Kit, in this process: `niceeval.adapters.google_adk_agent`."""
