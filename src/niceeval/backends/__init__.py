"""Where sandboxes come from: one module a backend, imported when it is used. Guests: public modules only."""
