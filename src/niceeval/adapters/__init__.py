"""Ready adapters: one folder or module for each protocol, framework or CLI. Nothing in the core knows them."""
