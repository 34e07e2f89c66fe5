import json
from dataclasses import replace

import pytest

from benchmarks.finetune.recipe import recipe_for
from benchmarks.tasks.data.load import load_task, split_by_group
from benchmarks.tasks.glue import COLA, MRPC, RTE, SST2
from benchmarks.tasks.kind import Example
from benchmarks.tasks.klue import NLI, YNAT
from benchmarks.tasks.klue_structured import DP, DP_WITHOUT_POS, WOS
from benchmarks.tasks.squad import SQUAD_1, SQUAD_1_SPAN, SQUAD_2, SQUAD_2_SPAN

ROW = {"guid": "a", "title": "코스피 상승", "label": "경제"}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    return path


def write_ynat(folder, dev, train=None):
    write(folder / "ynat-v1.1_train.json", [ROW] if train is None else train)
    return write(folder / "ynat-v1.1_dev.json", dev)


def test_json_rows_become_examples_with_official_label_ids(tmp_path):
    rows = [ROW, {"guid": "b", "title": "개막", "label": "스포츠", "url": None}]
    write_ynat(tmp_path / "deep" / "ynat-v1.1", rows)
    data = load_task(YNAT, tmp_path)
    assert [(e.id, e.texts, e.label) for e in data.reported] == [
        ("a", ("코스피 상승",), 1),
        ("b", ("개막",), 6),
    ]


def test_pairs_keep_the_order_of_the_task(tmp_path):
    row = {"guid": "a", "premise": "비가 온다", "hypothesis": "맑다", "gold_label": "contradiction"}
    for split in ("train", "dev"):
        write(tmp_path / f"klue-nli-v1.1_{split}.json", [row])
    example = load_task(NLI, tmp_path).train[0]
    assert (example.texts, example.label) == (("비가 온다", "맑다"), 1)


def test_the_alternative_name_serves_where_the_official_one_is_missing(tmp_path):
    write(tmp_path / "ynat-v1.1_dev.json", [ROW])
    write(tmp_path / "ynat-v1.1_train_part.json", [ROW | {"guid": "part"}])
    assert load_task(YNAT, tmp_path).train[0].id == "part"
    write(tmp_path / "ynat-v1.1_train.json", [ROW | {"guid": "whole"}])
    assert load_task(YNAT, tmp_path).train[0].id == "whole"


def test_cola_has_no_header_and_quotation_marks_are_characters(tmp_path):
    content = 'gj04\t1\t\tHe said " so .\ngj04\t0\t*\t"Him left\x0cnow\u2028here.\n'
    for split in ("train", "dev"):
        write(tmp_path / "CoLA" / f"{split}.tsv", content)
    rows = load_task(COLA, tmp_path).reported
    assert [(e.id, e.texts[0], e.label) for e in rows] == [
        ("dev-1", 'He said " so .', 1),
        ("dev-2", '"Him left\x0cnow\u2028here.', 0),
    ]
    assert load_task(COLA, tmp_path / "CoLA").reported == rows  # the folder itself may be named


def test_files_with_header_byte_order_mark_and_carriage_returns(tmp_path):
    for split in ("train", "dev"):
        write(
            tmp_path / f"MRPC/{split}.tsv",
            "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\ta b\tb a\r\n",
        )
        write(tmp_path / f"SST-2/{split}.tsv", "sentence\tlabel\nfine \t1\n")
        write(
            tmp_path / f"RTE/{split}.tsv",
            "index\tsentence1\tsentence2\tlabel\n0\tx\ty\tnot_entailment\n",
        )
    assert load_task(MRPC, tmp_path).train[0].texts == ("a b", "b a")
    assert load_task(SST2, tmp_path).train[0].texts == ("fine ",)
    assert load_task(RTE, tmp_path).train[0].label == 1


def test_missing_files_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"no ynat-v1\.1_dev\.json below .*train_part\.json"):
        load_task(YNAT, tmp_path)
    with pytest.raises(ValueError, match=r"no data folder .*nowhere"):
        load_task(YNAT, tmp_path / "nowhere")


def test_two_files_of_one_name_are_both_named(tmp_path):
    write_ynat(tmp_path / "one", [ROW])
    write_ynat(tmp_path / "two", [ROW])
    with pytest.raises(ValueError, match=r"one/ynat-v1\.1_dev\.json and .*two/ynat-v1\.1_dev"):
        load_task(YNAT, tmp_path)


