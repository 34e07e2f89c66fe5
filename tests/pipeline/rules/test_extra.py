"""Rules of the user's own, alone and in a whole cleaning."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from electrify.config.clean import CleanConfig, Source
from pipeline.clean import clean
from pipeline.document import DocumentRules
from pipeline.rules.extra import read_code
from tests.pipeline.builders import clean_afresh, documents, removed, write_texts
from tests.pipeline.builders import config_of as run_config_of

CODE = '''
from __future__ import annotations
import dataclasses, pathlib, re

@dataclasses.dataclass
class Words:
    folder: pathlib.Path = pathlib.Path(__file__).parent

def drop_letters(text, language):
    """Letters to the editor."""
    return None if text.startswith("독자 편지") else text

def cut_signature(text, language):
    return re.sub(r"-- 끝$", "", text).rstrip()

def unescape(text, language):
    return text.replace("%", "@")

def drop_all(text, language):
    return None

def grows(text, language):
    return text + "다"

def fails(text, language):
    return text.nothing

def counts(text, language):
    return len(text)
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(CODE, encoding="utf-8")
    return path


def config_of(*names: str) -> CleanConfig:
    source = Source(kind="jsonl", language="ko", path="a")
    config = CleanConfig(sources=(source,), extra_rules=names)
    return config.with_code(read_code(names))


def rules_of(*names: str) -> DocumentRules:
    config = config_of(*names)
    return DocumentRules(config.sources[0], config)


def test_a_rule_changes_a_text_until_it_is_settled_or_removes_it(file):
    rules = rules_of(f"{file}:drop_letters", f"{file}:cut_signature")
    outcome = rules.clean("오늘은 비가 온다. -- 끝 -- 끝")
    assert (outcome.text, [*outcome.changes]) == ("오늘은 비가 온다.", ["cut_signature"])
    assert rules.clean(outcome.text).changes == {}
    drop = rules.clean("독자 편지: 잘 읽었습니다.").drop
    assert drop is not None
    assert drop.reason == "drop_letters"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("grows", "rounds grows still changes a text"),
        ("fails", "fails failed with AttributeError"),
        ("counts", "counts returned int, not a text or None"),
        ("other", "has no function 'other'"),
        ("rule", r"mine\.py, line 1: SyntaxError"),
    ],
)
def test_a_rule_that_breaks_its_promise_is_named(file, name, words):
    if name == "rule":
        file.write_text("def rule(:\n", encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        rules_of(f"{file}:{name}").clean("오늘은 비가 온다.")


def test_the_code_goes_to_the_workers_with_the_config(file):
    config = config_of(f"{file}:drop_letters")
    file.unlink()
    copy = pickle.loads(pickle.dumps(config))
    drop = DocumentRules(copy.sources[0], copy).clean("독자 편지: 잘 읽었습니다.").drop
    assert drop is not None
    with pytest.raises(ValueError, match=r"mine\.py cannot be read"):
        config_of(f"{file}:drop_letters")


def test_a_cleaning_uses_the_rules_and_is_made_anew_when_their_code_changes(file, tmp_path):
    texts = ["독자 편지: 잘 읽었습니다.", "오늘은 비가 온다. 우산을 챙기자."]
    path = write_texts(tmp_path / "a.jsonl", texts)
    config = run_config_of(tmp_path, [path], extra_rules=[f"{file}:drop_letters"])
    folder = clean_afresh(config)
    assert [(row["reason"], row["text"]) for row in removed(folder)] == [("drop_letters", texts[0])]
    file.write_text(CODE.replace("독자 편지", "사설"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"mine\.py"):
        clean(config, [], False)
    clean(config, [], True)
    assert len(documents(folder)) == 2


def test_a_removed_text_shows_no_personal_data_that_a_rule_has_made(file):
    """The rule makes an address of a text and removes it, after addresses were masked."""
    rules, text = rules_of(f"{file}:unescape", f"{file}:drop_all"), "연락은 hong%naver.com 으로"
    shown = rules.shown(text, rules.clean(text))
    assert shown.endswith("연락은 <email> 으로")
    assert "@" not in shown


def test_the_classifier_of_the_docs_is_trained_and_removes_documents(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    page = Path("docs/corpus.md").read_text(encoding="utf-8")
    training, rule = (
        next(code for code in page.split("```python\n") if name in code).partition("```")[0]
        for name in ("def train(", "def low_quality(")
    )
    good = [f"어제는 비가 많이 와서 {n}시까지 집에 있었다." for n in range(20)]
    bad = [f"지금 가입하면 보너스 {n}만 원 지급!!" for n in range(20)]
    monkeypatch.chdir(tmp_path)
    Path("rules").mkdir()
    names: dict[str, Any] = {}
    exec(training, names)
    names["train"](good, bad, "rules/quality.joblib")
    Path("rules/quality.py").write_text(rule, encoding="utf-8")
    rules = rules_of("rules/quality.py:low_quality")
    assert rules.clean("어제는 눈이 많이 와서 집에 있었다.").drop is None
    assert rules.clean("지금 가입하면 보너스 만 원 지급!!").drop.reason == "low_quality"
