"""Windows of contexts, answers by offsets, and from scores; beside loops and special cases."""

import itertools
import random
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from tokenizers import normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from benchmarks.tasks.features import (
    Lengths,
    QuestionExample,
    Window,
    answer_pieces,
    find_answer,
    max_context,
    pair_template,
    split_texts,
    window_bounds,
    window_rows,
)
from benchmarks.tasks.rows import GoldAnswer
from benchmarks.tasks.spans import NO_SPAN, electra_answer, klue_answer, spans_of_logits
from tests.benchmarks.conftest import SPECIAL, build_tokenizer
from tests.benchmarks.records import KORQUAD_1, MRC, SQUAD_2, trained_bpe

CONTEXT = (
    "The Café Lumière (opened 1932) stands in Seoul; 한강연구소(HRI)와 《바람의 언덕》이 협약을 "
    "맺었다.  It cost £4.2 million,\nand İzmir's 東京 office paid."
)
ANSWERS = ["Café Lumière", "1932", "한강연구소(HRI)", "바람의 언덕", "£4.2 million", "東京", "The"]


def word_piece() -> PreTrainedTokenizerFast:
    tokenizer = build_tokenizer()
    backend = tokenizer.backend_tokenizer
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False)
    backend.train_from_iterator([CONTEXT] * 2, trainer)
    return tokenizer


def byte_bpe() -> PreTrainedTokenizerFast:
    return trained_bpe(CONTEXT, pre_tokenizers.ByteLevel(add_prefix_space=False))


@pytest.fixture(scope="module", params=[word_piece, byte_bpe], ids=lambda f: f.__name__)
def tokenizer(request) -> PreTrainedTokenizerFast:
    return request.param()


@pytest.mark.parametrize("seed", range(20))
def test_windows_cover_the_context_and_each_piece_has_one_largest(seed):
    rng = random.Random(seed)
    count, room, stride = rng.randint(0, 60), rng.randint(1, 20), rng.randint(1, 25)
    bounds = window_bounds(count, room, stride)
    assert bounds[0][0] == 0
    assert [end for _, end in bounds].count(count) == 1  # the last, and no window behind it
    assert bounds[-1][1] == count
    for (start, end), (following, _) in itertools.pairwise(bounds):
        assert end - start == room
        assert following - start == min(room, stride)
    marks = max_context(bounds)
    for piece in range(count):
        contexts = {
            number: min(piece - start, end - 1 - piece) + 0.01 * (end - start)
            for number, (start, end) in enumerate(bounds)
            if start <= piece < end
        }
        best = max(contexts, key=lambda number: (contexts[number], -number))
        owners = [n for n in contexts if marks[n][piece - bounds[n][0]]]
        assert owners == [best]


def test_answers_are_found_back_by_offsets(tokenizer):
    """From the answer's characters to pieces, and from these to the text that contains it."""
    pieces = split_texts([CONTEXT], tokenizer)[CONTEXT]
    for answer in ANSWERS:
        start, end = find_answer(CONTEXT, answer, CONTEXT.index(answer))
        assert CONTEXT[start:end] == answer
        first, last = answer_pieces(pieces.offsets, start, end)
        text = CONTEXT[pieces.offsets[first][0] : pieces.offsets[last][1]].strip()
        assert answer in text
        if answer in ("Café Lumière", "1932", "The"):  # words of their own in every tokenizer
            assert text == answer
        # no piece less would hold it
        assert pieces.offsets[first][1] > start
        assert pieces.offsets[last][0] < end


@pytest.mark.parametrize(
    ("answer", "start", "place"),
    [("ab", 5, (5, 7)), ("ab", 6, (5, 7)), ("ab", 11, (10, 12)), ("zz", 0, None), ("  ", 2, None),
     (" x ", 2, (3, 4))],  # white space is no part of an answer
)  # fmt: skip
def test_a_start_that_misses_takes_the_nearest_place(answer, start, place):
    assert find_answer("ab x ab y ab", answer, start) == place


def question(answer: str | None, context: str = CONTEXT, identity: str = "q") -> QuestionExample:
    answers = () if answer is None else (GoldAnswer(answer, max(0, context.find(answer))),)
    return QuestionExample(identity, (context, "who paid"), answers)


def test_every_window_is_a_row_and_only_those_with_the_answer_have_its_place(tokenizer):
    examples = [question("바람의 언덕"), question(None)]
    lengths = Lengths(40, 20, 5)
    features, num_lost = window_rows(examples, tokenizer, lengths, train=True)
    assert num_lost == 0
    pieces = split_texts([CONTEXT, "who paid"], tokenizer)
    offsets, template = pieces[CONTEXT].offsets, pair_template(tokenizer)
    begin, behind = find_answer(CONTEXT, "바람의 언덕", CONTEXT.index("바람"))
    first, last = answer_pieces(offsets, begin, behind)
    shift = len(template.before) + len(pieces["who paid"].ids) + len(template.between)
    bounds = window_bounds(len(offsets), 40 - shift - len(template.behind), 5)
    expected = [
        (first - start + shift, last - start + shift) if start <= first and last < end else (0, 0)
        for start, end in bounds
    ]
    assert sum(place != (0, 0) for place in expected) > 1
    expected += [(0, 0)] * len(bounds)
    labels = features.labels
    assert list(zip(labels["start"], labels["end"], strict=True)) == expected
    assert labels["impossible"] == [False] * len(bounds) + [True] * len(bounds)
    assert features.example_of.tolist() == [0] * len(bounds) + [1] * len(bounds)
    ids = pieces[CONTEXT].ids
    for row, (place, (start, end)) in enumerate(zip(expected, bounds * 2, strict=True)):
        assert len(features.input_ids[row]) == len(features.token_type_ids[row]) <= 40
        if place != (0, 0):
            answer = features.input_ids[row][place[0] : place[1] + 1]
            assert answer.tolist() == ids[first : last + 1].tolist()
        of_context = features.input_ids[row][shift : shift + end - start]
        assert of_context.tolist() == ids[start:end].tolist()


