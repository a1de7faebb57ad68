"""What holds for every test."""

from __future__ import annotations

import signal

# A shell that starts a job in the background lets it ignore SIGINT, and its children inherit that: the runs that tests
# interrupt would then rightly ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
