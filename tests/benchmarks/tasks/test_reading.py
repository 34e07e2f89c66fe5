"""From official files to checked examples: what is read, what is refused and where."""

import json
from dataclasses import replace

import pytest

from benchmarks.tasks.load import load_data, split_by_group
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.rows import GoldAnswer
from tests.benchmarks.records import (
    COLA,
    HATE_SPEECH,
    MNLI,
    MRPC,
    NAVER_NER,
    NER,
    NLI,
    OFFICIAL_FILES,
    QNLI,
    QUESTION_PAIR,
    RE,
    YNAT,
    YNAT_ROW,
    write,
)


def read(task, folder, old="", new="", split=None):
    name, content = OFFICIAL_FILES[task]
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    assert old in text
    path = write(folder / name, text.replace(old, new) if old else text)
    return list(TASKS[task].read(split or TASKS[task].reported, path))


def gold(example):
    return {name: value for name, value in vars(example).items() if name not in ("id", "texts")}


def test_every_format_becomes_examples(tmp_path):
    found = {task: read(task, tmp_path) for task in OFFICIAL_FILES}
    texts = {task: [(e.id, e.texts) for e in examples] for task, examples in found.items()}
    squad_texts = ("나는 가는 다는", "누구 ?")
    assert texts == {
        "klue-ynat": [("a", ("코스피 상승",))],
        "glue-sst2": [("dev-1", ("fine",))],
        "glue-stsb": [("dev-1", ("a", "b"))],
        "korean-naver-ner": [("test-1", ("국회 오늘",))],
        "klue-ner": [("n-1", ("국회",))],
        "klue-re": [("re-0", ("민수는 서울에 산다",))],
        "klue-dp": [("dp-0", ("민수는 서울에 산다.",)), ("dp-1", ("간다",))],
        "klue-wos": [
            ("wos-0-0", ("식당",)),
            ("wos-0-1", ("식당", "이름 은", "미담")),
            ("wos-0-2", ("식당", "이름 은", "미담", "나", "주차")),
        ],
        "squad-1.1": [("q1", squad_texts)],
        "squad-2.0": [("q1", squad_texts)],
        "klue-mrc": [("g", squad_texts)],
    }
    of_dp = [(word.form, word.pos, word.head, word.label) for word in found["klue-dp"][0].words]
    words = ("민수는", "JX", 3, "NP_SBJ"), ("서울에", "JKB", 3, "NP_AJT"), ("산다.", "SF", 0, "VP")
    assert of_dp == [*words]
    golds = {task: gold(found[task][-1]) for task in found if task != "klue-dp"}
    answers = (GoldAnswer("가는", 3),)
    assert golds == {
        "klue-ynat": {"gold": 1},
        "glue-sst2": {"gold": 1},
        "glue-stsb": {"gold": 2.5},
        "korean-naver-ner": {
            "words": ("국회", "오늘"),
            "tags": tuple(map(NAVER_NER.labels.index, ("ORG-B", "O"))),
        },
        "klue-ner": {"gold": tuple(map(NER.labels.index, ("B-OG", "I-OG")))},
        "klue-re": {
            "gold": RE.labels.index("per:place_of_residence"),
            "marked": "<subj>민수</subj>는 <obj>서울</obj>에 산다",
        },
        "klue-wos": {"gold": ("식당-이름-미담", "식당-주차 가능-yes")},
        "squad-1.1": {"answers": answers, "question_type": None},
        "squad-2.0": {"answers": answers, "question_type": None},
        "klue-mrc": {"answers": answers, "question_type": 2},
    }


@pytest.mark.parametrize(
    ("task", "old", "new"),
    [
        ("klue-ynat", "", ""),
        ("glue-sst2", "sentence\tlabel\nfine\t1", "index\tsentence\n0\tfine"),
        ("glue-stsb", "\tscore\n0\ta\tb\t2.5", "\n0\ta\tb"),
        ("klue-re", "", ""),
        ("klue-wos", "", ""),
        ("klue-mrc", "", ""),
    ],
)
def test_without_labels_gold_values_are_unknown(tmp_path, task, old, new):
    for example in read(task, tmp_path, old, new, split="test"):
        (value,) = (v for k, v in gold(example).items() if k not in ("marked", "question_type"))
        assert value is None


