import math
import random
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from benchmarks.report.errors import TaskErrors, add_errors, errors_of
from benchmarks.report.report import report
from benchmarks.results.results import append_result, percent, read_results
from benchmarks.results.run_folder import read_run
from benchmarks.tasks.data import load_data
from benchmarks.tasks.errors import failure_of, parts_of
from electrify.page.page import Page
from tests.benchmarks.conftest import make_result, put_predictions, text_of
from tests.benchmarks.records import DP, NAVER_NER, NER, RTE, SQUAD_1, SQUAD_2, STSB, WOS, YNAT

HOSTILE = "<script>alert('가')</script> \"q\" \u202edlrow\u202c \x07 | `*_[a](b) & </dd></details>"


def errors_in(task, runs, control=None, with_texts=True):
    return TaskErrors("", task, runs, control or {}, with_texts=with_texts)


def label_line(task, number, gold, probabilities):
    predicted = task.labels[int(np.argmax(probabilities))]
    return {
        "id": str(number),
        "gold": gold,
        "prediction": predicted,
        "probabilities": list(probabilities),
    }


def random_labels(task, seed, count=300):
    """Labels right in about two rows of three, the gold ones the same for every seed."""
    gold, rng = random.Random(0), np.random.default_rng(seed)
    rows = []
    for number in range(count):
        label = gold.randrange(len(task.labels) - 1)  # the last one never occurs
        probabilities = rng.dirichlet(np.ones(len(task.labels)))
        probabilities[label] += rng.random() < 0.6
        line = label_line(task, number, task.labels[label], probabilities / probabilities.sum())
        rows.append(line)
    return rows


def chain(task, seed):
    """Characters with labels, blanks among them, of which some are predicted otherwise."""
    gold, rng = random.Random(0), random.Random(seed)
    lines = []
    for number in range(60):
        text = "".join(gold.choice("가나다 ") for _ in range(20)) + "끝"
        kinds = [gold.choice(("PS", "LC", "OG")) for _ in range(3)]
        labels = [label for kind in kinds for label in (f"B-{kind}", *[f"I-{kind}"] * 3, "O", "O")]
        labels = [*labels, "O", "O", "O"]
        predicted = [x if rng.random() < 0.9 else rng.choice(task.labels) for x in labels]
        lines.append(
            {
                "id": str(number),
                "text": text,
                "gold": labels,
                "prediction": predicted,
                "frame": ["O", "O"],
            }
        )
    return lines


def test_f1_by_label_is_what_the_metrics_average():
    lines = random_labels(YNAT, 1)
    scores = errors_in(YNAT, {0: lines}).labels
    f1s = [score.value for score in scores]
    assert np.mean(f1s) == pytest.approx(YNAT.score(lines)["macro_f1"], abs=1e-12)
    gold = Counter(line["gold"] for line in lines)
    right = Counter(line["gold"] for line in lines if line["gold"] == line["prediction"])
    said = Counter(line["prediction"] for line in lines)
    assert [score.name for score in scores] == [label for label in YNAT.labels if said[label]]
    for score in scores:
        label, num_gold, num_predicted, precision, recall, f1, f1_range, random_f1 = score.cells
        name = score.name
        assert label == YNAT.label_names.get(name, name)
        assert score.count == num_gold == gold[name]
        assert num_predicted == said[name]
        assert precision == percent(right[name] / said[name], 1)
        assert recall == (percent(right[name] / gold[name], 1) if gold[name] else "–")
        assert (f1_range, random_f1) == (f"{f1} to {f1}", "–")


def test_entities_are_those_of_the_metrics():
    lines = chain(NER, 1)
    scores = errors_in(NER, {0: lines}).labels
    by_offsets = NER.score(lines)["entity_macro_f1_by_offsets"]
    assert 0.2 < by_offsets < 0.95
    assert np.mean([score.value for score in scores]) == pytest.approx(by_offsets, abs=1e-12)

    rng = random.Random(2)
    words = [
        {"id": str(n), "gold": [rng.choice(NAVER_NER.labels[:5]) for _ in range(12)]}
        for n in range(80)
    ]
    for line in words:
        line["prediction"] = [
            x if rng.random() < 0.8 else rng.choice(NAVER_NER.labels[:5]) for x in line["gold"]
        ]
    pairs = [pair for line in words for pair in parts_of(NAVER_NER, line)]
    claimed = sum(bool(pair.gold) + bool(pair.predicted) for pair in pairs)
    f1 = 2 * sum(pair.is_right for pair in pairs) / claimed
    assert f1 == pytest.approx(NAVER_NER.score(words)["seqeval_micro_f1"])


