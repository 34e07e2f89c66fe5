"""A planted mistake changes what its kind names, and its spans say where; a detector that knows
finds everything, one that guesses finds as much as chance."""

import random
import re

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from benchmarks.analysis import mistakes as module
from benchmarks.analysis.korean import KoreanSentence, analyse, has_final_consonant, word_spans
from benchmarks.analysis.mistakes import (
    KINDS,
    Planted,
    by_word,
    edits,
    figures_of,
    marked_lines,
    plant,
    plant_evenly,
    words_by_form,
)
from benchmarks.analysis.reader import TokenizedText

TEXTS = (
    "학생은 학교에서 친구를 만나고 집으로 돌아왔다.",
    "아이가 안 되는 일을 하지 않고 병이 낫기를 기다렸다.",
    "그는 서울로 가서 책과 연필을 샀고 매우 기뻐했다.",
    "나는 도서관에 있는 책을 빌려 밤까지 읽었다.",
)


@pytest.fixture(scope="module")
def sentences() -> list[KoreanSentence]:
    return analyse(TEXTS)


def planted_in(kind: str, sentences: list[KoreanSentence]):
    words = words_by_form(sentences)
    return [
        plant(sentence, edit)
        for sentence in sentences
        for edit in edits(kind, sentence, words, random.Random(0))
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_outside_of_the_spans_is_equal(kind: str, sentences: list[KoreanSentence]):
    found = planted_in(kind, sentences)
    assert found
    for mistake in found:
        (start, stop), (new_start, new_stop) = mistake.before, mistake.after
        clean, text = mistake.clean, mistake.text
        assert text != clean
        assert clean[:start] + text[new_start:new_stop] + clean[stop:] == text
        assert text[:new_start] + clean[start:stop] + text[new_stop:] == clean
        for of, (low, high) in ((clean, mistake.before), (text, mistake.after)):
            assert low in dict(word_spans(of))
            assert high in dict(word_spans(of)).values()


def changed_words(kind: str, sentences: list[KoreanSentence]) -> set[tuple[str, str, str]]:
    return {
        (m.rule, m.clean[slice(*m.before)], m.text[slice(*m.after)])
        for m in planted_in(kind, sentences)
    }


def test_particles(sentences: list[KoreanSentence]):
    assert changed_words("particle-form", sentences) >= {
        ("은→는", "학생은", "학생는"),
        ("를→을", "친구를", "친구을"),
        ("으로→로", "집으로", "집로"),
        ("로→으로", "서울로", "서울으로"),
        ("과→와", "책과", "책와"),
    }
    assert changed_words("particle-choice", sentences) == {
        ("에서→에", "학교에서", "학교에"),
        ("에→에서", "도서관에", "도서관에서"),
    }
    # 는 of 되는 and 있는 is an ending
    assert not any(
        before in ("되는", "있는")
        for kind in ("particle-form", "added-space")
        for _, before, _ in changed_words(kind, sentences)
    )


def test_a_rule_replaces_its_left_side_by_its_right_side():
    for rule, pattern in module._ERRORS["homophone"].items():
        right, wrong = rule.split("→")
        contexts = [
            f"{a}{right}{b}" for a in ("", "그 ", "한 ", "그", "는 ") for b in " 다고은이지"
        ]
        matches = [match[0] for text in contexts for match in re.finditer(pattern, text)]
        assert set(matches) == {right}, rule
        assert right != wrong


def test_exchanged_words_have_the_form_of_the_old_ones(sentences: list[KoreanSentence]):
    pool = {m.form: m.tag for s in sentences for m in s.morphemes}
    for mistake in planted_in("exchanged-word", sentences):
        assert len(mistake.text) == len(mistake.clean)
        pairs = zip(mistake.clean, mistake.text, strict=True)
        differing = [i for i, (a, b) in enumerate(pairs) if a != b]
        old = next(
            m for m in analyse([mistake.clean])[0].morphemes if m.start <= differing[0] < m.end
        )
        new = mistake.text[old.start : old.end]
        assert pool[new] == old.tag == mistake.rule
        assert has_final_consonant(new) == has_final_consonant(old.form)


def test_rules_take_turns_and_the_seed_decides(sentences: list[KoreanSentence]):
    words = words_by_form(sentences)
    drawn = [plant_evenly("keyboard", sentences, words, 4, seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({mistake.clean for mistake in drawn[0]}) == len(drawn[0]) == len(TEXTS)
    assert [mistake.rule for mistake in drawn[0]] == ["consonant", "vowel"] * 2


# Detectors.

WORDS = ["하나", "둘", "셋", "넷", "다섯", "여섯"]


def make_planted(count: int, draw: np.random.Generator) -> list[Planted]:
    found = []
    for number in range(count):
        words = [f"{draw.choice(WORDS)}{number}" for _ in range(8)]
        place = int(draw.integers(8))
        wrong = [*words[:place], "틀린" + words[place], *words[place + 1 :]]
        start = len(" ".join(words[:place])) + (place > 0)
        clean, text = " ".join(words), " ".join(wrong)
        rule = "odd" if number % 2 else "even"
        before, after = (start, start + len(words[place])), (start, start + len(wrong[place]))
        found.append(Planted(rule, clean, text, before, after))
    return found


@pytest.fixture(scope="module")
def figures():
    draw = np.random.default_rng(0)
    planted = make_planted(60, draw)
    texts = {text for p in planted for text in (p.clean, p.text)}
    knowing = {text: np.array([1.0 * ("틀린" in word) for word in text.split()]) for text in texts}
    guessing = {text: draw.normal(size=len(word_spans(text))) for text in sorted(texts)}
    rows = figures_of({"keyboard": planted}, {"knowing": knowing, "guessing": guessing})
    return {(row.detector, row.metric): row for row in rows}


def test_the_one_that_knows(figures):
    for metric in ("auc", "recall at 1%"):
        row = figures["knowing", metric]
        assert (row.estimate.value, row.estimate.low, row.estimate.high) == (1, 1, 1)
        assert row.num_sentences == 60


def test_the_one_that_guesses(figures):
    estimate = figures["guessing", "auc"].estimate
    assert estimate.low < 0.5 < estimate.high
    assert figures["guessing", "recall at 1%"].estimate.value < 0.2


def test_a_mistake_has_the_highest_score_of_its_words():
    mistake = Planted("added", "가나 다라", "가 나 다라", (0, 2), (0, 3))
    for second, wins in ((5.0, 1), (0.5, 0)):  # beside 2
        words = {"가 나 다라": np.array([1.0, second, 2]), "가나 다라": np.array([1.0, 4])}
        figures = figures_of({"added-space": [mistake]}, {"planted": words})
        assert {row.metric: row.estimate.value for row in figures}["auc"] == wins


def test_a_word_has_the_highest_score_of_its_pieces():
    spans = [(0, 1), (1, 2), (2, 5), (5, 6), (6, 8)]  # the space may belong to the piece behind it
    text = TokenizedText("국회 증시가 국", np.arange(5), spans, [0, 0, 1, 1, 2])
    assert by_word(text, np.array([1.0, 3, 2, 0, -1])).tolist() == [3, 2, -1]


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


def test_documents_are_read_in_any_encoding_and_a_table_without_text_is_refused(tmp_path):
    path = tmp_path / "documents.txt"
    path.write_bytes("\n".join(TEXTS).encode("cp949"))
    assert tuple(module._documents(path)) == TEXTS
    parquet.write_table(pyarrow.table({"body": TEXTS}), tmp_path / "documents.parquet")
    with pytest.raises(ValueError, match=r"documents\.parquet has no column text"):
        list(module._documents(tmp_path / "documents.parquet"))
