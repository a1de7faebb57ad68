"""Foundations that know nothing of evals: errors, ids, JSON, redaction, clock, the guest boundary."""
