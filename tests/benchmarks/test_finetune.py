"""A fine-tuned network is a plain folder of `transformers`: its pipelines say what predict says."""

import csv
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoConfig, AutoModelForQuestionAnswering, AutoTokenizer, pipeline

import electrify
from benchmarks.finetune import finetune
from benchmarks.jobs import run_jobs
from electrify.cli import main
from electrify.config.evaluate import EvaluateConfig, OwnTask
from tests.benchmarks.conftest import FILLERS, TOPICS
from tests.benchmarks.records import RELATION, sets, write, write_table

FEW = ("evaluate.min_steps=3", "evaluate.num_epochs=1.0", "evaluate.device=cpu")
FAST = sets(*FEW)


def sentence(number: int) -> str:
    return f"{FILLERS[number % 5]} {TOPICS[number % 7]} {FILLERS[number % 3 + 2]}"


def answer(number: int) -> dict[str, Any]:
    text = sentence(number)
    word = TOPICS[number % 7]
    answers = {"text": [word], "answer_start": [text.index(word)]}
    return {"context": text, "question": "오늘", "answers": answers}


TEXTS = [sentence(number) for number in range(40)]
TABLES: dict[str, list[dict[str, Any]]] = {
    "labels": [{"text": text, "label": "ab"[n % 2]} for n, text in enumerate(TEXTS)],
    "pairs": [
        {"premise": text, "hypothesis": TEXTS[-n], "label": "xyz"[n % 3]}
        for n, text in enumerate(TEXTS)
    ],
    "numbers": [{"text": text, "score": 1.5 + n % 7 / 2} for n, text in enumerate(TEXTS)],
    "sets": [
        {"text": text, "labels": [["a"], ["b"], ["a", "b"]][n % 3]} for n, text in enumerate(TEXTS)
    ],
    "tags": [
        {"tokens": text.split(), "ner_tags": ["O", "B-T", "I-T"]} for n, text in enumerate(TEXTS)
    ],
    "spans": [{"text": text, "entities": [[0, 2, "T"]]} for n, text in enumerate(TEXTS)],
    "answers": [answer(number) for number in range(40)],
}  # fmt: skip
CLASSES = dict.fromkeys(("labels", "pairs", "numbers", "sets"), "SequenceClassification")
CLASSES |= dict.fromkeys(("tags", "spans"), "TokenClassification")
CLASSES["answers"] = "QuestionAnswering"


def made(model: Path, folder: Path, rows: Sequence[Any], **options: Any) -> Path:
    write(folder / "mine.json", rows)
    overrides = (*FEW, *options.pop("more", ()))
    return electrify.finetune(
        str(model), folder / "out", own_task=folder / "mine.json", overrides=overrides, **options
    )


@pytest.mark.parametrize("architecture", ["Electra", "ModernBert"])
@pytest.mark.parametrize("kind", TABLES)
def test_pipelines_say_what_predict_says(kind, architecture, request, tmp_path):
    name = "model_folder" if architecture == "Electra" else "modern_folder"
    rows = TABLES[kind]
    folder = made(request.getfixturevalue(name), tmp_path, rows)
    config = AutoConfig.from_pretrained(folder)
    assert config.architectures == [f"{architecture}For{CLASSES[kind]}"]
    ours: list[Any] = electrify.predict(folder, rows)
    if kind == "answers":  # transformers 5 has no pipeline for it
        network = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        for row, said in zip(rows, ours, strict=True):
            pair = tokenizer(row["question"], row["context"], return_tensors="pt")
            first = pair.sequence_ids(0).index(1)
            with torch.inference_mode():
                outputs = network(**pair)
            starts, ends = (outputs[name][0, first:-1] for name in ("start_logits", "end_logits"))
            spans = [(starts[a] + ends[b], a, b) for a in range(3) for b in range(a, 3)]
            _, start, end = max(spans)
            assert " ".join(row["context"].split()[start : end + 1]) == said["prediction"]
        return
    if kind in ("tags", "spans"):
        texts = [" ".join(row["tokens"]) if kind == "tags" else row["text"] for row in rows]
        tagged = pipeline("token-classification", str(folder), ignore_labels=[])
        for text, said in zip(texts, ours, strict=True):
            theirs = tagged(text)
            lowest = min(piece["score"] for piece in theirs)
            assert lowest == pytest.approx(said["probability"], abs=1e-5)
            labels = [piece["entity"] for piece in theirs]
            if kind == "tags":
                assert labels == said["prediction"]
        return
    texts = [row.get("text") for row in rows]
    if kind == "pairs":
        texts = [{"text": row["premise"], "text_pair": row["hypothesis"]} for row in rows]
    predict = pipeline("text-classification", str(folder))
    theirs = [predict(text, top_k=None) for text in texts]
    for of_theirs, said in zip(theirs, ours, strict=True):
        scores = {each["label"]: each["score"] for each in of_theirs}
        if kind == "numbers":
            assert said["prediction"] == pytest.approx(scores["score"], abs=1e-5)
        elif kind == "sets":
            assert said["probability"] == pytest.approx(scores, abs=1e-5)
            assert said["prediction"] == [n for n in "ab" if scores[n] >= 0.5]
        else:
            assert said["probability"] == pytest.approx(max(scores.values()), abs=1e-5)
            assert said["prediction"] == max(scores, key=scores.__getitem__)


