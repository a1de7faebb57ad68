"""Sandboxes at work: who owns them, and the ledger of what an agent changed in one."""
