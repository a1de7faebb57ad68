from niceeval import define_config

config = define_config(name="travel desk", timeout=60)
