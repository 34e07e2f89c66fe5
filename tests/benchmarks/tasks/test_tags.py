"""Characters, pieces and labels of KLUE-NER; the whole way by a model that learns it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers

from benchmarks.encoder import load_encoder, open_model
from benchmarks.tasks.features import encode_texts
from benchmarks.tasks.heads import collate, make_head
from benchmarks.tasks.heads.linear import EncoderWithHead
from benchmarks.tasks.task import GoldExample
from tests.benchmarks.records import DP, NAVER_NER, NER, own_task_of, trained_bpe, write

O = NER.labels.index("O")  # noqa: E741
B_PS, I_PS, B_LC, I_LC = (NER.labels.index(name) for name in ("B-PS", "I-PS", "B-LC", "I-LC"))


def tagged_lines(tokenizer, text, tags, piece_labels, max_length=16, last=O):
    """The row's end has the label `last`."""
    example = GoldExample("a", (text,), tuple(tags))
    features = NER.featurize([example], tokenizer, max_length, train=False)
    num_pieces = len(features.input_ids[0])
    assert num_pieces == min(len(piece_labels) + 1, max_length)
    logits = np.eye(len(NER.labels))[[*piece_labels, last][:num_pieces]]
    return NER.predictions([example], features, [{"logits": logits}])


def test_characters_cut_off_are_not_scored_officially(tokenizer):
    tags = [O, O, O, B_LC, I_LC]
    (prediction,) = tagged_lines(tokenizer, "오늘 국회", tags, [O, O, O], max_length=3)
    assert prediction["official"] == {"gold": ["O"] * 4, "prediction": ["O"] * 4}
    assert np.isnan(NER.score([prediction])["entity_macro_f1"])
    assert prediction["prediction"] == ["O"] * 5


def test_labels_of_the_frame_count(tokenizer):
    """Of the first and the last padded position; that of [SEP] counts nowhere."""
    gold, pieces = [B_LC, I_LC, O, O, O], [O, B_LC, O, B_LC]
    (prediction,) = tagged_lines(tokenizer, "국회 오늘", gold, pieces, last=B_PS)
    assert prediction["frame"] == ["O", "B-PS"]
    # an entity of a type that is nowhere in gold
    assert NER.score([prediction])["entity_macro_f1"] == 0.5


def test_labels_of_an_unlabelled_split_are_read(tmp_path, tokenizer):
    path = write(tmp_path / "ner.tsv", "## a\t<서울:LC>\n서\tB-LC\n울\tI-LC\n\n")
    assert "test" in NER.unlabelled
    examples = list(NER.read("test", path))
    assert [example.gold for example in examples] == [(B_LC, I_LC)]
    assert NER.featurize(examples, tokenizer, 16, train=False).input_ids


def test_the_last_label_is_that_of_the_row_filled_up_to_the_maximum_length(tokenizer, model_folder):
    """Of rows of different length, one of them full, in one batch."""
    texts = ["국회", "오늘 국회 새", "큰 첫 경찰 오늘 내일 국회"]
    examples = [GoldExample(str(n), (t,), (O,) * len(t)) for n, t in enumerate(texts)]
    features = NER.featurize(examples, tokenizer, 8, train=False)
    encoder = load_encoder(open_model(str(model_folder)), "pretrained", 0).eval()
    head = make_head(NER, encoder, tokenizer, torch.Generator().manual_seed(0))
    network = EncoderWithHead(encoder, head.eval())
    batch = collate(NER, features, np.arange(3), tokenizer.pad_token_id, torch.device("cpu"))
    full = tokenizer(texts, padding="max_length", max_length=8, return_tensors="pt")
    with torch.no_grad():
        found = network(batch)["logits"]
        states = encoder(**full).last_hidden_state
        expected = head(states, full)["logits"]
    assert [len(ids) for ids in features.input_ids] == [4, 6, 8]
    for row, length in enumerate((4, 6, 8)):
        pieces = range(length - (length < 8))
        here, there = found[row, [*pieces, length - 1]], expected[row, [*pieces, 7]]
        torch.testing.assert_close(here, there, atol=1e-5, rtol=1e-4)
        assert (there[-1] - there[-2]).abs().max() > 1e-3 or row == 2


UD = [
    {"tokens": ["국회", "오늘"], "upos": ["NOUN", "ADV"]},
    {"tokens": ["새", "경찰", "오늘"], "upos": ["ADJ", "NOUN", "ADV"]},
    {"tokens": ["큰", "국회"], "upos": ["ADJ", "NOUN"]},
]


