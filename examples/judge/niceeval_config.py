from judge_model import JUDGE
from niceeval import JudgeConfig, Price, define_config

config = define_config(
    name="city desk",
    timeout=60,
    # With a judge of your own: JudgeConfig(model="...", base_url="https://..."), and its key in NICEEVAL_JUDGE_KEY.
    judge=JudgeConfig(model="scripted-judge", base_url=JUDGE.url),
    pricing={"scripted-judge": Price(input_per_mtok=0.5, output_per_mtok=2)},
)
