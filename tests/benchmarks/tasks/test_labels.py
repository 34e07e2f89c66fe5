"""Choices, several labels a text, relations: reading, learning, scoring."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    ElectraConfig,
    ElectraForMultipleChoice,
    ElectraModel,
    PreTrainedTokenizerFast,
)

from benchmarks.metrics.labels import exact_match, label_set_macro_f1, label_set_micro_f1
from benchmarks.tasks.heads import collate, make_head
from benchmarks.tasks.heads.linear import EncoderWithHead, LinearHead
from benchmarks.tasks.labels import (
    MARKERS,
    MultiLabelClassification,
    MultipleChoice,
    RelationExample,
    repaired,
)
from benchmarks.tasks.load import load_data
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.task import Features, GoldExample
from tests.benchmarks.conftest import FILLERS, SIZES, TOPICS, build_tokenizer, words_of
from tests.benchmarks.records import RE, bert_tokenizer, encoder_of_width, own_task_of

OF_FOUR = TASKS["kobest-hellaswag"]
COPA = [
    {
        "premise": f"{TOPICS[n % 7]} {FILLERS[n % 6]}",
        "question": "원인" if n % 2 else "결과",
        "alternative_1": FILLERS[n % 6] if n % 2 else TOPICS[n % 7],  # a topic is right
        "alternative_2": TOPICS[n % 7] if n % 2 else FILLERS[n % 6],
        "label": n % 2,
    }
    for n in range(70)
]


def test_columns_with_numbers_are_choices(tmp_path: Path):
    task = own_task_of(tmp_path, COPA)
    assert isinstance(task, MultipleChoice)
    assert task.choice_fields == ("alternative_1", "alternative_2")
    assert (task.text_fields, task.labels) == (("premise", "question"), ("0", "1"))
    data = load_data(task, Path())
    (example,) = (e for e in (*data.train, *data.reported) if e.id == "train-2")
    row = COPA[1]
    assert isinstance(example, GoldExample)
    text = f"{row['premise']} {row['question']}"
    assert example.texts == (text, row["alternative_1"], row["alternative_2"])
    assert example.gold == 1


@pytest.mark.parametrize("labels", [[0, 2, 1], [1, 3, 2], "ACB", "acb"])
def test_a_list_of_choices_has_its_names(tmp_path: Path, labels: Any):
    endings = ["간다", "온다", "잔다"]
    rows = [{"ctx": "그는", "endings": endings, "label": label} for label in labels]
    task = own_task_of(tmp_path, rows, text="ctx")
    assert task.choice_fields == ("endings",)
    examples = [e for row in rows for e in task.examples(row, "x", "here", True)]
    assert [example.gold for example in examples] == [0, 2, 1]


def make_examples(*numbers: int) -> list[GoldExample]:
    """Examples of so many choices."""
    return [
        GoldExample(str(n), (" ".join(TOPICS[:n]), *(TOPICS[k] for k in range(count))), 0)
        for n, count in enumerate(numbers)
    ]


def small_config(**options: Any) -> ElectraConfig:
    return ElectraConfig(vocab_size=len(build_tokenizer()), embedding_size=16, **SIZES, **options)


def test_the_scores_are_those_of_transformers():
    tokenizer, task = build_tokenizer(), OF_FOUR
    plain = {"summary_use_proj": False, "summary_activation": "", "summary_last_dropout": 0.0}
    theirs = ElectraForMultipleChoice(small_config(**plain)).eval()
    head: Any = make_head(task, theirs.electra, tokenizer, torch.Generator())
    head.scorer.linear.load_state_dict(theirs.classifier.state_dict())
    ours = EncoderWithHead(theirs.electra, head).eval()
    features = task.featurize(make_examples(4, 4, 4), tokenizer, 16, train=True)
    batch = collate(task, features, np.arange(3), tokenizer.pad_token_id, torch.device("cpu"))
    names = ("input_ids", "token_type_ids", "attention_mask")
    given = {name: batch[name].unflatten(0, (3, 4)) for name in names}
    with torch.no_grad():
        outputs = ours(batch)
        expected = theirs(**given, labels=batch["labels"])
    assert outputs["logits"].shape == (3, 4)
    torch.testing.assert_close(outputs["logits"], expected.logits)
    torch.testing.assert_close(head.loss(outputs, batch), expected.loss)


def test_an_example_with_fewer_choices_has_the_scores_that_it_has_alone():
    tokenizer, task = build_tokenizer(), OF_FOUR
    source = ElectraModel(small_config()).eval()
    head = make_head(task, source, tokenizer, torch.Generator().manual_seed(1))
    network = EncoderWithHead(source, head).eval()
    examples = make_examples(2, 4, 3)
    features = task.featurize(examples, tokenizer, 16, train=False)

    def logits(*rows: int) -> torch.Tensor:
        with torch.no_grad():
            device = torch.device("cpu")
            batch = collate(task, features, np.array(rows), tokenizer.pad_token_id, device)
            found: torch.Tensor = network(batch)["logits"]
            return found

    together = logits(0, 1, 2)
    for row, count in enumerate((2, 4, 3)):
        torch.testing.assert_close(together[row, :count], logits(row)[0])
    predictions = task.predictions(
        examples, features, [{"logits": row.numpy()} for row in together]
    )
    assert [len(p["probabilities"]) for p in predictions] == [2, 4, 3]
    assert [sum(p["probabilities"]) for p in predictions] == pytest.approx([1, 1, 1], abs=1e-5)


def test_cut_examples_are_counted_once():
    task, tokenizer = OF_FOUR, build_tokenizer()
    features = task.featurize(make_examples(2, 4, 3), tokenizer, 5, train=True)
    assert max(len(part) for part in features.input_ids) <= 4 * 5
    assert features.num_truncated == 1  # the last: two topics, a choice and three special tokens
    assert features.details["segments"] == [[4, 4], [5] * 4, [5] * 3]


# Several labels.

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


def test_the_loss_is_the_binary_cross_entropy_of_all_labels():
    head = LinearHead(encoder_of_width(4), 3, torch.Generator().manual_seed(0))
    logits, sets = torch.randn(2, 3), torch.tensor([[1.0, 0, 1], [0, 0, 0]])
    p = torch.sigmoid(logits)
    expected = -(sets * p.log() + (1 - sets) * (1 - p).log()).mean()
    assert head.loss({"logits": logits}, {"label_sets": sets}).item() == pytest.approx(
        expected.item()
    )


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
