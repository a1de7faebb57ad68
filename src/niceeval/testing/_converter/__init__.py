"""Finding out what a converter may call complete: see `check_converter`."""