@pytest.mark.parametrize("text", ["각의 세금이, é훌륭 1가", "ㄱ각é", ""])
def test_pieces_of_decomposed_text_hold_whole_characters(text):
    """Each piece stands for the same characters as in the composed text."""
    tokenizer = build_tokenizer(["각", "의", "세금", "##이", ",", "é", "##훌륭", "1", "가"], 64)
    apart = unicodedata.normalize("NFD", text)
    pieces = [split_texts([form], tokenizer)[form] for form in (text, apart)]
    assert pieces[0].ids.tolist() == pieces[1].ids.tolist()
    composed, decomposed = (
        [unicodedata.normalize("NFC", form[start:end]) for start, end in of.offsets.tolist()]
        for form, of in zip((text, apart), pieces, strict=True)
    )
    assert composed == decomposed


# From scores to answers.

FILLERS = [f"{first}{last}" for first in "가나다라마바사" for last in "은는이가"]
TOKENIZER = build_tokenizer([*FILLERS, "김민", "최수", "누구", "?"])


NO_OFFSETS = np.zeros((0, 2), dtype=np.int32)


def text_of(window: int, start: int, end: int) -> str:
    return f"{window}:{start}-{end}"


def table(starts, ends, window=None, number=0, n_best_size=20, max_answer_length=30):
    window = window or Window(1, np.ones(len(starts) - 1, dtype=bool), NO_OFFSETS)
    logits = np.array(starts), np.array(ends)
    return spans_of_logits(window, number, *logits, n_best_size, max_answer_length)


def texts(answer) -> list[str]:
    return [candidate.text for candidate in answer.candidates]


def test_without_any_valid_span_the_answer_is_the_official_one():
    nothing = table([9, 0, 0], [9, 0, 0], Window(1, np.zeros(2, dtype=bool), NO_OFFSETS))
    answer = electra_answer([nothing], text_of, 20, [1.5])
    assert (answer.text, answer.null_odds, answer.probabilities) == (NO_SPAN, 1.5, [1.0])
    answer = klue_answer([nothing], text_of, 20, [(9.0, 9.0)])
    assert texts(answer) == [NO_SPAN, ""]
    assert answer.null_odds == 18.0


def test_klue_counts_no_answer_among_the_candidates():
    spans = [table([2, 3, 1], [2, 0, 2]), table([1, 1, 1], [1, 0, 1], number=1)]
    answer = klue_answer(spans, text_of, 3, [(2.0, 2.0), (1.0, 1.0)])
    # the null of the second window: 2, among spans of 5, 3, 3, 2; put behind the n best
    assert texts(answer) == ["0:1-2", "0:1-1", "0:2-2", ""]
    assert answer.null_odds == pytest.approx(2.0 - 5.0)
    strong = klue_answer(spans, text_of, 3, [(4.0, 2.0), (9.0, 9.0)])
    assert texts(strong) == ["", "0:1-2", "0:1-1"]
    assert (strong.text, strong.null_odds) == ("0:1-2", pytest.approx(1.0))
    always = klue_answer(spans, text_of, 20, None)  # every question has an answer
    assert (always.text, always.null_odds) == ("0:1-2", None)
    assert "" not in texts(always)


def test_answers_are_put_together_from_windows():
    """The best span stands in the second window; the text is as in the context, blanks and all."""
    context = " ".join(FILLERS[:20]) + "  김민\n최수 " + " ".join(FILLERS[:5])
    example = QuestionExample("q", (context, "누구 ?"), (GoldAnswer("김민", 0),))
    task = replace(MRC, stride=120)
    features = task.featurize([example], TOKENIZER, 24, train=False)
    assert len(features.input_ids) > 1
    outputs = []
    for ids in features.input_ids:
        tokens = TOKENIZER.convert_ids_to_tokens(ids.tolist())
        start = np.array([5.0 * (token == "김민") for token in tokens] + [9.0] * 3)  # padding
        end = np.array([5.0 * (token == "최수") for token in tokens] + [9.0] * 3)
        outputs.append({"start_logits": start, "end_logits": end})
    (found,) = task.predictions([example], features, outputs)
    assert found["prediction"] == found["answer"] == "김민\n최수"
    assert found["null_odds"] == -10.0
    assert found["n_best"][0][0] == "김민\n최수"


def line(identity, gold, text, odds):
    said = text if odds <= 0 else ""
    return {"id": identity, "gold": gold, "prediction": said, "answer": text, "null_odds": odds}


def test_scores_are_made_of_lines_alone():
    given = ("q1", ["red"], "red", -3.0), ("q2", [], "blue", -2.9), ("q3", [], "x", -1.0)
    predictions = [line(*of) for of in given]
    joint = SQUAD_2.score(predictions)  # at the threshold -2.75
    assert (joint["exact"], joint["best_exact"]) == (pytest.approx(2 / 3), 1.0)
    at_zero = replace(SQUAD_2, null_threshold=0.0).score(predictions)
    assert at_zero["exact"] == pytest.approx(1 / 3)
    typed = [{**found, "question_type": 1} for found in predictions]
    assert MRC.score(typed)["exact_match_type1"] == pytest.approx(1 / 3)
    assert "exact_match_type1" not in MRC.score(predictions)
    assert "exact_match_type1" not in MRC.score([*typed[:2], predictions[2]])
    short = [{"id": "q", "gold": ["서울"], "prediction": "서울시"}]
    assert KORQUAD_1.score(short)["f1"] == pytest.approx(2 * 2 / 5)
