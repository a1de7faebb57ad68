"""What adapter authors test with: `check_agent` drives an agent through its contract and reports, check by check."""

from __future__ import annotations

from niceeval.testing._agent.check_agent import check_agent, check_agent_sync
from niceeval.testing._agent.probes import Approval, Probes
from niceeval.testing._agent.report import EventRef, Finding, Report

__all__ = ["Approval", "EventRef", "Finding", "Probes", "Report", "check_agent", "check_agent_sync"]
