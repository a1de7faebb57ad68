"""`python -m niceeval`."""

from __future__ import annotations

import sys

from niceeval._cli.main import entry

if __name__ == "__main__":
    sys.exit(entry())
