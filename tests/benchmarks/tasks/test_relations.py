"""Marked sentences of KLUE-RE: markers, the repair behind them, reading and scoring."""

import json
import math

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertTokenizer, PreTrainedTokenizerFast

from benchmarks.tasks.kinds.relations import MARKERS, closed, entity_inputs, marked, repaired
from benchmarks.tasks.klue import RE
from tests.benchmarks.conftest import words_of

WORDS = words_of("[PAD] [UNK] [CLS] [SEP] [MASK] 민 수 는 서울 에 산다 A ##민 ##수 ##는 ##에")
ROW = {
    "guid": "re-0",
    "sentence": "민수는 서울에 산다",
    "subject_entity": {"word": "민수", "start_idx": 0, "end_idx": 1, "type": "PER"},
    "object_entity": {"word": "서울", "start_idx": 4, "end_idx": 5, "type": "LOC"},
    "label": "per:place_of_residence",
}


@pytest.fixture(scope="module")
def tokenizer():
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = BertTokenizer(vocab=vocabulary, do_lower_case=False)
    tokenizer.add_special_tokens({"additional_special_tokens": list(MARKERS)})
    return tokenizer


def pieces(text, tokenizer, max_length=32):
    ids = entity_inputs([text], tokenizer, max_length)[0]
    return tokenizer.convert_ids_to_tokens(ids)


def test_markers_stand_in_the_order_of_the_text():
    sentence = "민수는 서울에 산다"
    assert marked(sentence, (0, 1), (4, 5)) == "<subj>민수</subj>는 <obj>서울</obj>에 산다"
    assert marked(sentence, (4, 5), (0, 1)) == "<obj>민수</obj>는 <subj>서울</subj>에 산다"


def test_the_rest_of_a_word_goes_on_behind_a_marker(tokenizer):
    found = pieces("<subj>민수</subj>는 <obj>서울</obj>에 산다", tokenizer)
    assert found == [
        "[CLS]",
        "<subj>",
        "민",
        "##수",
        "</subj>",
        "##는",
        "<obj>",
        "서울",
        "</obj>",
        "##에",
        "산다",
        "[SEP]",
    ]


def test_a_word_of_its_own_behind_a_marker_stays_one(tokenizer):
    found = pieces("<subj>민수</subj> 는 <obj>서울</obj>A 산다", tokenizer)
    assert found[5] == "는"  # a blank before it
    assert found[9] == "A"  # no Hangul


def test_a_repaired_piece_may_be_unknown(tokenizer):
    assert pieces("<subj>민수</subj>산다 <obj>서울</obj> 에", tokenizer)[5] == "[UNK]"


def test_a_text_may_end_behind_a_marker(tokenizer):
    """The official code reads one character on and stops with an IndexError."""
    text = "<subj>민수</subj>는 <obj>서울</obj>"
    with pytest.raises(ValueError, match="ends in </obj>"):
        repaired(text, tokenizer.tokenize(text), tokenizer)
    assert pieces(closed(text), tokenizer)[-3:] == ["서울", "</obj>", "[SEP]"]
    assert closed("<subj>민수</subj>는") == "<subj>민수</subj>는"


def test_a_marker_may_be_cut_off(tokenizer):
    text = "<subj>민수</subj>는 <obj>서울</obj>에 산다"
    assert pieces(text, tokenizer, 8) == [*pieces(text, tokenizer)[:7], "[SEP]"]


def test_word_starts_of_sentencepiece_are_taken_back():
    words = ["<unk>", "▁", "▁는", "▁에", "▁민수", "▁서울", "는", "에", *MARKERS]
    model = models.Unigram([(word, -1.0) for word in words], unk_id=0)
    inner = Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")
    text = "<subj>민수</subj>는 <obj>서울</obj>에"
    cut = ["<subj>", "▁민수", "</subj>", "▁는", "<obj>", "▁서울", "</obj>", "▁", "에"]
    assert repaired(text, cut, tokenizer) == [
        "<subj>",
        "▁민수",
        "</subj>",
        "는",
        "<obj>",
        "▁서울",
        "</obj>",
        "에",
    ]


def test_a_row_becomes_features(tmp_path, tokenizer):
    path = tmp_path / "klue-re-v1.1_dev.json"
    end = {**ROW, "guid": "re-1", "sentence": "민수는 서울"}  # ends in an entity
    path.write_text(json.dumps([ROW, end]), encoding="utf-8")
    examples = list(RE.read("dev", path))
    features = RE.featurize(examples, tokenizer, 11, train=True)
    assert [len(ids) for ids in features.input_ids] == [11, 10]
    assert features.num_truncated == 1
    assert [example.id for example in examples] == ["re-0", "re-1"]
    assert features.labels["labels"] == [RE.labels.index("per:place_of_residence")] * 2


def line(gold, probabilities):
    best = RE.labels[max(range(30), key=probabilities.__getitem__)]
    return {"id": gold, "gold": gold, "prediction": best, "probabilities": probabilities}


def test_scores_come_from_lines_alone():
    right = [0.0] * 30
    right[RE.labels.index("per:title")] = 1.0
    lines = [line("per:title", right), line("no_relation", [1.0, *[0.0] * 29])]
    scores = RE.score(lines)
    assert next(iter(scores)) == RE.headline == "micro_f1"
    assert scores["micro_f1"] == scores["auprc_without_no_relation"] == 1.0
    assert math.isnan(scores["auprc"])
    assert set(RE.score([])) == set(scores)
