"""Tasks of labels, numbers and words' tags: from official files to lines and scores."""

import math

import numpy as np
import pytest

from benchmarks.evaluate import evaluate
from benchmarks.metrics.regression import pearson, spearman
from benchmarks.results.results import read_results
from benchmarks.tasks.data.load import load_task
from benchmarks.tasks.glue import MNLI, QNLI, QQP, STSB
from benchmarks.tasks.kinds.word_tagging import WordsExample
from benchmarks.tasks.klue import STS, YNAT
from benchmarks.tasks.korean import HATE_SPEECH, KORNLI, NAVER_NER, NSMC, PAWS_X, QUESTION_PAIR


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def warnings(monkeypatch):
    seen = []
    monkeypatch.setattr("benchmarks.tasks.data.rows.warn", seen.append)
    return seen


def test_columns_are_found_by_the_header_of_each_file(tmp_path):
    """MNLI's dev files have five labels of raters, its training file one, its test files none."""
    write(
        tmp_path / "MNLI/train.tsv", "sentence1\tsentence2\tlabel1\tgold_label\na\tb\t-\tneutral\n"
    )
    write(
        tmp_path / "MNLI/dev_matched.tsv",
        "index\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label\n0\tc\td\tx\ty\tentailment\n",
    )
    write(tmp_path / "MNLI/test_matched.tsv", "index\tsentence1\tsentence2\n0\te\tf\n")
    data = load_task(MNLI, tmp_path)
    assert [(e.texts, e.label) for e in data.train] == [(("a", "b"), 2)]
    assert [(e.texts, e.label) for e in data.reported] == [(("c", "d"), 1)]
    assert {s: [(e.id, e.label) for e in rows] for s, rows in data.further.items()} == {
        "test": [("test-1", None)]
    }


def test_parts_are_joined_where_the_whole_file_is_missing(tmp_path):
    header = "index\tquestion\tsentence\tlabel\n"
    write(tmp_path / "QNLI/dev.tsv", header + "0\ta\tb\tentailment\n")
    for part in "ab":
        write(tmp_path / f"QNLI/train_part_{part}.tsv", header + f"0\t{part}\tx\tentailment\n")
    assert [e.texts[0] for e in load_task(QNLI, tmp_path).train] == ["a", "b"]
    write(tmp_path / "QNLI/train.tsv", header + "0\twhole\tx\tentailment\n")
    assert [e.texts[0] for e in load_task(QNLI, tmp_path).train] == ["whole"]


def test_broken_rows_are_left_out_where_the_authors_do_and_counted(tmp_path, warnings):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    write(tmp_path / "QQP/train.tsv", header + "0\t1\t2\ta\tb\t1\n1\t1\t2\thalf\n")
    write(tmp_path / "QQP/dev.tsv", header + "0\t1\t2\ta\tb\t0\n")
    assert len(load_task(QQP, tmp_path).train) == 1
    (warning,) = warnings
    assert "1 rows do not have 6 columns" in warning
    rows = "id\tsentence1\tsentence2\tlabel\n1\ta\tb\t1\n2\t\tb\t0\n"
    for name in ("translated_train", "test_2k"):
        write(tmp_path / f"x-final/ko/{name}.tsv", rows)
    assert len(load_task(PAWS_X, tmp_path).reported) == 1
    assert "1 rows with an empty text" in warnings[-1]


def test_other_names_of_files_and_columns(tmp_path):
    write(tmp_path / "hate-speech/train.tsv", "title\tcomment\tbias\thate\nx\tc\tnone\thate\n")
    write(tmp_path / "hate-speech/val.tsv", "title\tcomment\tbias\thate\nx\td\tnone\tnone\n")
    write(tmp_path / "test.no_label.tsv", "comments\ne\n")
    data = load_task(HATE_SPEECH, tmp_path)
    assert [(e.texts, e.label) for e in (*data.train, *data.reported)] == [(("c",), 2), (("d",), 0)]
    assert data.further["test"][0].texts == ("e",)
    write(tmp_path / "kor_pair_train.csv", 'id,question1,question2,is_duplicate\n1,"a, b",c,0\n')
    write(tmp_path / "kor_Pair_test.csv", "id,question1,question2,is_duplicate\n1,d,e,1\n")
    assert load_task(QUESTION_PAIR, tmp_path).train[0].texts == ("a, b", "c")


def test_a_reported_test_set_and_a_dev_set_beside_it(tmp_path):
    row = "sentence1\tsentence2\tgold_label\na\tb\tneutral\n"
    for name in ("multinli.train", "xnli.dev", "xnli.test"):
        write(tmp_path / f"{name}.ko.tsv", row)
    data = load_task(KORNLI, tmp_path)
    assert (data.split, list(data.further)) == ("test-part", ["dev"])
    write(tmp_path / "ratings_train.txt", "id\tdocument\tlabel\n7\t\t1\n")
    write(tmp_path / "ratings_test.txt", "id\tdocument\tlabel\n8\t좋다\t0\n")
    data = load_task(NSMC, tmp_path)
    assert data.train[0].texts == ("",)  # eight reviews of NSMC are empty
    assert data.reported[0].id == "8"


def test_where_to_get_a_missing_file_is_said(tmp_path):
    with pytest.raises(
        ValueError, match=r"no ratings_test\.txt .*from https://github\.com/e9t/nsmc"
    ):
        load_task(NSMC, tmp_path)


SCORES = "index\tsentence1\tsentence2\tscore\n"


