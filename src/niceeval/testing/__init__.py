"""What authors of adapters and of sandbox backends test with.

`check_agent` drives an agent through its contract and reports, check by check; `model_server` is a scripted model that
the agent can ask (what it says: `niceeval.testing.scenarios`). `check_sandbox` tries a sandbox against its contract.
`check_converter` finds out which channels a converter may call complete.
`check_recording` goes through what `niceeval adapter record` kept of a run, and compares.
"""

from __future__ import annotations

from niceeval.testing._agent.check_agent import check_agent, check_agent_sync
from niceeval.testing._agent.probes import Approval, Probes
from niceeval.testing._agent.report import EventRef, Finding, Report
from niceeval.testing._converter.check_converter import check_converter
from niceeval.testing._converter.sample import ConverterSample
from niceeval.testing._model_server.recorded import RecordedRequest
from niceeval.testing._model_server.server import ModelServer, model_server
from niceeval.testing._recording.check import check_recording, record_agent
from niceeval.testing._recording.recording import Recording, load_recording, save_recording
from niceeval.testing._sandbox.check_sandbox import check_sandbox, check_sandbox_sync

__all__ = [
    "Approval",
    "ConverterSample",
    "EventRef",
    "Finding",
    "ModelServer",
    "Probes",
    "RecordedRequest",
    "Recording",
    "Report",
    "check_agent",
    "check_agent_sync",
    "check_converter",
    "check_recording",
    "check_sandbox",
    "check_sandbox_sync",
    "load_recording",
    "model_server",
    "record_agent",
    "save_recording",
]