@pytest.mark.parametrize(
    ("task", "old", "new", "message"),
    [
        ("klue-ynat", '"title"', '"name"', r"dev\.json row 1: field 'title' is missing"),
        ("klue-ynat", "경제", "문화", r"row 1: unknown label '문화' \(allowed: 정치, 경제"),
        ("klue-ynat", "}]", "", "is not valid JSON: .*line 1"),
        ("glue-sst2", "\t1", "", r"dev\.tsv row 1: 1 columns, not 2 \(sentence, label\)"),
        ("glue-stsb", "2.5", "5.01", "row 1: score '5.01' is no number from 0 to 5"),
        ("korean-naver-ner", " O", "", "line 1: 2 tokens and 1 labels"),
        ("klue-ner", "국\t", "국국\t", "line 2: .* is not a character"),
        ("klue-re", '4, "end_idx": 5', '0, "end_idx": 1', "subject and object are the same"),
        ("klue-dp", "NNP+JX", "NNP+XX", "line 3: unknown POS tag 'XX'"),
        ("klue-dp", "\t3\tNP_SBJ", "\t7\tNP_SBJ", "line 3: head 7 in a sentence of 3 words"),
        ("klue-wos", "식당-이름-미담", "식당-맛-좋은", "unknown slot in '식당-맛-좋은'"),
        ("squad-1.1", '[{"text": "가는", "answer_start": 3}]', "[]", "'q1' has no answer"),
        ("klue-mrc", 'type": 2', 'type": 4', "question_type is 4, KLUE-MRC has"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(tmp_path, task, old, new, message):
    with pytest.raises(ValueError, match=message):
        read(task, tmp_path, old, new)


def test_cola_has_no_header_and_quotation_marks_are_characters(tmp_path):
    content = 'gj04\t1\t\tHe said " so .\ngj04\t0\t*\t"Him left\x0cnow\u2028here.\n'
    for split in ("train", "dev"):
        write(tmp_path / "CoLA" / f"{split}.tsv", content)
    rows = load_data(COLA, tmp_path).reported
    assert [(e.id, e.texts[0], e.gold) for e in rows] == [
        ("dev-1", 'He said " so .', 1),
        ("dev-2", '"Him left\x0cnow\u2028here.', 0),
    ]
    assert load_data(COLA, tmp_path / "CoLA").reported == rows  # the folder itself may be named


def test_headers_byte_order_marks_and_carriage_returns(tmp_path):
    """MNLI's dev files have five labels of raters, its training file one, its test files none."""
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\ta b\tb a\r\n"
    (example,) = MRPC.read("dev", write(tmp_path / "MRPC/dev.tsv", header))
    assert example.texts == ("a b", "b a")
    for split, table in (
        ("train", "sentence1\tsentence2\tlabel1\tgold_label\na\tb\t-\tneutral\n"),
        ("dev", "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tx\tneutral\n"),
        ("test", "index\tsentence1\tsentence2\n0\ta\tb\n"),
    ):
        (example,) = MNLI.read(split, write(tmp_path / f"{split}.tsv", table))
        assert (example.texts, example.gold) == (("a", "b"), None if split == "test" else 2)
    cells = 'id,question1,question2,is_duplicate\n1,"a, b",c,0\n'
    (example,) = QUESTION_PAIR.read("train", write(tmp_path / "pair.csv", cells))
    assert example.texts == ("a, b", "c")
    table = "title\tcomment\tbias\thate\nx\tc\tnone\thate\n"
    (example,) = HATE_SPEECH.read("train", write(tmp_path / "hate.tsv", table))
    assert (example.texts, example.gold) == (("c",), 2)


def test_files_are_found_by_their_names_and_parts_joined(tmp_path):
    write(tmp_path / "ynat-v1.1_dev.json", [YNAT_ROW])
    write(tmp_path / "deep" / "ynat-v1.1_train_part.json", [YNAT_ROW | {"guid": "part"}])
    assert load_data(YNAT, tmp_path).train[0].id == "part"
    write(tmp_path / "ynat-v1.1_train.json", [YNAT_ROW | {"guid": "whole"}])
    assert load_data(YNAT, tmp_path).train[0].id == "whole"
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)  # is walked once
    assert len(load_data(YNAT, tmp_path).reported) == 1
    header = "index\tquestion\tsentence\tlabel\n"
    write(tmp_path / "QNLI/dev.tsv", header + "0\ta\tb\tentailment\n")
    for part in "ab":
        write(tmp_path / f"QNLI/train_part_{part}.tsv", header + f"0\t{part}\tx\tentailment\n")
    assert [e.texts[0] for e in load_data(QNLI, tmp_path).train] == ["a", "b"]
    write(tmp_path / "two" / "ynat-v1.1_dev.json", [YNAT_ROW])
    with pytest.raises(ValueError, match=r"two/ynat-v1\.1_dev\.json and .*/ynat-v1\.1_dev"):
        load_data(YNAT, tmp_path)


def nli_rows(num_groups):
    return [
        {"guid": f"{g}-{k}", "premise": f"전제 {g}", "hypothesis": f"{k}", "gold_label": label}
        for g in range(num_groups)
        for k, label in enumerate(NLI.labels)
    ]


def test_without_a_training_file_the_dev_rows_are_split_by_group(tmp_path):
    write(tmp_path / "klue-nli-v1.1_dev.json", nli_rows(200))
    data = load_data(replace(NLI, num_rows={"dev": 600}), tmp_path)
    assert (data.split, data.parts) == ("dev-split-eval", {})
    train, reported = ({e.texts[0] for e in rows} for rows in (data.train, data.reported))
    assert not train & reported
    assert len(data.train) + len(data.reported) == 600
    assert 0.6 < len(data.train) / 600 < 0.8
    # the side of a row depends on its group alone
    again, others = split_by_group(NLI, [*data.train, *data.reported][::-2])
    assert set(again) <= set(data.train)
    assert set(others) <= set(data.reported)


@pytest.mark.parametrize(
    ("official", "split", "parts"),
    [
        ({"train": 1, "dev": 3}, "dev", {}),
        ({"dev": 7}, "dev-part", {"dev": (3, 7)}),
        ({"dev": 2}, "dev-enlarged", {"dev": (3, 2)}),
        ({"train": 9, "dev": 3}, "dev", {"train": (1, 9)}),
        ({}, "dev", {}),  # nobody knows
    ],
)
def test_rows_of_another_number_than_the_official_one_have_a_name_of_their_own(
    tmp_path, official, split, parts
):
    write(tmp_path / "ynat-v1.1_train.json", [YNAT_ROW])
    rows = [YNAT_ROW | {"guid": str(number)} for number in range(3)]
    write(tmp_path / "ynat-v1.1_dev.json", rows)
    data = load_data(replace(YNAT, num_rows=official), tmp_path)
    assert (data.split, data.parts) == (split, parts)
