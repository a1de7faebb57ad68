from adapters.fixer import fixer
from niceeval import define_experiment

experiment = define_experiment(description="repairs the code", agent=fixer(), flags={"style": "fix"})
