"""The results on disk: where they lie, how they are written, how they are read back."""
