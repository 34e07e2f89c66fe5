"""Several labels a text, relations: reading, learning, scoring."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from benchmarks.metrics.labels import exact_match, label_set_macro_f1, label_set_micro_f1
from benchmarks.tasks.labels import MARKERS, MultiLabelClassification, RelationExample, repaired
from benchmarks.tasks.load import load_data
from benchmarks.tasks.task import Features
from tests.benchmarks.conftest import words_of
from tests.benchmarks.records import RE, bert_tokenizer, own_task_of

LABEL_SETS = [
    {"text": f"{n}번째 글", "labels": [name for bit, name in enumerate("가나다") if n >> bit & 1]}
    for n in range(16)
]


@pytest.fixture
def task(tmp_path: Path) -> MultiLabelClassification:
    made = own_task_of(tmp_path, LABEL_SETS)
    assert isinstance(made, MultiLabelClassification)
    return made


def test_lists_of_names_beside_a_text_are_several_labels(task: MultiLabelClassification):
    assert (task.labels, task.text_fields) == (("가", "나", "다"), ("text",))
    data = load_data(task, Path())
    examples = {example.texts[0]: example for example in (*data.train, *data.reported)}
    for row in LABEL_SETS:  # a row without a label is one, too
        expected = tuple(task.labels.index(name) for name in row["labels"])
        assert examples[str(row["text"])].gold == expected


def test_the_metrics_are_those_of_scikit_learn():
    gold, predicted = np.random.default_rng(0).random((2, 40, 5)) < 0.3
    gold[:, 4] = predicted[:, 4] = False  # a label that nobody names
    both = gold[:, :4], predicted[:, :4]
    assert label_set_macro_f1(gold, predicted) == pytest.approx(f1_score(*both, average="macro"))
    assert label_set_micro_f1(gold, predicted) == pytest.approx(f1_score(*both, average="micro"))
    assert exact_match(gold, predicted) == np.mean([*map(np.array_equal, gold, predicted)])


def test_labels_above_one_half_are_predicted(task: MultiLabelClassification):
    (example, *_) = (e for e in load_data(task, Path()).train if e.gold == (0, 2))
    outputs = {"logits": np.array([2.0, 0.1, -1.0], dtype=np.float32)}
    (prediction,) = task.predictions([example], Features.from_rows([]), [outputs])
    assert (prediction["gold"], prediction["prediction"]) == (["가", "다"], ["가", "나"])
    scores = task.score([prediction])
    assert scores["label_set_micro_f1"] == pytest.approx(0.5)
    assert scores["exact_match"] == 0
    assert task.label_pairs(prediction) == [("가", "가"), ("", "나"), ("다", "")]


WORDS = words_of("[PAD] [UNK] [CLS] [SEP] [MASK] 민 수 는 서울 에 산다 A ##민 ##수 ##는 ##에")
TEXT = "<subj>민수</subj>는 <obj>서울</obj>에 산다"


@pytest.fixture(scope="module")
def words():
    return bert_tokenizer(WORDS, MARKERS)


def test_word_starts_of_sentencepiece_are_taken_back():
    words = ["<unk>", "▁", "▁는", "▁에", "▁민수", "▁서울", "는", "에", *MARKERS]
    inner = Tokenizer(models.Unigram([(word, -1.0) for word in words], unk_id=0))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    words = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")
    text = "<subj>민수</subj>는 <obj>서울</obj>에"
    cut = words_of("<subj> ▁민수 </subj> ▁는 <obj> ▁서울 </obj> ▁ 에")
    expected = words_of("<subj> ▁민수 </subj> 는 <obj> ▁서울 </obj> 에")
    assert repaired(text, cut, words) == expected


def test_sentences_become_features(words):
    """The second ends behind a marker, where the official code stops with an IndexError."""
    texts = (TEXT, "<subj>민수</subj>는 <obj>서울</obj>")
    examples = [RelationExample(str(n), ("",), n, text) for n, text in enumerate(texts)]
    features = RE.featurize(examples, words, 11, train=True)
    assert [len(ids) for ids in features.input_ids] == [11, 10]
    assert words.convert_ids_to_tokens(features.input_ids[1])[-3:] == ["서울", "</obj>", "[SEP]"]
    assert features.num_truncated == 1
    assert features.labels["labels"] == [0, 1]
