from niceeval import define_config

config = define_config(name="library desk", timeout=60)
