"""Tasks of labels, numbers and words' tags: from official files to lines and scores."""

import numpy as np
import pytest

from benchmarks.tasks.data import load_data
from tests.benchmarks.records import NAVER_NER, STSB, write

SCORES = "index\tsentence1\tsentence2\tscore\n"


def test_values_are_learnt_as_shares_of_their_range_and_predicted_in_it(tmp_path, tokenizer):
    write(tmp_path / "STS-B/train.tsv", SCORES + "0\t국회\t증시\t5.000\n1\t오늘\t새\t1.250\n")
    write(tmp_path / "STS-B/dev.tsv", SCORES + "0\ta\tb\t2.5\n")
    data = load_data(STSB, tmp_path)
    features = STSB.featurize(data.train, tokenizer, 16, train=True)
    assert features.labels["values"] == [1.0, 0.25] * 2  # in both orders
    outputs = [{"logits": np.array([share], dtype=np.float32)} for share in (0.5, 1.25)]
    lines = STSB.lines(data.train, features, outputs)
    assert [(line["gold"], line["prediction"]) for line in lines] == [(5.0, 2.5), (1.25, 6.25)]


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
    lines = NAVER_NER.lines([example], features, [{"logits": logits}])
    assert lines[0]["prediction"] == ["ORG-B", "O", "LOC-B", "O"]
    assert NAVER_NER.score(lines) == {
        "seqeval_micro_f1": 1.0,
        "entity_micro_f1": 1.0,
    }
    assert NAVER_NER.constant(lines) is None


def test_entities_do_not_go_on_into_the_next_sentence():
    lines = [
        {"gold": ["PER-B"], "prediction": ["PER-B"]},
        {"gold": ["PER-I"], "prediction": ["O"]},
    ]
    # 1 of 2 gold entities, the second begun by an I-, and 1 of 1 predicted one
    assert NAVER_NER.score(lines)["seqeval_micro_f1"] == pytest.approx(2 / 3)
