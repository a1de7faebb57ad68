import os

from adapters.fixer import fixer
from niceeval import define_experiment
from niceeval.sandbox import docker_sandbox

IMAGE = os.environ.get("CODE_FIX_IMAGE", "python:3.12")

experiment = define_experiment(
    description="repairs the code, in a container",
    agent=fixer(),
    flags={"style": "fix"},
    sandbox=docker_sandbox(image=IMAGE),
)