def test_a_number_is_in_the_range_that_was_learnt(model_folder, tmp_path):
    rows = [{"text": text, "score": 100.5 + n % 2} for n, text in enumerate(TEXTS)]
    folder = made(model_folder, tmp_path, rows, more=["evaluate.min_steps=12"])
    said: list[Any] = electrify.predict(folder, TEXTS)
    assert all(99 < each["prediction"] < 103 for each in said)


def test_the_network_learns_from_all_rows_and_the_card_says_its_score(
    model_folder, tmp_path, capsys
):
    write_table(tmp_path / "mine.csv", TABLES["labels"])
    words = ["finetune", str(model_folder), "--own-task", str(tmp_path / "mine.csv"), *FAST]
    assert main([*words, "--output", str(tmp_path / "one")]) == 0
    card = (tmp_path / "one" / "README.md").read_text(encoding="utf-8")
    assert f"on {len({*TEXTS})} rows of mine" in card
    assert "learnt from all rows" in card
    assert "95 % interval" in card
    assert main([*words, "--output", str(tmp_path / "one")]) == 1
    assert "is there already" in capsys.readouterr().err
    assert main([*words, "--output", str(tmp_path / "best"), "--seeds", "2"]) == 0
    card = (tmp_path / "best" / "README.md").read_text(encoding="utf-8")
    assert "which scored best on these rows" in card
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_a_bag_of_words_stands_beside_the_network(model_folder, tmp_path, caplog):
    rows = [{"text": f"{TOPICS[n % 2]} {n}", "label": "ab"[n % 2]} for n in range(40)]
    with caplog.at_level("INFO"):
        folder = made(model_folder, tmp_path, rows, more=["evaluate.learning_rate=1e-9"])
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "TF-IDF with logistic regression has 100.00 there" in card
    assert any("as good or better" in line for line in caplog.messages)
    off = made(model_folder, tmp_path / "off", rows, more=["evaluate.bag_of_words=false"])
    assert "TF-IDF" not in (off / "README.md").read_text(encoding="utf-8")


def test_seeds_and_search_of_the_config_are_obeyed(model_folder, tmp_path, caplog):
    more = ["evaluate.seeds=[7]", "evaluate.search={learning_rate=[1e-7, 5e-3]}"]
    more += ["evaluate.min_steps=60"]
    with caplog.at_level("INFO"):
        folder = made(model_folder, tmp_path, TABLES["labels"], more=more)
    assert any("seed 7, learning_rate 0.005" in line for line in caplog.messages)
    about = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    assert about["settings"]["learning_rate"] == 5e-3
    shares = ["evaluate.train_fractions=[0.1]"]
    with pytest.raises(ValueError, match="finetune learns from all rows"):
        made(model_folder, tmp_path / "b", TABLES["labels"], more=shares)


@pytest.fixture
def let_end(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], Any]], None]:
    """Has jobs end in reversed order, with what is said of the result of each."""

    def let_end(change: Callable[[Any], Any]) -> None:
        def jobs(*given: Any) -> Any:
            for job, result, predictions in reversed([*run_jobs(*given)]):
                yield job, result.model_copy(update=change(job)), predictions

        monkeypatch.setattr("benchmarks.jobs.run_jobs", jobs)

    return let_end


def test_of_equal_seeds_the_first_is_kept_whatever_ends_first(model_folder, tmp_path, let_end):
    let_end(lambda job: {"value": 0.5})
    folder = made(model_folder, tmp_path, TABLES["labels"], more=["evaluate.seeds=[3, 1]"])
    assert "of seed 3, which scored best" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_seed_is_chosen_on_the_rows_for_development(model_folder, tmp_path, let_end):
    let_end(lambda job: {"value": 1 / job.seed, "metrics": {"dev_accuracy": 0.1 * job.seed}})
    files = {}
    for n, split in enumerate(("train", "dev", "test")):
        rows = [{**row, "text": f"{row['text']} {n}"} for row in TABLES["labels"]]
        files[split] = write_table(tmp_path / f"{split}.csv", rows)
    options = EvaluateConfig(own_tasks=(OwnTask(**files),), seeds=(1, 2), num_epochs=1, min_steps=1)
    finetune(str(model_folder), tmp_path / "best", options)
    card = (tmp_path / "best" / "README.md").read_text(encoding="utf-8")
    assert "of seed 2, which scored best on the rows for development" in card


