from niceeval import define_config

config = define_config(name="refund desk", timeout=60)
