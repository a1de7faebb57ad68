"""An OpenAI-compatible Chat Completions endpoint: `niceeval.adapters.chat_completions_agent`."""