def test_words_of_an_official_task_are_scored_by_the_labels_of_its_network(
    model_folder, tmp_path, capsys
):
    """Naver's labels are PER-B; a network of `transformers` says B-PER, and files do."""
    lines = [f"{sentence(n)}\tO PER-B PER-I\n" for n in range(40)]
    for split in ("train", "test"):
        write(tmp_path / "naver-ner" / f"{split}.tsv", "".join(lines))
    model, out = str(model_folder), tmp_path / "out"
    given: dict[str, Any] = {"task": "korean-naver-ner", "data_dir": tmp_path, "overrides": FEW}
    folder = electrify.finetune(model, out, **given)
    rows = [{"tokens": sentence(n).split(), "ner_tags": ["O", "B-PER", "I-PER"]} for n in range(9)]
    write(tmp_path / "rows.json", rows)
    assert main(["predict", str(folder), str(tmp_path / "rows.json")]) == 0
    assert "on 9 rows with a gold value" in capsys.readouterr().err
    for split in ("train", "dev"):
        write(tmp_path / f"klue-re-v1.1_{split}.json", [RELATION])
    with pytest.raises(ValueError, match="no class of networks for it"):
        electrify.finetune(model, tmp_path / "b", task="klue-re", data_dir=str(tmp_path))


def test_predict_reads_files_in_parts_and_keeps_their_columns(
    model_folder, tmp_path, monkeypatch, capsys
):
    folder = made(model_folder, tmp_path, TABLES["labels"])
    monkeypatch.setattr("benchmarks.predict._PART_ROWS", 7)
    (tmp_path / "texts.txt").write_text("\n".join([*TEXTS, "", "가 " * 50_000]), encoding="cp949")
    lines = [{"id": n, "text": text, "label": "new"} for n, text in enumerate(TEXTS)]
    lines[1]["more"] = "kept"  # the first row lacks it, and one of a later part has another
    lines[30]["odd"] = "lost"
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    write_table(tmp_path / "scored.csv", TABLES["labels"])
    said = {}
    for name in ("texts.txt", "rows.jsonl", "scored.csv"):
        output = tmp_path / f"said-{name}.csv"
        assert main(["predict", str(folder), str(tmp_path / name), "--output", str(output)]) == 0
        with output.open(encoding="utf-8", newline="") as file:
            said[name] = list(csv.DictReader(file))
    assert (said["rows.jsonl"][1]["more"], "odd" in said["rows.jsonl"][30]) == ("kept", False)
    printed = capsys.readouterr().err
    assert "rows lack are left out: odd" in printed
    days = pa.table({"text": TEXTS[:2], "day": [datetime(2026, 1, 1)] * 2})
    pq.write_table(days, tmp_path / "days.parquet")
    output = tmp_path / "days.jsonl"
    assert main(["predict", str(folder), str(tmp_path / "days.parquet"), f"--output={output}"]) == 0
    assert "2026-01-01" in output.read_text(encoding="utf-8")
    whole: list[Any] = electrify.predict(folder, TEXTS)
    for rows in said.values():
        assert [row["prediction"] for row in rows[:40]] == [of["prediction"] for of in whole]
        assert [row["text"] for row in rows[:40]] == TEXTS
    assert said["texts.txt"][40]["prediction"] == ""
    assert said["texts.txt"][41]["prediction"] in ("a", "b")
    assert "1 of 42 texts are longer than" in printed
    assert "unknown label 'new'" in printed
    assert "accuracy" in printed
    assert "on 40 rows with a gold value" in printed


@pytest.mark.parametrize(
    ("model", "rows", "message"),
    [
        (None, [{"text": text, "label": "a"} for text in TEXTS], "in every row: nothing to learn"),
        (None, [], "has no rows"),
        ("nothing", TABLES["labels"], "it has no config.json"),
    ],
)  # fmt: skip
def test_what_cannot_be_learnt_is_refused(model, rows, message, model_folder, tmp_path):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ValueError, match=message):
        made(tmp_path / model if model else model_folder, tmp_path, rows)
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_predicted_is_refused(model_folder, tmp_path, capsys):
    folder = made(model_folder, tmp_path, TABLES["pairs"])
    (tmp_path / "empty.csv").touch()
    (tmp_path / "texts.txt").write_text("오늘\n", encoding="utf-8")
    for place, file, message in (
        (model_folder, "texts.txt", "has no task.json"),
        (folder, "empty.csv", "has no rows"),
        (folder, "texts.txt", "no column 'premise'"),
        (folder, "none.txt", "no file"),
    ):
        assert main(["predict", str(place), str(tmp_path / file)]) == 1
        assert message in capsys.readouterr().err
    assert main(["predict", str(folder), str(tmp_path / "texts.txt"), "--output", "said.json"]) == 1
    assert "ends in .csv or .jsonl" in capsys.readouterr().err


def test_bf16_changes_no_file(modern_folder, tmp_path):
    folder = made(modern_folder, tmp_path, TABLES["labels"], more=['evaluate.precision="bf16"'])
    network = pipeline("text-classification", str(folder)).model
    assert {weights.dtype for weights in network.parameters()} == {torch.float32}
