"""Labels follow from morphemes by rule."""

from collections import Counter

import pytest

from benchmarks.knowledge.properties import MEAN, examples_of, part_of_speech, parts_of_pieces
from benchmarks.korean.morphemes import analyse
from benchmarks.proofreading.detectors import cut
from tests.benchmarks.conftest import build_tokenizer

STEMS = ["책을 읽", "밥을 먹", "손을 씻", "문을 닫", "옷을 입"]
ENDINGS = {
    "었다": "past plain",
    "는다": "present plain",
    "었습니다": "past formal",
    "습니다": "present formal",
    "어요": "present polite",
    "겠다": "- plain",
}


@pytest.fixture(scope="module")
def examples():
    texts = [
        f"{who} {when} {stem}{ending}."
        for who in ("나는", "아이가", "학생이")
        for when in ("오늘", "집에서 오늘", "다시 큰 집에서 오늘")
        for stem in STEMS
        for ending in ENDINGS
    ]
    sentences = analyse(texts)
    pieces = dict(zip(texts, cut(build_tokenizer(), texts), strict=True))
    return examples_of(sentences, pieces, 120, seed=0)


def test_tense_and_level(examples):
    for name, place in (("tense", 0), ("level of speech", 1)):
        for example in examples[name]:
            ending = next(
                e for e in sorted(ENDINGS, key=len, reverse=True) if example.text[:-1].endswith(e)
            )
            assert example.label.split()[0] == ENDINGS[ending].split()[place], example
            assert example.piece == MEAN
            assert example.type == example.text.split()[-1]


def test_labels_are_equally_frequent(examples):
    assert set(examples) >= {"length", "tense", "level of speech", "word order"}
    for found in examples.values():
        assert len(set(Counter(example.label for example in found).values())) == 1
        assert len(found) <= 120


def test_two_neighbouring_words_are_exchanged(examples):
    pairs: dict[str, dict[str, str]] = {}
    for example in examples["word order"]:
        pairs.setdefault(example.group, {})[example.label] = example.text
    whole = [pair for pair in pairs.values() if len(pair) == 2]
    assert whole
    for pair in whole:
        old, new = pair["as it was"].split(), pair["two words exchanged"].split()
        differing = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        assert differing[1] == differing[0] + 1
        assert len(differing) == 2
        assert [old[i] for i in differing] == [new[i] for i in reversed(differing)]
        assert old[-1] == new[-1]


def test_a_piece_has_the_part_of_speech_of_its_first_character():
    tokenizer = build_tokenizer(("학생", "##이", "책", "##을", "샀다"))
    (sentence,) = analyse(["학생이 책을 샀다"])
    (pieces,) = cut(tokenizer, [sentence.text])
    assert parts_of_pieces(sentence, pieces) == [
        None,
        "common noun",
        "particle",
        "common noun",
        "particle",
        "verb",
        None,
    ]
    assert part_of_speech("NNG") == "common noun"
    assert part_of_speech("NP") == "pronoun, numeral"
    assert part_of_speech("W_URL") is None
