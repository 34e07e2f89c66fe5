"""Windows of contexts, and answers by the offsets of tokenizers of every kind."""

import itertools
import random
import unicodedata

import numpy as np
import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from benchmarks.tasks.kinds.spans import (
    GoldAnswer,
    Lengths,
    QuestionExample,
    answer_pieces,
    find_answer,
    fitted_lengths,
    max_context,
    pair_template,
    split_texts,
    window_bounds,
    window_rows,
)
from benchmarks.tasks.squad import SQUAD_1
from tests.benchmarks.conftest import build_tokenizer

CONTEXT = (
    "The Café Lumière (opened 1932) stands in Seoul; 한강연구소(HRI)와 《바람의 언덕》이 협약을 "
    "맺었다.  It cost £4.2 million,\nand İzmir's 東京 office paid."
)
ANSWERS = ["Café Lumière", "1932", "한강연구소(HRI)", "바람의 언덕", "£4.2 million", "東京", "The"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator([CONTEXT] * 2, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def byte_bpe() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([CONTEXT] * 2, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("[SEP]", 3), ("[CLS]", 2), trim_offsets=True, add_prefix_space=False
    )
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False
    )
    tokenizer.train_from_iterator([CONTEXT] * 2, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def fast(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **dict(zip(names, SPECIAL, strict=True))
    )


@pytest.fixture(scope="module", params=[word_piece, byte_bpe, unigram], ids=lambda f: f.__name__)
def tokenizer(request) -> PreTrainedTokenizerFast:
    return fast(request.param())


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


def test_lengths_are_the_official_ones_and_shrink_with_the_model():
    for length in (512, 510, 384):
        assert fitted_lengths(length, 64, 128) == (length, 64, 128)
    assert fitted_lengths(128, 64, 128) == (128, 64, 42)
    assert fitted_lengths(32, 64, 128) == (32, 16, 10)
    with pytest.raises(ValueError, match="rows of 15 tokens cannot hold a question"):
        fitted_lengths(15, 64, 128)


def test_the_template_joins_as_the_tokenizer_does(tokenizer):
    template = pair_template(tokenizer)
    parts = split_texts(["who paid", CONTEXT], tokenizer)
    ids, types = template.join(parts["who paid"].ids, parts[CONTEXT].ids)
    whole = tokenizer("who paid", CONTEXT, return_token_type_ids=True)
    assert ids.tolist() == whole["input_ids"]
    assert types.tolist() == whole["token_type_ids"]


def test_tokenizers_without_offsets_or_first_token_are_refused():
    with pytest.raises(ValueError, match="object gives no character offsets"):
        pair_template(object())
    bare = word_piece()
    bare.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A $B", special_tokens=[]
    )
    with pytest.raises(ValueError, match=r"encodes a pair as \[0, 1\]"):
        pair_template(fast(bare))


def test_answers_are_found_back_by_offsets(tokenizer):
    """From the answer's characters to pieces, and from these to the text that contains it."""
    pieces = split_texts([CONTEXT], tokenizer)[CONTEXT]
    for answer in ANSWERS:
        start, end = find_answer(CONTEXT, answer, CONTEXT.index(answer))
        assert CONTEXT[start:end] == answer
        first, last = answer_pieces(pieces.offsets, start, end)
        text = CONTEXT[pieces.offsets[first][0] : pieces.offsets[last][1]].strip()
        assert answer in text
        around = {"Café Lumière", "1932", "The"}  # words of their own in every tokenizer
        if answer in around and "▁" not in str(tokenizer.get_vocab()):
            assert text == answer
        # no piece less would hold it
        assert pieces.offsets[first][1] > start
        assert pieces.offsets[last][0] < end


def test_a_start_that_misses_takes_the_nearest_place():
    context = "ab x ab y ab"
    assert find_answer(context, "ab", 5) == (5, 7)
    assert find_answer(context, "ab", 6) == (5, 7)
    assert find_answer(context, "ab", 11) == (10, 12)
    assert find_answer(context, " x ", 2) == (3, 4)  # white space is no part of an answer
    assert find_answer(context, "zz", 0) is None
    assert find_answer(context, "  ", 2) is None


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
        assert (
            features.input_ids[row][shift : shift + end - start].tolist() == ids[start:end].tolist()
        )


def test_an_answer_that_stands_nowhere_leaves_its_question_out_of_training(tokenizer):
    lost = QuestionExample("q0", (CONTEXT, "who"), (GoldAnswer("nowhere", 3),))
    examples = [lost, question("Seoul")]
    train, num_lost = window_rows(examples, tokenizer, Lengths(200, 8, 100), train=True)
    assert (num_lost, train.example_of.tolist()) == (1, [1])
    predicted, num_lost = window_rows(examples, tokenizer, Lengths(200, 8, 100), train=False)
    assert (num_lost, predicted.example_of.tolist()) == (0, [0, 1])


def test_the_mask_holds_the_context_and_the_first_position(tokenizer):
    features, _ = window_rows([question(None)], tokenizer, Lengths(40, 8, 20), train=False)
    rows = np.arange(len(features.input_ids))
    length = 50
    mask = SQUAD_1.label_arrays(features, rows, length)["answer_mask"]
    for row in rows:
        context = np.flatnonzero(mask[row])[1:]
        ids = features.input_ids[row][context]
        assert mask[row, 0]
        assert not set(ids.tolist()) & {0, 2, 3}
        assert len(context) == len(features.details["offsets"][row])


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
