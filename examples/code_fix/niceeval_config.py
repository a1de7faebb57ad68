from niceeval import define_config
from niceeval.sandbox import local_sandbox

# The fixer is a script of this folder, so it may run on this machine. A real agent belongs in docker_sandbox(...).
config = define_config(name="code fix", sandbox=local_sandbox(), timeout=120)
