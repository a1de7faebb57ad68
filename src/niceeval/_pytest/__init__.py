"""Evals as pytest items: loaded only where a run of pytest names an experiment."""
