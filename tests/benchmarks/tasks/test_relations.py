"""Marked sentences of KLUE-RE: markers, the repair behind them, features and scores."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertTokenizer, PreTrainedTokenizerFast

from benchmarks.tasks.labels import (
    MARKERS,
    RelationExample,
    entity_inputs,
    repaired,
)
from tests.benchmarks.conftest import words_of
from tests.benchmarks.records import RE

WORDS = words_of("[PAD] [UNK] [CLS] [SEP] [MASK] 민 수 는 서울 에 산다 A ##민 ##수 ##는 ##에")
TEXT = "<subj>민수</subj>는 <obj>서울</obj>에 산다"


@pytest.fixture(scope="module")
def tokenizer():
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = BertTokenizer(vocab=vocabulary, do_lower_case=False)
    tokenizer.add_special_tokens({"additional_special_tokens": list(MARKERS)})
    return tokenizer


def test_a_text_may_end_behind_a_marker(tokenizer):
    """The official code reads one character on and stops with an IndexError."""
    text = "<subj>민수</subj>는 <obj>서울</obj>"
    (ids,) = entity_inputs([text], tokenizer, 32)
    assert tokenizer.convert_ids_to_tokens(ids)[-3:] == ["서울", "</obj>", "[SEP]"]


def test_word_starts_of_sentencepiece_are_taken_back():
    words = ["<unk>", "▁", "▁는", "▁에", "▁민수", "▁서울", "는", "에", *MARKERS]
    inner = Tokenizer(models.Unigram([(word, -1.0) for word in words], unk_id=0))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")
    text = "<subj>민수</subj>는 <obj>서울</obj>에"
    cut = words_of("<subj> ▁민수 </subj> ▁는 <obj> ▁서울 </obj> ▁ 에")
    expected = words_of("<subj> ▁민수 </subj> 는 <obj> ▁서울 </obj> 에")
    assert repaired(text, cut, tokenizer) == expected


def test_sentences_become_features(tokenizer):
    texts = (TEXT, "<subj>민수</subj>는 <obj>서울</obj>")  # the second ends in an entity
    examples = [RelationExample(str(n), ("",), n, text) for n, text in enumerate(texts)]
    features = RE.featurize(examples, tokenizer, 11, train=True)
    assert [len(ids) for ids in features.input_ids] == [11, 10]
    assert features.num_truncated == 1
    assert features.labels["labels"] == [0, 1]
