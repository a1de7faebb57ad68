"""`python -m niceeval`."""

from __future__ import annotations

from niceeval._cli.starting import script

if __name__ == "__main__":
    script()
