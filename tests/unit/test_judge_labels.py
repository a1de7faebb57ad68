"""Files of labelled examples, and the calibrations that a project keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from niceeval import JudgeConfig
from niceeval._base.errors import ProjectError
from niceeval._judging import recipes, records
from niceeval._judging.calibrating import Calibration, Judged
from niceeval._judging.labels import Labels, read_labels
from niceeval._judging.outcome import JudgeOutcome

RUBRIC = """
ask: rubric
label: tone
criteria: It is polite.
scale: {polite: 1, curt: 0.5, rude: 0}
passes_at: 0.5
judge: {model: acme-judge, base_url: "http://127.0.0.1:9/v1"}
examples:
  - {output: "Thank you!", label: pass}
  - {input: "Where is it?", output: "Find it yourself.", label: fail}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "labels.yaml"
    path.write_text(text, "utf-8")
    return path


def calibration(labels: Labels, *verdicts: bool, config: JudgeConfig | None = None) -> Calibration:
    """A calibration in which the judge came to these verdicts."""
    judged = tuple(
        Judged(
            example=example,
            repeats=(JudgeOutcome(score=float(verdict)),),
            reversed=None,
            passes_at=labels.passes_at,
        )
        for example, verdict in zip(labels.examples, verdicts, strict=True)
    )
    return Calibration(
        labels=labels, config=config or labels.judge or JudgeConfig("m"), judged=judged, repeat=1, swapped=False
    )


def test_a_file_is_read(tmp_path: Path) -> None:
    """The question, the line, the judge, and each example with what people said of it."""
    labels = read_labels(written(tmp_path, RUBRIC))
    assert (labels.recipe.name, labels.passes_at) == ("rubric(tone)", 0.5)
    assert labels.judge == JudgeConfig("acme-judge", base_url="http://127.0.0.1:9/v1")
    assert [(one.number, one.material.input, one.material.output, one.passes) for one in labels.examples] == [
        (1, "", "Thank you!", True),
        (2, "Where is it?", "Find it yourself.", False),
    ]


def test_each_example_has_its_own_case(tmp_path: Path) -> None:
    """An expected answer belongs to one example, and all of them share one question."""
    text = """
ask: factuality
examples:
  - {output: "Two.", expected: "2", label: pass}
  - {output: "Three.", expected: "2", label: fail}
"""
    one, two = read_labels(written(tmp_path, text)).examples
    assert one.recipe.reference == {"expected": "2"}
    assert one.recipe.rubric_hash == two.recipe.rubric_hash


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is a list; it is a mapping with ask and examples"),
        ("ask: taste", "ask is 'taste'; it is one of closed_qa, factuality, summarizes, rubric"),
        ("ask: factuality\nexamples: []", "examples is a list; it is a list of labelled examples"),
        (RUBRIC.replace("label: pass", "label: yes"), "example 1: label is 'yes'; it is pass or fail"),
        (RUBRIC.replace("label: pass", "lable: pass"), "example 1: 'lable' is not known here"),
        (RUBRIC.replace('output: "Thank you!"', "output: 3"), "example 1: output is 3; it is text"),
        (RUBRIC.replace("passes_at: 0.5", "passes_at: 0"), "passes_at is 0; it is a score above 0, up to 1"),
        (RUBRIC.replace("polite: 1", "polite: 2"), 'scale gives "polite" the score 2'),
        (RUBRIC.replace("model: acme-judge", "modle: x"), "judge: 'modle' is not known here"),
        (RUBRIC.replace("model: acme-judge", "timeout: 3"), "judge: model is None"),
        (RUBRIC.replace("criteria:", "criterion:"), "'criterion' is not known here"),
        ("ask: [", "is not YAML"),
        ("ask: summarizes\nexamples: [{output: a, label: pass}]", "example 1: source is None"),
    ],
)
def test_a_mistake_is_named_with_its_example(tmp_path: Path, text: str, said: str) -> None:
    """Nothing is guessed and nothing is left out in silence."""
    with pytest.raises(ProjectError) as caught:
        read_labels(written(tmp_path, text))
    assert caught.value.code == "judge-labels"
    assert said in caught.value.message()
    assert str(caught.value.place).startswith(f"{caught.value.fields['file']}:")


@settings(max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["ask", "examples", "label", "output", "criteria", "scale", "judge", "model"]), inner
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_a_file_holds_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    """No content of a file is a traceback."""
    path = tmp_path_factory.mktemp("labels") / "labels.yaml"
    path.write_text(json.dumps(value), "utf-8")
    with pytest.raises(ProjectError):
        read_labels(path)


def test_a_calibration_holds_for_one_judge_question_and_line(tmp_path: Path) -> None:
    """Another model, endpoint, line or wording is told as what it is."""
    labels = read_labels(written(tmp_path, RUBRIC))
    records.store(tmp_path, calibration(labels, True, False))
    known = records.load(tmp_path)
    config = labels.judge
    assert config is not None

    def now(recipe: recipes.Recipe = labels.recipe, line: float = 0.5, **judge: Any) -> tuple[str, str]:
        fields = {"model": "acme-judge", "base_url": "http://127.0.0.1:9/v1", **judge}
        return records.standing(known, recipe, JudgeConfig(**fields), line)

    assert now() == ("current", "")
    assert now(model="other") == ("stale", "it was calibrated with acme-judge, not with other")
    assert now(line=1.0) == ("stale", "it was calibrated to pass at 0.5, not at 1")
    assert now(base_url=None)[1].endswith("at http://127.0.0.1:9/v1, not at https://api.openai.com/v1")
    changed = recipes.rubric("tone", "It is very polite.", {"polite": 1, "curt": 0.5, "rude": 0})
    assert now(changed)[0] == "stale"
    assert "its words have changed since it was calibrated (judges/rubric-tone-" in now(changed)[1]
    assert now(recipes.closed_qa("It is polite.")) == ("missing", "it was never calibrated")


def test_one_calibration_is_kept_for_each_judge(tmp_path: Path) -> None:
    """The same again replaces it; another model has its own."""
    labels = read_labels(written(tmp_path, RUBRIC))
    first = records.store(tmp_path, calibration(labels, True, True))
    assert records.store(tmp_path, calibration(labels, True, False)) == first
    records.store(tmp_path, calibration(labels, True, False, config=JudgeConfig("other")))
    kept = records.load(tmp_path)
    assert sorted(one.model for one in kept) == ["acme-judge", "other"]
    assert next(one for one in kept if one.model == "acme-judge").confusion.false_pass == 0
    assert [path.suffix for path in (tmp_path / "judges").iterdir()] == [".json", ".json"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": "niceeval.judge-calibration", "version": 1}', "[" * 100_000, "\x00", "9" * 5000],
)
def test_a_file_that_is_no_calibration_says_nothing(tmp_path: Path, text: str) -> None:
    """A judge without a calibration that can be read has none."""
    (tmp_path / "judges").mkdir()
    (tmp_path / "judges" / "odd.json").write_text(text, "utf-8")
    assert records.load(tmp_path) == ()


def test_the_other_order_asks_the_same_question() -> None:
    """Grades are given from the other end, and keep their scores; a question whose words hold its order has none."""
    recipe = recipes.rubric("tone", "It is polite.", {"polite": 1, "rude": 0})
    other = recipes.reversed_choices(recipe)
    assert other is not None
    assert list(other.scores.items()) == [("rude", 0.0), ("polite", 1.0)]
    assert other.rubric["grades"] == '"rude", "polite"'
    assert "from the first of these grades (worst) to the last" in (other.template or "")
    assert recipes.reversed_choices(recipes.factuality("2")) is None
