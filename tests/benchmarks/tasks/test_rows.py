"""Names that look alike are one name; tags of every scheme are the same entities."""

import math
import random
import unicodedata

import pytest

from benchmarks.metrics.tags import entities
from benchmarks.tasks.rows import class_name, folded, iob2, is_missing, mark_and_type

WORDS = ["긍정", "매우 좋음", "Café", "ポジティブ", "می‌شود", "👨‍👩‍👧", "C++", "½", "①"]


@pytest.mark.parametrize("word", WORDS)
def test_what_cannot_be_seen_makes_no_other_name(word):
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in word)
    for written in (
        unicodedata.normalize("NFD", word),
        f"\u200b{word}\ufeff",
        f" {word.replace(' ', chr(0xA0) * 2)}\u3000",
        wide,
    ):
        assert folded(written) == folded(word)
    assert folded(word) == unicodedata.normalize("NFC", word)
    assert folded("ﾎﾟｼﾞﾃｨﾌﾞ") == "ポジティブ"


@pytest.mark.parametrize(
    ("value", "name"),
    [(1.0, "1"), ("1.00", "1"), ("１", "1"), (True, "true"), ("FALSE", "false"), ("01", "01"),
     (1.5, "1.5"), (" no ", "no")],
)  # fmt: skip
def test_a_label_has_one_name_in_every_format(value, name):
    assert class_name(value) == name


def test_what_says_that_there_is_no_value():
    for value in (None, math.nan, "", " ", "NaN", "nan", "<NA>", "NaT", "#N/A", "\u200b"):
        assert is_missing(value)
    for value in ("none", "None", "NULL", "NA", "n/a", "-"):
        assert not is_missing(value)
    assert not any(map(is_missing, ([], 0, False, "0", "nano")))


def chain(rng, length=12):
    """Entities of words, none of which stands beside another of its type."""
    tags, kind = [], ""
    while len(tags) < length:
        kind = rng.choice([k for k in ("PER", "LOC", "A_B") if k != kind])
        tags += [f"B-{kind}", *[f"I-{kind}"] * rng.randrange(3)]
        if rng.random() < 0.6:
            tags.append("O")
            kind = ""
    return tags[:length]


def written(tags, single, begin, inside, end, shape):
    """The same entities with other marks."""
    found = []
    for tag, after in zip(tags, [*tags[1:], "O"], strict=True):
        if tag == "O":
            found.append(tag)
            continue
        goes_on = after == f"I-{tag[2:]}"
        marks = {("B", True): begin, ("B", False): single, ("I", True): inside, ("I", False): end}
        found.append(shape.format(marks[tag[0], goes_on], tag[2:]))
    return found


@pytest.mark.parametrize("marks", ["BBII", "SBIE", "UBIL", "SBME", "WBME", "IIII"])
@pytest.mark.parametrize("shape", ["{0}-{1}", "{0}_{1}", "{1}-{0}", "{1}_{0}"])
def test_tags_of_every_scheme_are_the_same_entities(marks, shape):
    for seed in range(20):
        tags = chain(random.Random(seed))
        found = iob2(written(tags, *marks, shape=shape))
        assert found == tags
        assert iob2(found) == found
        assert entities(found) == entities(tags) == entities(tags, is_lenient=True)


def test_iob1_has_a_b_only_beside_an_entity_of_its_type():
    tags = ["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-PER"]
    assert iob2(tags) == ["B-PER", "I-PER", "B-PER", "O", "B-LOC", "B-PER"]
    assert entities(iob2(tags)) == entities(tags, is_lenient=True)


@pytest.mark.parametrize("tag", ["NOUN", "", "B-", "B", "PER", 3, None, ["B-PER"], "X-PER"])
def test_what_is_no_tag(tag):
    assert mark_and_type(tag) is None
    with pytest.raises(ValueError, match="is no tag"):
        iob2(["O", tag])
