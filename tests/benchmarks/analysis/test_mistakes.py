"""A planted mistake changes what its kind names, and its spans say where."""

import random
import re

import pytest

from benchmarks.analysis.korean import KoreanSentence, analyse, has_final_consonant, word_spans
from benchmarks.analysis.mistakes import (
    KINDS,
    Mistake,
    marked_lines,
    mistakes_in,
    plant_evenly,
    words_by_form,
)

TEXTS = (
    "학생은 학교에서 친구를 만나고 집으로 돌아왔다.",
    "아이가 안 되는 일을 하지 않고 병이 낫기를 기다렸다.",
    "그는 서울로 가서 책과 연필을 샀고 매우 기뻐했다.",
    "나는 도서관에 있는 책을 빌려 밤까지 읽었다.",
)


@pytest.fixture(scope="module")
def sentences() -> list[KoreanSentence]:
    return analyse(TEXTS)


def planted_in(kind: str, sentences: list[KoreanSentence]) -> list[Mistake]:
    words, draw = words_by_form(sentences), random.Random(0)
    return [each for of in sentences for each in mistakes_in(kind, of, words, draw)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_outside_of_the_spans_is_equal(kind: str, sentences: list[KoreanSentence]):
    found = planted_in(kind, sentences)
    assert found
    for mistake in found:
        spans = (start, stop), (new_start, new_stop) = mistake.words
        clean, text = mistake.sentence.text, mistake.text
        assert text != clean
        assert clean[:start] + text[new_start:new_stop] + clean[stop:] == text
        assert text[:new_start] + clean[start:stop] + text[new_stop:] == clean
        for of, (low, high) in zip((clean, text), spans, strict=True):
            assert low in dict(word_spans(of))
            assert high in dict(word_spans(of)).values()


def changed_words(kind: str, sentences: list[KoreanSentence]) -> set[tuple[str, str, str]]:
    changes = ((m, *(slice(*span) for span in m.words)) for m in planted_in(kind, sentences))
    return {(m.rule, m.sentence.text[before], m.text[after]) for m, before, after in changes}


def test_particles(sentences: list[KoreanSentence]):
    changed = changed_words("particle-form", sentences)
    assert changed >= {
        ("은→는", "학생은", "학생는"),
        ("를→을", "친구를", "친구을"),
        ("으로→로", "집으로", "집로"),
        ("로→으로", "서울로", "서울으로"),
        ("과→와", "책과", "책와"),
    }
    # 는 of 되는 and 있는 is an ending
    assert not any(before in ("되는", "있는") for _, before, _ in changed)


def test_exchanged_words_have_the_form_of_the_old_ones(sentences: list[KoreanSentence]):
    pool = {m.form: m.tag for s in sentences for m in s.morphemes}
    for mistake in planted_in("exchanged-word", sentences):
        assert len(mistake.text) == len(mistake.sentence.text)
        pairs = zip(mistake.sentence.text, mistake.text, strict=True)
        differing = [i for i, (a, b) in enumerate(pairs) if a != b]
        old = next(m for m in mistake.sentence.morphemes if m.start <= differing[0] < m.end)
        new = mistake.text[old.start : old.end]
        assert pool[new] == old.tag == mistake.rule
        assert has_final_consonant(new) == has_final_consonant(old.form)


def test_every_sentence_has_one_mistake_and_equal_draws(sentences: list[KoreanSentence]):
    words = words_by_form(sentences)
    drawn = [plant_evenly("exchanged-word", sentences, words) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert {mistake.sentence.text for mistake in drawn[0]} == {*TEXTS}
    assert len(drawn[0]) == len(TEXTS)


SHIPPED = "model/shipped/ko-modern/discriminator"


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return marked_lines(SHIPPED, "ko")


def test_the_shipped_encoder_finds_wrong_particles_and_a_part_of_exchanged_words(lines: list[str]):
    fractions = []
    for line in lines[1::2]:
        found = re.match(r"(\d+) of (\d+) ", line)
        assert found
        fractions.append(int(found[1]) / int(found[2]))
    particles, words = fractions
    assert particles > 0.8
    assert 0.3 < words < 0.6
