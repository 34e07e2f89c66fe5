"""Tasks of labels, numbers and words' tags: from official files to lines and scores."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.evaluate import evaluate
from benchmarks.results.results import read_results
from benchmarks.tasks.data import load_data
from benchmarks.tasks.glue import STSB
from benchmarks.tasks.korean import NAVER_NER
from benchmarks.tasks.rows import table_cells


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


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


def test_a_model_learns_numbers_and_words_tags(make_config, model_folder, tmp_path):
    data = tmp_path / "data"
    words = ["국회", "증시", "경찰", "여행"]
    values = dict(zip(words, (0.0, 2.0, 3.5, 5.0), strict=True))
    pairs = [(a, b) for a in words for b in words] * 4
    rows = "".join(
        f"{n}\t{a}\t{b}\t{(values[a] + values[b]) / 2}\n" for n, (a, b) in enumerate(pairs)
    )
    for name in ("train", "dev"):
        write(data / f"STS-B/{name}.tsv", SCORES + rows)
    tags = {"국회": "ORG-B", "증시": "LOC-B", "경찰": "PER-B", "여행": "O"}
    text = "".join(f"{a} {b}\t{tags[a]} {tags[b]}\n" for a, b in pairs)
    for name in ("train", "test"):
        write(data / f"naver-ner/{name}.tsv", text)
    config = make_config(
        tasks=["glue-stsb", "korean-naver-ner"],
        data_dir=str(data),
        num_epochs=30,
        batch_size=16,
        layer_lr_decay=1.0,
        learning_rate=2e-3,  # and no dropout: on the edge it depends on the last digits
        dropout=0.0,
    )
    evaluate(config, str(model_folder), overwrite=False)
    (folder,) = (tmp_path / "out").glob("evaluate-*")
    numbers, tagged = read_results(folder / "results.jsonl")
    assert numbers.metrics["pearson"] > 0.9
    assert tagged.metrics == {"seqeval_micro_f1": 1.0, "entity_micro_f1": 1.0}
    assert (numbers.hyper_parameters["train_both_orders"], tagged.split) == (True, "test-part")


def test_blank_last_lines_and_cells_as_long_as_documents_are_no_fault(tmp_path: Path):
    table = tmp_path / "rows.tsv"
    table.write_text("a\tb\n1\t\n\n\r\n", encoding="utf-8")
    assert table_cells(table) == [["a", "b"], ["1", ""]]
    long = tmp_path / "rows.csv"
    long.write_text(f"a\n{'가' * 200_000}\n", encoding="utf-8")
    assert [len(row[0]) for row in table_cells(long)] == [1, 200_000]
