from adapters.desk import over_chat_completions
from endpoint import Endpoint
from niceeval import define_experiment

endpoint = Endpoint()

experiment = define_experiment(
    agent=over_chat_completions(endpoint.url), model="scripted", setup=endpoint.start, teardown=endpoint.stop
)