@pytest.mark.parametrize("value", ["5.01", "-1", "many", "nan"])
def test_a_value_outside_the_range_is_refused_with_its_place(tmp_path, value):
    write(tmp_path / "STS-B/train.tsv", SCORES + "0\ta\tb\t5.000\n")
    write(tmp_path / "STS-B/dev.tsv", SCORES + f"0\ta\tb\t2.5\n1\ta\tb\t{value}\n")
    with pytest.raises(ValueError, match=f"row 2: score '{value}' is no number from 0 to 5"):
        load_task(STSB, tmp_path)


def test_values_are_learnt_as_shares_of_their_range_and_predicted_in_it(tmp_path, tokenizer):
    write(tmp_path / "STS-B/train.tsv", SCORES + "0\t국회\t증시\t5.000\n1\t오늘\t새\t1.250\n")
    write(tmp_path / "STS-B/dev.tsv", SCORES + "0\ta\tb\t2.5\n")
    data = load_task(STSB, tmp_path)
    features = STSB.kind.featurize(STSB, data.train, tokenizer, 16, train=True)
    assert features.labels["values"] == [1.0, 0.25] * 2  # in both orders
    outputs = [{"logits": np.array([share], dtype=np.float32)} for share in (0.5, 1.25)]
    lines = STSB.kind.lines(STSB, data.train, features, outputs)
    assert [(line["gold"], line["prediction"]) for line in lines] == [(5.0, 2.5), (1.25, 6.25)]


def test_scores_of_numbers_are_correlations():
    gold, predicted = [1.0, 2.0, 3.5, 0.0], [1.5, 1.0, 4.0, 0.5]
    lines = [{"gold": g, "prediction": p} for g, p in zip(gold, predicted, strict=True)]
    found = STS.kind.score(STS, lines)
    assert next(iter(found)) == "pearson"
    assert found["pearson"] == pytest.approx(np.corrcoef(gold, predicted)[0, 1])
    assert STSB.kind.score(STSB, lines)["spearman"] == spearman(gold, predicted)
    constant = [line | {"prediction": 2.0} for line in lines]
    assert math.isnan(pearson(gold, [2.0] * 4))
    assert math.isnan(STS.kind.score(STS, constant)["pearson"])
    assert STS.kind.constant(STS, constant) == "2.0"
    for task in (STS, STSB, YNAT, NAVER_NER):
        assert all(math.isnan(value) for value in task.kind.score(task, []).values())


def test_words_are_tagged_by_their_first_piece(tokenizer, tmp_path):
    write(tmp_path / "naver-ner/test.tsv", "국회 오늘 증시 .\tORG-B O LOC-B O\n")
    (example,) = NAVER_NER.kind.read(NAVER_NER, "test", tmp_path / "naver-ner/test.tsv")
    assert example.words == ("국회", "오늘", "증시", ".")
    features = NAVER_NER.kind.featurize(NAVER_NER, [example], tokenizer, 5, train=True)
    names = [NAVER_NER.labels[n] if n >= 0 else "" for n in features.labels["labels"][0]]
    assert names == ["", "ORG-B", "O", "LOC-B", ""]  # cut: [CLS] 국회 오늘 증시 [SEP]
    assert features.num_truncated == 1
    logits = np.zeros((5, len(NAVER_NER.labels)))
    for piece, label in enumerate(["PER-B", "ORG-B", "O", "LOC-B", "PER-B"]):
        logits[piece, NAVER_NER.labels.index(label)] = 1
    lines = NAVER_NER.kind.lines(NAVER_NER, [example], features, [{"logits": logits}])
    assert lines[0]["prediction"] == ["ORG-B", "O", "LOC-B", "O"]
    assert NAVER_NER.kind.score(NAVER_NER, lines) == {
        "seqeval_micro_f1": 1.0,
        "entity_micro_f1": 1.0,
    }
    assert NAVER_NER.kind.constant(NAVER_NER, lines) is None


def test_entities_do_not_go_on_into_the_next_sentence():
    lines = [
        {"gold": ["PER-B"], "prediction": ["PER-B"]},
        {"gold": ["PER-I"], "prediction": ["O"]},
    ]
    # 1 of 2 gold entities, the second begun by an I-, and 1 of 1 predicted one
    assert NAVER_NER.kind.score(NAVER_NER, lines)["seqeval_micro_f1"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [("국회 오늘\tO\n", "line 1: 2 words and 1 labels"), ("국회\tX-B\n", "unknown label 'X-B'")],
)
def test_a_bad_line_of_tagged_words_is_named(tmp_path, line, message):
    write(tmp_path / "test.tsv", line)
    with pytest.raises(ValueError, match=message):
        list(NAVER_NER.kind.read(NAVER_NER, "test", tmp_path / "test.tsv"))


def test_a_word_without_pieces_is_predicted_outside(tokenizer):
    example = WordsExample("a", ("국회 \u200b",), ("국회", " "), (1, 0))
    features = NAVER_NER.kind.featurize(NAVER_NER, [example], tokenizer, 8, train=False)
    logits = np.eye(len(NAVER_NER.labels))[[1] * len(features.input_ids[0])]
    (line,) = NAVER_NER.kind.lines(NAVER_NER, [example], features, [{"logits": logits}])
    assert line["prediction"] == ["PER-B", "O"]


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
        num_epochs=40,
        batch_size=16,
        layer_lr_decay=1.0,
    )
    evaluate(config, str(model_folder), overwrite=False)
    (folder,) = (tmp_path / "out").glob("evaluate-*")
    numbers, tagged = read_results(folder / "results.jsonl")
    assert numbers.metrics["pearson"] > 0.9
    assert tagged.metrics == {"seqeval_micro_f1": 1.0, "entity_micro_f1": 1.0}
    assert (numbers.hyper_parameters["train_both_orders"], tagged.split) == (True, "test-part")
