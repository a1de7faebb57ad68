"""What authors of adapters for command-line agents share: a CLI in a sandbox, run once for each turn.

agent = define_cli_agent(
    name="my-cli",
    package=CliPackage(name="my-cli", command="my-cli", registry="npm", package="my-cli"),
    evidence_coverage=coverage,
    turn=run_one_turn,
    options=CliOptions(version="1.2.3", secrets={"MY_CLI_KEY": "MY_CLI_KEY"}),
)
"""

from niceeval.cli_agent.agent import CliOptions, DriveTurn, Prepare, define_cli_agent
from niceeval.cli_agent.ensuring import NEWEST, CliPackage, InstalledCli, ensure_cli
from niceeval.cli_agent.live_process import LiveProcess
from niceeval.cli_agent.parts import Hook, McpServer, Plugin, Skill
from niceeval.cli_agent.settings import CliArguments, merged, toml_lines
from niceeval.cli_agent.turns import CliRun, CliSetup, CliTurn, Reader, prompt_of, secret_values

__all__ = [
    "NEWEST",
    "CliArguments",
    "CliOptions",
    "CliPackage",
    "CliRun",
    "CliSetup",
    "CliTurn",
    "DriveTurn",
    "Hook",
    "InstalledCli",
    "LiveProcess",
    "McpServer",
    "Plugin",
    "Prepare",
    "Reader",
    "Skill",
    "define_cli_agent",
    "ensure_cli",
    "merged",
    "prompt_of",
    "secret_values",
    "toml_lines",
]
