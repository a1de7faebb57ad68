"""Turning a plan into results: scheduling, attempts, interrupts. Knows no agent, no scoring rule, no storage detail."""
