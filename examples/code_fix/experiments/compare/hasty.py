from adapters.fixer import fixer
from niceeval import define_experiment

experiment = define_experiment(description="makes the tests pass", agent=fixer(), flags={"style": "cheat"})