def test_a_folder_linked_into_itself_is_walked_once(tmp_path):
    write_ynat(tmp_path, [ROW])
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    assert len(load_task(YNAT, tmp_path).reported) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW, {"guid": "b", "label": "경제"}], r"row 2: field 'title' is missing"),
        ([ROW | {"title": 3}], r"row 1: field 'title' is 3, not text"),
        ([ROW, ["x"]], r"row 2: \['x'\] is not an object"),
        ([ROW | {"label": "문화"}], r"row 1: unknown label '문화' \(allowed: 정치, 경제"),
        ([ROW, ROW], r"row 2: guid 'a' is that of row 1"),
        ({"data": [ROW]}, r"holds one dict"),
        ("[{", r"is not valid JSON: .*line 1"),
        ([], r"1 training and 0 reported rows"),
    ],
)
def test_bad_json_is_refused_with_its_place(tmp_path, rows, message):
    write_ynat(tmp_path, rows)
    with pytest.raises(ValueError, match=message):
        load_task(YNAT, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sentence\tlabel\nfine\n", r"dev\.tsv row 1: 1 columns, not 2 \(sentence, label\)"),
        ("sentence\tlabel\nfine\t1\nbad\t2\n", r"row 2: unknown label '2' \(allowed: 0, 1\)"),
        ("index\tsentence\n0\tfine\n", r"header is \['index', 'sentence'\].*test set"),
        ("", r"header is \[\]"),
    ],
)
def test_bad_tsv_is_refused_with_its_place(tmp_path, content, message):
    write(tmp_path / "SST-2/train.tsv", "sentence\tlabel\nfine\t1\n")
    write(tmp_path / "SST-2/dev.tsv", content)
    with pytest.raises(ValueError, match=message):
        load_task(SST2, tmp_path)


def test_bytes_that_are_not_utf8_are_refused(tmp_path):
    write_ynat(tmp_path, [ROW]).write_bytes("제목".encode("cp949"))
    with pytest.raises(ValueError, match=r"dev\.json is not UTF-8"):
        load_task(YNAT, tmp_path)


def nli_rows(num_groups):
    return [
        {"guid": f"{g}-{k}", "premise": f"전제 {g}", "hypothesis": f"{k}", "gold_label": label}
        for g in range(num_groups)
        for k, label in enumerate(NLI.labels)
    ]


def test_without_a_training_file_the_dev_rows_are_split_by_group(tmp_path):
    write(tmp_path / "klue-nli-v1.1_dev.json", nli_rows(200))
    data = load_task(NLI, tmp_path)
    assert data.split == "dev-split-eval"
    train, reported = ({e.texts[0] for e in rows} for rows in (data.train, data.reported))
    assert not train & reported
    assert len(data.train) + len(data.reported) == 600
    assert 0.6 < len(data.train) / 600 < 0.8


def test_the_side_of_a_row_depends_on_its_group_alone(tmp_path):
    write(tmp_path / "klue-nli-v1.1_dev.json", nli_rows(50))
    data = load_task(NLI, tmp_path)
    rows = [*data.train, *data.reported]
    train, reported = split_by_group(NLI, rows[::-2])
    assert set(train) <= set(data.train)
    assert set(reported) <= set(data.reported)


@pytest.mark.parametrize(
    ("task", "variant"), [(SQUAD_1, SQUAD_1_SPAN), (SQUAD_2, SQUAD_2_SPAN), (DP, DP_WITHOUT_POS)]
)
def test_a_variant_learns_from_the_same_rows_as_its_task(task, variant):
    rows = [Example(str(number), (f"문맥 {number}",)) for number in range(200)]
    sides = split_by_group(task, rows, salt="selection")
    assert min(map(len, sides)) > 30
    assert split_by_group(variant, rows, salt="selection") == sides
    assert split_by_group(NLI, rows, salt="selection") != sides
    for width in (256, 768, 1024):
        assert recipe_for(variant, width) == recipe_for(task, width)


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
    write_ynat(tmp_path, [ROW | {"guid": str(number)} for number in range(3)])
    data = load_task(replace(YNAT, num_rows=official), tmp_path)
    assert (data.split, data.parts) == (split, parts)


def test_the_official_rows_that_are_divided_are_no_part_that_is_missing(tmp_path):
    write(tmp_path / "klue-nli-v1.1_dev.json", nli_rows(20))
    data = load_task(replace(NLI, num_rows={"dev": 60}), tmp_path)
    assert (data.split, data.parts) == ("dev-split-eval", {})


def test_the_rows_of_dialogues_are_dialogues():
    turns = [Example(f"wos-{number}-{turn}", ("a",)) for number in range(3) for turn in range(5)]
    assert WOS.kind.num_rows(turns) == 3
    assert YNAT.kind.num_rows(turns) == 15


def test_the_hash_is_of_texts_and_gold_values_in_their_order(tmp_path):
    def digest(rows, name):
        write_ynat(tmp_path / name, rows)
        return load_task(YNAT, tmp_path / name).sha256["dev"]

    rows = [ROW, ROW | {"guid": "b", "title": "개막"}]
    first = digest(rows, "first")
    assert digest([row | {"guid": row["guid"] * 2, "url": "x"} for row in rows], "ids") == first
    assert digest(rows[::-1], "order") != first
    assert digest([ROW, rows[1] | {"label": "사회"}], "label") != first
    assert digest([ROW, rows[1] | {"title": "개막 "}], "text") != first
