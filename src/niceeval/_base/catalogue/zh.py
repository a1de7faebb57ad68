"""Chinese sentences: code -> (message, what to do next). Same codes and fields as `en`, which a test holds."""

ERRORS: dict[str, tuple[str, str]] = {}
