from niceeval import define_config

config = define_config(name="Weather desk", max_concurrency=4, timeout=60)
