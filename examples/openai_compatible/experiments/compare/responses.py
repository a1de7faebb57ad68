from adapters.desk import over_responses
from endpoint import Endpoint
from niceeval import define_experiment

endpoint = Endpoint()

experiment = define_experiment(
    agent=over_responses(endpoint.url), model="scripted", setup=endpoint.start, teardown=endpoint.stop
)