def test_arcs_are_right_as_las_counts_them():
    rng = random.Random(3)
    lines = []
    for number in range(40):
        heads = [rng.randrange(8) for _ in range(8)]
        labels = [rng.choice(DP.labels[:4]) for _ in range(8)]
        arcs = {
            "heads": [h if rng.random() < 0.8 else rng.randrange(8) for h in heads[:7]] + [-1],
            "labels": [x if rng.random() < 0.8 else "NP" for x in labels[:7]] + [None],
        }
        gold = {"heads": heads, "labels": labels}
        lines.append({"id": str(number), "gold": gold, "prediction": arcs, "tree": arcs})
    pairs = [pair for line in lines for pair in parts_of(DP, line)]
    share = sum(pair.is_right for pair in pairs) / len(pairs)
    assert share == pytest.approx(DP.score(lines)["las"])
    assert sum(score.count for score in errors_in(DP, {0: lines}).labels) == 320
    wrong = errors_in(DP, {0: lines}).worst[0]
    severity = max(2 * sum(not p.is_right for p in parts_of(DP, line)) for line in lines)
    assert wrong.failure.severity == severity
    assert "word " in wrong.failure.gold
    assert "cut off" in wrong.failure.prediction


def test_slots_add_up_to_the_pooled_f1():
    rng = random.Random(4)
    lines = []
    for number in range(60):
        state = [f"{slot}-{rng.choice('가나')}" for slot in WOS.labels if rng.random() < 0.1]
        said = [entry[:-1] + rng.choice("가나나") for entry in state if rng.random() < 0.8]
        said += ["택시-종류-무엇"] * (
            rng.random() < 0.2 and not any("택시-종류" in e for e in state)
        )
        lines.append({"id": str(number), "gold": state, "prediction": said})
    scores = errors_in(WOS, {0: lines}).labels
    claims = [score.count + score.cells[2] for score in scores]
    right = sum(score.value * claimed for score, claimed in zip(scores, claims, strict=True)) / 2
    claimed = sum(claims)
    pooled = WOS.score(lines)["pooled_slot_f1"]
    assert 2 * right / claimed == pytest.approx(pooled)
    assert errors_in(WOS, {0: lines}).confusions == {}
    failure = errors_in(WOS, {0: lines}).worst[0].failure
    assert failure.severity == max(len(set(x["gold"]) ^ set(x["prediction"])) for x in lines)


def test_figures_of_several_seeds_are_medians_and_counts_are_added():
    runs = {seed: random_labels(YNAT, seed) for seed in range(4)}
    control = {seed: random_labels(YNAT, 10 + seed) for seed in range(2)}
    alone = [{s.name: s for s in errors_in(YNAT, {0: of}).labels} for of in runs.values()]
    for score in errors_in(YNAT, runs, control).labels:
        f1s = [found[score.name].value for found in alone if score.name in found]
        if len(f1s) == 4:
            assert score.value == np.median(f1s)
            assert score.cells[6] == f"{percent(min(f1s), 1)} to {percent(max(f1s), 1)}"
    counts = errors_in(YNAT, runs).confusions
    assert sum(counts.values()) == 4 * 300
    gold = Counter(line["gold"] for line in runs[0])
    for label in gold:
        assert sum(n for (asked, _), n in counts.items() if asked == label) == 4 * gold[label]


def test_the_worst_are_wrong_by_the_median_of_the_seeds_and_the_surest_come_first():
    sure, unsure, outlier = (0.1, 0.9), (0.4, 0.6), (0.95, 0.05)
    by_seed = zip(
        [sure, sure, unsure],  # wrong in all, median 0.9
        [outlier, outlier, sure],  # right in most
        [unsure, unsure, unsure],
        [sure, sure, outlier],  # wrong in most, median 0.9: after the first, file order
        strict=False,
    )
    runs = {
        seed: [label_line(RTE, number, "entailment", p) for number, p in enumerate(column)]
        for seed, column in enumerate(by_seed)
    }
    found = errors_in(RTE, runs).worst
    assert [wrong.id for wrong in found] == ["0", "3", "2"]
    assert [wrong.num_seeds for wrong in found] == [3, 2, 3]
    assert found[0].failure.severity == 0.9
    assert found[0].failure.certainty == "not_entailment: 0.900, entailment: 0.100"
    two = [runs[seed][1] for seed in (0, 2)]  # half of the runs right is not mostly wrong
    assert failure_of(RTE, two, None) is None


