from adapters.desk import desk
from judge_model import JUDGE
from niceeval import define_experiment

experiment = define_experiment(agent=desk(wrong=True), setup=JUDGE.start, teardown=JUDGE.stop)