def test_labels_of_words_are_scored_by_accuracy(tmp_path, tokenizer):
    task = own_task_of(tmp_path, UD, kind="word-labels")
    assert task.labels == ("ADJ", "ADV", "NOUN")
    assert (task.label_field, task.headline) == ("upos", "accuracy")
    examples = [e for row in UD for e in task.examples(row, "x", "here", True)]
    features = task.featurize(examples, tokenizer, 4, train=True)  # the third word is cut off
    always = np.tile([0.0, 0.0, 1.0], (4, 1))
    predictions = task.predictions(examples, features, [{"logits": always}] * 3)
    nouns = ["NOUN", "NOUN"]
    assert [p["prediction"] for p in predictions] == [nouns, [*nouns, ""], nouns]
    assert task.score(predictions) == {"accuracy": 3 / 7}
    assert [round(task.error(p), 3) for p in predictions] == [0.5, 0.667, 0.5]


def test_words_are_tagged_by_their_first_piece(tokenizer, tmp_path):
    write(tmp_path / "naver-ner/test.tsv", "국회 오늘 증시 .\tORG-B O LOC-B O\n")
    (example,) = NAVER_NER.read("test", tmp_path / "naver-ner/test.tsv")
    assert example.words == ("국회", "오늘", "증시", ".")
    features = NAVER_NER.featurize([example], tokenizer, 5, train=True)
    names = [NAVER_NER.labels[n] if n >= 0 else "" for n in features.labels["labels"][0]]
    assert names == ["", "ORG-B", "O", "LOC-B", ""]  # cut: [CLS] 국회 오늘 증시 [SEP]
    assert features.num_truncated == 1
    logits = np.zeros((5, len(NAVER_NER.labels)))
    for piece, label in enumerate(["PER-B", "ORG-B", "O", "LOC-B", "PER-B"]):
        logits[piece, NAVER_NER.labels.index(label)] = 1
    predictions = NAVER_NER.predictions([example], features, [{"logits": logits}])
    assert predictions[0]["prediction"] == ["ORG-B", "O", "LOC-B", "O"]
    assert NAVER_NER.score(predictions) == {"seqeval_micro_f1": 1.0, "entity_micro_f1": 1.0}
    assert NAVER_NER.constant(predictions) is None


def test_entities_do_not_go_on_into_the_next_sentence():
    sentences = (["PER-B"], ["PER-B"]), (["PER-I"], ["O"])
    predictions = [{"gold": gold, "prediction": said} for gold, said in sentences]
    # 1 of 2 gold entities, the second begun by an I-, and 1 of 1 predicted one
    assert NAVER_NER.score(predictions)["seqeval_micro_f1"] == pytest.approx(2 / 3)


# Tokenizers of which a piece begins with the blank before a word.

SENTENCE = "Ann met Bob  in Seoul"


@pytest.fixture(params=["byte level", "metaspace"])
def marking(request):
    if request.param == "metaspace":
        return trained_bpe(SENTENCE, pre_tokenizers.Metaspace())
    return trained_bpe(SENTENCE, pre_tokenizers.ByteLevel(add_prefix_space=False))


def test_entities_that_are_learnt_right_are_found_whatever_the_pieces_begin_with(marking, tmp_path):
    rows = [{"text": SENTENCE, "entities": [[0, 3, "PER"], [8, 11, "PER"], [16, 21, "LOC"]]}] * 4
    task = own_task_of(tmp_path, rows)
    (example,) = task.from_rows("train", enumerate(rows[:1]), "mine")
    features = task.featurize([example], marking, 32, train=True)
    learnt = np.eye(len(task.labels))[features.labels["labels"][0]]
    (prediction,) = task.predictions([example], features, [{"logits": learnt}])
    assert prediction["prediction"] == prediction["gold"]


def test_words_have_the_pieces_that_they_have_in_text(marking):
    words = SENTENCE.split()
    row = {"sentence": SENTENCE, "tokens": words, "ner_tags": ["O"] * 5}
    (example,) = NAVER_NER.examples(row, "x", "here", True)
    features = NAVER_NER.featurize([example], marking, 64, train=True)
    assert features.input_ids[0].tolist() == marking(" ".join(words))["input_ids"]
    assert sorted(features.details["firsts"][0]) == [0, 1, 2, 3, 4]


def test_the_second_text_of_a_pair_is_told_apart_where_the_tokenizer_has_one_type(marking):
    features = encode_texts([("Ann met", "Bob"), ("in", "Seoul in")], marking, 32)
    for first, row in (("Ann met", 0), ("in", 1)):
        num_first = len(marking(first)["input_ids"])  # with [CLS] and [SEP]
        num_pieces = len(features.input_ids[row])
        types = [0] * num_first + [1] * (num_pieces - num_first)
        assert features.token_type_ids[row].tolist() == types


@pytest.mark.parametrize("task", [NER, NAVER_NER, DP], ids=lambda task: task.name)
def test_a_tokenizer_without_places_is_refused(task):
    with pytest.raises(ValueError, match="fast tokenizer"):
        task.featurize([], SimpleNamespace(is_fast=False), 16, train=True)
