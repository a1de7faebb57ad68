"""What a person sees of a run while it happens and when it ends: folds of the run's events, drawn for a stream."""
