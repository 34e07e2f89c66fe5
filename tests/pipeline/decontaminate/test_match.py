"""Benchmark texts are found, whole or slightly edited; other texts stay as they are."""

import html
import json
import random
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decontaminate.index import read_letters, read_statistics, write_index
from pipeline.decontaminate.match import LONG_LETTERS, BenchmarkIndex

SYLLABLES = "가나다라마바사아자차카타파하고노도로모보소오조초코토포호기니디리미비시이지치키티피히"
WORDS = [
    *("harbour", "lantern", "copper", "meadow", "whisper", "granite", "velvet", "thunder"),
    *("orchard", "compass", "ribbon", "saddle", "pepper", "canvas", "marble", "walnut", "feather"),
    *("anchor", "candle", "mirror", "basket", "hollow", "summer", "winter"),
]


def korean(rng, num_words):
    return " ".join("".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(num_words))


def english(rng, num_words):
    return " ".join(rng.choices(WORDS, k=num_words))


def index_of(folder, items):
    """The index of (task, text) pairs; `folder` gets the files."""
    folder.mkdir(exist_ok=True)
    for task, text in items:
        with (folder / f"{task}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"task": task, "split": "dev", "text": text}) + "\n")
    write_index(folder, folder / "index")
    return BenchmarkIndex.load(folder / "index")


def decontaminate(index, text):
    """What is left of one text."""
    return index.decontaminate([text])[0]


def _page(rng, make, num_sentences=40):
    return "\n".join(f"{make(rng, rng.randint(8, 14)).capitalize()}." for _ in range(num_sentences))


RNG = random.Random(7)
ITEMS = {
    "ko-short": [korean(RNG, 7) for _ in range(60)][:20],
    "ko-long": [korean(RNG, 80) for _ in range(10)],
    "en-short": [english(RNG, 9) for _ in range(60)][:20],
    "en-long": [english(RNG, 80) for _ in range(10)],
}
MAKERS = {"ko": korean, "en": english}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    items = ((task, text) for task, texts in ITEMS.items() for text in texts)
    return index_of(tmp_path_factory.mktemp("benchmarks"), items)


def _planted(rng, language, sentence):
    """A page with the sentence on a line in its middle."""
    before, after = _page(rng, MAKERS[language]), _page(rng, MAKERS[language])
    return f"{before}\n{sentence}\n{after}", f"{before}\n{after}"


@pytest.mark.parametrize("task", ITEMS)
def test_a_verbatim_text_goes_from_a_page_and_nothing_else(index, task):
    rng = random.Random(1)
    for item in ITEMS[task]:
        page, rest = _planted(rng, task[:2], item)
        found = decontaminate(index, page)
        assert [(m.task, m.kind) for m in found.matches] == [(task, "sentence")]
        assert found.drop is None
        assert found.text == rest
        assert found.num_lines_removed == 1


@pytest.mark.parametrize("task", ITEMS)
def test_one_edited_word_end_does_not_hide_a_text(index, task):
    num_found = 0
    for item in ITEMS[task]:
        middle = item.index(" ", len(item) // 2)
        edited = f"{item[: middle - 1]}뷁{item[middle:]}"
        matches = decontaminate(index, edited).matches
        num_found += [match.task for match in matches] == [task]
    assert num_found >= 0.95 * len(ITEMS[task])


@pytest.mark.parametrize("task", ["ko-long", "en-long"])
def test_a_stretch_of_a_long_text_is_found_from_fifty_letters_on(index, task):
    rng = random.Random(3)
    kinds = []
    for item in ITEMS[task]:
        letters = "".join(map(chr, read_letters(item)[0]))
        for length in (LONG_LETTERS - 8, LONG_LETTERS, LONG_LETTERS + 30):
            start = rng.randrange(len(letters) - length)
            stretch = letters[start : start + length]
            found = decontaminate(index, _planted(rng, task[:2], stretch)[0])
            is_long = length >= LONG_LETTERS
            assert (bool(found.matches), stretch in found.text) == (is_long, not is_long)
            kinds += [match.kind for match in found.matches]
    assert set(kinds) == {"ngram"}
    assert len(kinds) >= 2 * len(ITEMS[task])


def test_text_between_two_stretches_of_an_item_stays(index):
    rng = random.Random(4)
    item = ITEMS["en-long"][0]
    words = item.split()
    middle = " ".join(words[15:-15])
    own = english(rng, 200)[: len(middle) - 1]
    page, _ = _planted(rng, "en", f"{' '.join(words[:15])}.\n{own}.\n{' '.join(words[-15:])}.")
    found = decontaminate(index, page)
    assert {match.kind for match in found.matches} == {"ngram"}
    assert own in found.text
    assert " ".join(words[:15]) not in found.text
    assert " ".join(words[-15:]) not in found.text


def test_a_sentence_within_a_line_goes_and_its_neighbours_stay(index):
    rng = random.Random(6)
    item = ITEMS["en-short"][0]
    page = f"{_page(rng, english)}\nFirst of three. {item.capitalize()}. The third one.\n더 있다"
    found = decontaminate(index, page)
    assert "First of three. The third one.\n더 있다" in found.text
    assert item not in found.text.lower()


def test_a_phrase_within_another_sentence_stays(tmp_path):
    index = index_of(tmp_path, [("a", "I don't know what you're talking about.")])
    idiom = "She said that honestly I don't know what you're talking about today, my dear friend."
    assert decontaminate(index, idiom).matches == ()
    assert decontaminate(index, "I don't know what you're talking about!").drop is not None


def test_company_does_not_matter(index):
    rng = random.Random(8)
    texts = ["", "\n", "aaa", "\0\0\0", "a\0b", *ITEMS["ko-short"][:5], *ITEMS["en-long"][:3]]
    texts += [_planted(rng, task[:2], items[0])[0] for task, items in ITEMS.items()]
    item = ITEMS["ko-short"][9]  # of which the halves are none beside one another
    texts += [item[: len(item) // 2], item[len(item) // 2 :]]
    alone = [decontaminate(index, text) for text in texts]
    assert index.decontaminate(texts) == alone
    assert index.decontaminate(texts[::-1]) == alone[::-1]
    assert index.decontaminate([]) == []


KOREAN = "오래된 항구의 등대는 밤마다 세 번씩 깜빡인다"
ENGLISH = "The old lighthouse at the harbour blinks three times every night."


def test_short_texts_are_counted_and_not_looked_for(tmp_path):
    rows = [
        ("reviews", "재밌어요"),
        ("reviews", KOREAN),
        ("reviews", "최고최고최고최고최고최고최고"),
        ("words", "thank you very much"),
        ("words", ENGLISH),
        ("words", ""),
        ("words", KOREAN),
    ]
    index = index_of(tmp_path, rows)
    assert read_statistics(tmp_path / "index") == [("reviews", 3, 2), ("words", 4, 2)]
    tasks = {text: [match.task for match in decontaminate(index, text).matches] for _, text in rows}
    assert {text for text in tasks if tasks[text]} == {KOREAN, ENGLISH}
    assert (tasks[KOREAN], tasks[ENGLISH]) == (["reviews", "words"], ["words"])


def test_a_template_in_hundreds_of_texts_does_not_hide_them(tmp_path):
    cities = [a + b for a in "가나다라마" for b in "강산들골천도리"]
    rows = [("rooms", f"{city} 근처에 있는 저렴한 숙소를 하나 추천해 주세요") for city in cities]
    index = index_of(tmp_path, rows)
    for _, text in rows:
        assert decontaminate(index, text).drop is not None


def test_a_task_of_which_no_text_can_be_looked_for_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none of the 1 texts of short can be looked for"):
        index_of(tmp_path / "short", [("short", "짧다")])


TEXTS = st.text(alphabet=st.sampled_from("aAbBß １1①가나ㅋ한ｶカ漢ﬁ.,!?\n\t_-“”é🙂"))


def _folded(text):
    """Character by character, in plain Python; (letter, place)."""
    found = []
    for place, character in enumerate(text):
        folded = unicodedata.normalize("NFKC", character).casefold() if character.isalnum() else ""
        letter = next((c for c in folded if c.isalnum()), "")
        if letter:
            found.append((letter, place))
    return found


def _squeezed(pairs):
    letters = "".join(letter for letter, _ in pairs)
    return [pairs[i] for i in range(len(pairs)) if letters[i - 2 : i + 1] != letters[i] * 3]


FORMS = {
    "NFD": lambda text: unicodedata.normalize("NFD", text),
    "NFKD": lambda text: unicodedata.normalize("NFKD", text),
    "entities": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "named entities": lambda text: html.escape(text).replace(" ", "&nbsp;").replace("&", "&amp;"),
    "zero width": "\u200b".join,
    "capitals": str.title,
    "spacing and punctuation": lambda text: ", ".join(text.replace(" ", "")) + "!!",
    "fillers": lambda text: text.replace(" ", "\u3164"),
    "full width": lambda text: text.translate({c: c + 0xFEE0 for c in range(0x21, 0x7F)}),
    "half-width kana": lambda text: text.replace("ガ", "ｶﾞ").replace("パ", "ﾊﾟ"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_text_has_the_same_letters_on_both_sides(tmp_path, form):
    texts = [KOREAN, ENGLISH, "Crème brûlée & café, überall in größeren Städten!"]
    texts.append("ガラスのパズルを昨日買いました")
    changed = [FORMS[form](text) for text in texts]
    for text, other in zip(texts, changed, strict=True):
        letters, places = read_letters(other)
        assert "".join(map(chr, letters)) == "".join(map(chr, read_letters(text)[0]))
        assert (np.diff(places) >= 0).all()
        assert places.max() < len(other)
    for name, items, documents in (("a", texts, changed), ("b", changed, texts)):
        index = index_of(tmp_path / name, [("t", item) for item in items])
        assert all(found.drop is not None for found in index.decontaminate(documents))


SHORT_ITEMS = ["어제 본 영화 정말 재미있었다", "비행기가 하늘로 천천히 날았다"]
SHORT_ITEMS += ["thank you for your wonderful help"]


@pytest.mark.parametrize(
    "row",
    [
        "9976970\t{0}\t1",
        "9976970 {0} 1",  # as cleaning leaves it
        "ynat-v1_dev_00012 {0} entailment 2016.07.03",
        "9976970,{0},0.25",
        "12 {0} {1} contradiction",
    ],
)
def test_an_item_is_found_in_a_row_of_a_table_between_ids_and_labels(tmp_path, row):
    index = index_of(tmp_path, [("t", item) for item in SHORT_ITEMS])
    assert decontaminate(index, row.format(*SHORT_ITEMS)).drop is not None
    within = f"누군가 {SHORT_ITEMS[0]} 라고 했지만 나는 그렇게 생각하지 않는다"
    assert decontaminate(index, within).matches == ()


@given(TEXTS)
def test_letters_are_those_of_plain_python(text):
    letters, places = read_letters(text)
    expected = _squeezed(_folded(text))
    assert [chr(code) for code in letters] == [letter for letter, _ in expected]
    assert places.tolist() == [place for _, place in expected]