def test_numbers_are_as_wrong_as_they_are_far_off():
    gold, said = (0.5, 4.9, 2.0), [(0.4, 1.0, 2.5), (0.6, 2.0, 2.4), (0.5, 9.0, 2.6)]
    runs = {
        seed: [
            {"id": str(n), "gold": g, "prediction": p}
            for n, (g, p) in enumerate(zip(gold, row, strict=True))
        ]
        for seed, row in enumerate(said)
    }
    found = errors_in(STSB, runs).worst
    assert [wrong.id for wrong in found] == ["1", "2", "0"]
    assert found[0].failure.severity == pytest.approx(3.9)  # of the middle seed
    groups = [group.name for group in errors_in(STSB, runs).groups]
    assert groups == [f"gold value {name}" for name in ("0 to 1", "2 to 3", "4 to 5")]


def question(number, gold, said, odds, best=0.5):
    prediction = "" if odds > SQUAD_2.null_threshold else said
    return {
        "id": str(number),
        "gold": gold,
        "prediction": prediction,
        "answer": said,
        "null_odds": odds,
        "n_best": [[said, best], ["another", 1 - best]],
    }


def test_answers_are_wrong_unless_they_match_when_normalised():
    lines = [
        question(0, ["The Cat", "cat"], "a CAT!", -9.0),
        question(1, ["cat"], "dog", -9.0, best=0.8),
        question(2, [], "dog", -9.0, best=0.6),
        question(3, ["cat"], "cat", 4.0),
        question(4, [], "dog", 4.0),
    ]
    found = errors_in(SQUAD_2, {0: lines}).worst
    assert [wrong.id for wrong in found] == ["3", "1", "2"]
    assert found[0].failure.severity == pytest.approx(1 / (1 + math.exp(-4)))
    assert found[0].failure.prediction == "(no answer)"
    assert found[2].failure.gold == "(no answer)"
    assert "“dog” 0.800" in found[1].failure.certainty
    counts = errors_in(SQUAD_2, {0: lines}).confusions
    assert counts["answer", "answer"] == 2
    assert counts["no answer", "answer"] == counts["answer", "no answer"] == 1
    groups = errors_in(SQUAD_2, {0: lines, 1: lines}, {1: lines}).groups
    assert sum(group.count for group in groups) == len(lines)
    official = SQUAD_2.score(lines)
    expected = {"answer": official["HasAns_f1"], "no answer": official["NoAns_f1"]}
    assert {group.cells[1]: group.value for group in groups} == expected
    for group in groups:
        _, _, _, value, interval, random_init = group.cells
        low, high = map(float, interval.split(" to "))
        assert low <= float(value) == float(random_init) <= high
    assert errors_in(SQUAD_1, {0: lines}).confusions == {}


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = Counter(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1

    def handle_endtag(self, tag):
        self.tags["/" + tag] += 1

    def handle_data(self, data):
        self.text.append(data)


def make_run(folder: Path, data: Path, texts: list[str], num_seeds: int = 3) -> Path:
    """A partly evaluated run: half of RTE is wrong for every seed, surest in the first row."""
    rows = [f"{n}\t{text}\tb {n}\tentailment" for n, text in enumerate(texts)]
    (data / "RTE").mkdir(parents=True)
    header = "index\tsentence1\tsentence2\tlabel"
    for split in ("train", "dev"):
        (data / "RTE" / f"{split}.tsv").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    sha256 = load_data(RTE, data).sha256
    place = folder / "evaluate.partial"
    place.mkdir(parents=True)
    for seed in range(num_seeds):
        lines = [
            label_line(RTE, number, "entailment", (0.2, 0.8) if number % 2 == 0 else (0.9, 0.1))
            for number in range(len(texts))
        ]
        for number, line in enumerate(lines, start=1):
            line["id"] = f"dev-{number}"
        lines[0]["probabilities"] = [0.01, 0.99]
        result = make_result(
            suite="glue",
            task="glue-rte",
            task_version="1.0",
            metric="accuracy",
            seed=seed,
            data_sha256=sha256,
            num_examples=len(lines),
        )
        put_predictions(place, result, lines)
        append_result(place / "results.jsonl", result)
    return folder


def test_hostile_examples_stay_text_in_every_form(tmp_path):
    shown = HOSTILE.replace("\t", " ")
    run = make_run(tmp_path / HOSTILE.split("/")[0], tmp_path / "data", [shown, "b", "c", "d"])
    report([run], tmp_path / "out", [tmp_path / "data"])
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    read = Tags(page)
    assert not {"script", "img"} & set(read.tags)
    for tag in ("details", "dd", "dl", "table", "div"):
        assert read.tags[tag] == read.tags["/" + tag] > 0
    assert "<script>alert('가')</script> \"q\" \ufffddlrow\ufffd \ufffd |" in "".join(read.text)
    assert not any(character in page for character in "\u202e\u202c\x07")


def test_texts_are_quoted_only_where_asked_for(tmp_path):
    texts = [f"secret {number} text" + " more" * number for number in range(6)]
    run = make_run(tmp_path / "run", tmp_path / "data", texts)
    for data_dirs, with_texts in (
        ([tmp_path / "elsewhere", tmp_path / "data"], True),
        ([tmp_path / "data"], False),
        ([], True),
    ):
        report([run], tmp_path / "out", data_dirs, with_texts)
        page, short = ((tmp_path / "out" / f"report.{form}").read_text() for form in ("html", "md"))
        assert ("secret 0 text" in page) == (bool(data_dirs) and with_texts)
        assert "dev-1" in page  # the surest wrong row, by its id
        assert "secret" not in short


def test_data_that_changed_are_not_quoted(tmp_path):
    run = make_run(tmp_path / "run", tmp_path / "data", ["a", "b", "c", "d"])
    path = tmp_path / "data" / "RTE" / "dev.tsv"
    path.write_text(path.read_text().replace("\tb\t", "\tanother\t"))
    found = errors_of(read_run(run), [tmp_path / "data"])[0]
    assert "are not those that it was scored on" in found.notes[0]
    assert found.examples is None
    assert len(found.runs) == 3  # what lines alone say stays
    path.unlink()
    assert "no RTE/dev.tsv below" in errors_of(read_run(run), [tmp_path / "data"])[0].notes[0]
    found = errors_of(read_run(run), [tmp_path / "nowhere"])[0]
    assert "no data folder" in found.notes[0]


def test_seeds_without_predictions_are_named(tmp_path):
    run = make_run(tmp_path / "run", tmp_path / "data", ["a", "b", "c", "d"])
    place = run / "evaluate.partial"
    paths = [place / f"predictions/glue-rte/pretrained-{seed}.jsonl" for seed in range(3)]
    paths[0].unlink()
    lines = [
        {"id": f"dev-{n}", "gold": "entailment", "prediction": None, "probabilities": None}
        for n in range(1, 5)
    ]
    failed = read_results(place / "results.jsonl")[1]
    put_predictions(place, failed, lines)
    found = errors_of(read_run(run), ())[0]
    assert list(found.runs) == [2]
    assert [note.split(":")[0] for note in found.notes] == ["seed 0", "seed 1"]
    paths[2].write_text(paths[2].read_text()[:-30])
    with pytest.raises(ValueError, match=r"pretrained-2\.jsonl"):
        errors_of(read_run(run), ())
    paths[2].unlink()
    document = Page("t")
    add_errors(document, read_run(run))
    assert "no predictions to look into" in text_of(document.text())


@pytest.mark.parametrize(
    ("task", "lines"),
    [
        (NER, [{**line, "text": line["text"].replace("가", "密")} for line in chain(NER, 1)]),
        (SQUAD_2, [question(0, ["密"], "密密", -9.0)]),
        (WOS, [{"id": "0", "gold": ["택시-종류-密"], "prediction": []}]),
    ],
)
def test_answers_are_not_quoted_either(task, lines):
    assert any("密" in wrong.failure.gold for wrong in errors_in(task, {0: lines}).worst)
    unquoted = errors_in(task, {0: lines}, with_texts=False).worst
    assert unquoted
    assert "密" not in repr(unquoted)
