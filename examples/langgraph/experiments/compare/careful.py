from adapters.desk import desk
from niceeval import define_experiment

experiment = define_experiment(agent=desk(), flags={"style": "careful"})
