"""An app that answers with the AI SDK's UI message stream: `niceeval.adapters.ui_message_stream_agent`."""
