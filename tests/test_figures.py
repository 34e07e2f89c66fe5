"""The tables of figures on the pages rest on files below benchmarks/reports/."""

import csv
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev

import pytest
from scipy.stats import ttest_ind

REPORTS = Path("benchmarks/reports")
TASKS = {
    "KLUE-YNAT": "klue-ynat",
    "KLUE-NLI": "klue-nli",
    "KLUE-RE": "klue-re",
    "KLUE-NER": "klue-ner",
    "KLUE-DP": "klue-dp",
    "Korean hate speech": "korean-hate-speech",
    "혐오 표현": "korean-hate-speech",
    "KorNLI": "korean-kornli",
    "Naver NER": "korean-naver-ner",
}
Scores = dict[str, list[float]]  # by task, of each seed, in percent


def scores(name: str, seed: str = "seed", **wanted: str) -> Scores:
    """Of the rows that have the wanted values; of two rows of a seed the last one counts."""
    by_task: dict[str, dict[str, float]] = defaultdict(dict)
    with (REPORTS / name).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if all(row[key] == value for key, value in wanted.items()):
                by_task[row["task"]][row[seed]] = 100 * float(row["value"])
    return {task: list(values.values()) for task, values in by_task.items()}


KO_MODERN = {name: scores(f"ko-modern/{name}.csv") for name in ("scores", "tf-idf")}
RANDOM = scores("ko-modern/random-initialisation.csv")
SEEDS = {
    objective: scores("ko-modern/pretraining-seeds.csv", "pretraining_seed", objective=objective)
    for objective in ("electra", "mlm")
}
for by_task in SEEDS.values():
    by_task["mean"] = [fmean(of_seed) for of_seed in zip(*by_task.values(), strict=True)]
COLUMNS: dict[str, Scores | tuple[Scores, Scores]] = {
    "shipped encoder": KO_MODERN["scores"],
    "저장소의 인코더": KO_MODERN["scores"],
    "pretrained": KO_MODERN["scores"],
    "its start": scores("ko-modern/start-scores.csv", precision="bf16"),
    "random initialisation": RANDOM,
    "무작위 가중치": RANDOM,
    "TF-IDF": KO_MODERN["tf-idf"],
    "TF-IDF, logistic regression": KO_MODERN["tf-idf"],
    "difference to TF-IDF": (KO_MODERN["scores"], KO_MODERN["tf-idf"]),
    "ELECTRA": SEEDS["electra"],
    "masked language model": SEEDS["mlm"],
    "difference": (SEEDS["electra"], SEEDS["mlm"]),
}


def tables(text: str) -> list[list[list[str]]]:
    """Rows of cells of each table, the head first."""
    found = re.findall(r"((?:^\|.*\n)+)", text, re.MULTILINE)
    rows = [
        [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        for table in found
    ]
    return [[table[0], *table[2:]] for table in rows]


def shown(values: Scores | tuple[Scores, Scores], task: str) -> str:
    """Mean ± sd, or the difference with Welch's interval, as the pages write it."""
    if isinstance(values, tuple):
        one, other = (scores.get(task, []) for scores in values)
        if not (one and other):
            return "–"
        interval = ttest_ind(one, other, equal_var=False).confidence_interval()
        difference = fmean(one) - fmean(other)
        return f"{difference:+.1f} ({interval.low:.1f} to {interval.high:.1f})"
    seeds = values.get(task, [])
    if len(seeds) < 2:
        return f"{seeds[0]:.1f}" if seeds else "–"
    return f"{fmean(seeds):.1f} ± {stdev(seeds):.1f}"


@pytest.mark.parametrize("page", ["README.md", "docs/results.md", "docs/quickstart-ko.md"])
def test_scores_are_those_of_the_csv(page: str):
    num_rows = 0
    for head, *rows in tables(Path(page).read_text(encoding="utf-8")):
        for row in rows:
            if head[0] == "encoder":
                demo = scores("demo.csv", encoder=row[0])
                assert row[1] == shown(demo, "sample-headlines")
            elif head[1] in COLUMNS:
                task = TASKS.get(row[0].partition(",")[0], "mean")
                assert row[1:] == [shown(COLUMNS[column], task) for column in head[1:]]
                num_rows += 1
    assert num_rows >= 3


def numbers(text: str) -> list[tuple[float, int]]:
    """The numbers of a text, with their decimals; `10,000` is one, `c4357fc8` none."""
    found = re.findall(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w])|(?<![\w.])\.\d+", text)
    return [(float(one.rstrip(",").replace(",", "")), len(one.partition(".")[2])) for one in found]


MEASURED = (
    *("docs/results.md", "docs/recipe-ko.md", "docs/vocabulary.md", "docs/cluster.md"),
    *("docs/inspect.md", "docs/probes.md", "docs/one-gpu.md", "docs/multilingual.md"),
    "PERFORMANCE.md",
)


@pytest.mark.parametrize("page", MEASURED)
def test_other_figures_are_in_the_files_that_the_page_names(page: str):
    for section in re.split(r"^## ", Path(page).read_text(encoding="utf-8"), flags=re.MULTILINE):
        names = set(re.findall(r"((?:[\w-]+/)*[\w-]+\.(?:md|csv))", section))
        paths = (REPORTS / name.removeprefix("benchmarks/reports/") for name in names)
        files = [path for path in paths if path.exists()]
        there = [n for path in files for n, _ in numbers(path.read_text(encoding="utf-8"))]
        there += [factor * n for n in there for factor in (100, 1e-6)]  # percent, millions
        for head, *rows in tables(section):
            # settings are no figures
            for row in [] if head[1] in COLUMNS or head[0] in ("encoder", "setting") else rows:
                for number, decimals in numbers(" | ".join(row[1:])):
                    assert any(abs(n - number) <= 0.5000001 / 10**decimals for n in there), (
                        f"{page}: {number} of {row[0]!r} is in none of {sorted(names)}"
                    )
