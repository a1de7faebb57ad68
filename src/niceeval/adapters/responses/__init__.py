"""An OpenAI Responses endpoint: `niceeval.adapters.responses_agent`."""
