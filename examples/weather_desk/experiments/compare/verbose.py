from adapters.weather_desk import weather_desk
from local_service import LocalService, version
from niceeval import define_experiment

service = LocalService()

experiment = define_experiment(
    description="The desk adds a greeting and advice",
    agent=weather_desk(service.url, version),
    flags={"prompt": "verbose"},
    setup=service.start,
    teardown=service.stop,
)
