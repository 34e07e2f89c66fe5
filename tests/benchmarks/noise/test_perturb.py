"""Laws of the perturbations, kind by kind."""

import unicodedata

import pytest

from benchmarks.analysis.korean import letters_of, neighbours
from benchmarks.noise.perturb import KINDS
from benchmarks.noise.perturb import perturbed as perturb

TEXT = '강릉에서 열린 "디지털" 콘퍼런스는 많은 사람이 좋아한다. 나는 메시지를 보냈습니다!'
INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))


def perturbed(name: str, text: str, strength: float = 1.0, identity: str = "row") -> str:
    return perturb(name, (text,), strength, identity)[0]


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_changes_nothing_at_zero_and_the_same_for_the_same_row(name):
    assert perturbed(name, TEXT, 0.0) == TEXT
    assert {perturbed(name, TEXT, 1.0, str(number)) for number in range(5)} != {TEXT}
    assert perturbed(name, TEXT) == perturbed(name, TEXT)


@pytest.mark.parametrize(
    ("name", "restored"),
    [
        ("spacing-removed", lambda text: text.replace(" ", "")),
        ("spacing-added", lambda text: text.replace(" ", "")),
        ("jamo-nfd", lambda text: unicodedata.normalize("NFC", text)),
        ("zero-width", lambda text: text.translate(INVISIBLE)),
    ],
)
def test_what_is_the_same_for_a_reader_can_be_restored(name, restored):
    assert restored(perturbed(name, TEXT)) == restored(TEXT)


def test_a_typo_is_one_key_beside_the_right_one():
    for identity in map(str, range(50)):
        (before, after) = (
            letters_of("간"),
            letters_of(perturbed("keyboard-typo", "간", 1.0, identity)),
        )
        changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        assert len(changed) <= 1
        assert all(b in neighbours(a) for a, b in changed)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("speech-level", "집에 간다.", "집에 갑니다."),
        ("speech-level", "밥을 먹는다.", "밥을 먹습니다."),
        ("speech-level", "갔다", "갔습니다"),
        ("speech-level", "갔습니다!", "갔어요!"),
        ("speech-level", "저는 학생입니다.", "저는 학생이에요."),
        ("speech-level", "온다는 말", "온다는 말"),  # not the end of a sentence
        ("particle-dropped", "나는 메시지를 보냈다", "나 메시지 보냈다"),
        ("loanword-spelling", "메시지와 써비스", "메세지와 서비스"),
        ("mojibake", "한국", "한국".encode().decode("cp1252")),
        ("html-entities", "' <…", "&#x27;&nbsp;&lt;&hellip;"),
    ],
)
def test_a_text_becomes(name, before, after):
    assert perturbed(name, before) == after
