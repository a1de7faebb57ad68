"""The contract of a sandbox, as checks."""
