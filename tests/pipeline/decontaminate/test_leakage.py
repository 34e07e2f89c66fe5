"""The leakage stage: planted texts are found and named, and nothing else is."""

import json
import random
import shutil
from pathlib import Path

import fsspec
import pytest

from electrify.stage.leakage_report import LEAKAGE, read_report, read_touched
from electrify.stage.plan import clean_stage
from electrify.stage.run import run_stage
from pipeline.decontaminate import leakage as leakage_module
from pipeline.decontaminate.leakage import find_leaks
from tests.pipeline.builders import config_of, write_documents
from tests.pipeline.decontaminate.made_texts import english, index_of, korean

RNG = random.Random(3)


def _english(num_words, rng=RNG):
    return english(rng, num_words).capitalize() + "."


def _korean(num_words, rng=RNG):
    return korean(rng, num_words)


def _page(*sentences, make=_english):
    """A document with the sentences as lines among others."""
    lines = [make(RNG.randint(8, 14)) for _ in range(12)]
    for number, sentence in enumerate(sentences):
        lines.insert(3 * number + 2, sentence)
    return "\n".join(lines)


class Run:
    """A run with made-up documents, and items to search for."""

    def __init__(self, folder: Path) -> None:
        self.config = config_of(folder, ["none.jsonl"])
        self.folder, self.items = folder / "out" / LEAKAGE, folder / "items"
        self.items.mkdir(parents=True)
        (self.items / "missing.json").write_text("[]")

    def documents(self, texts, **options):
        def work(folder):
            rows = ({"text": text} for text in texts)
            write_documents(folder, rows, **options)
            return {}

        stage = clean_stage(self.config, {})
        shutil.rmtree(stage.folder, ignore_errors=True)
        run_stage(stage, work)

    def task(self, name, rows, text_names=()):
        header = {"task": name, "task_version": "1", "data_sha256": {"dev": "f"}}
        lines = [{"header": header | {"text_names": list(text_names)}}]
        lines += [
            {"split": "dev", "id": f"{name}-{number}", "texts": list(texts)}
            for number, texts in enumerate(rows)
        ]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (self.items / f"{name}.jsonl").write_text(text, encoding="utf-8")

    def find(self, overwrite=False):
        find_leaks(self.config, [], overwrite, self.items)
        return read_report(self.folder)

    def lines(self, task):
        (record,) = [one for one in read_report(self.folder).tasks if one.task == task]
        return list(read_touched(self.folder, record))

    def kinds(self, task):
        """By id: kind and text of the match."""
        return {line.id: (line.kind, line.text) for line in self.lines(task)}


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def test_each_kind_of_copy_is_named(run):
    long = " ".join("".join(RNG.choices("abcdefghijklmnop", k=7)) for _ in range(90))
    short = "Walnut pepper saddle ribbon."  # 24 letters
    whole, within = _english(12), _english(11)
    edited = _english(14)
    words = edited.split()
    census = "In 1998 the town had 3412 lanterns and 77 orchards by the harbour."
    korean, korean_within = _korean(8), _korean(9)
    run.documents(
        [
            _page(whole.upper().replace(" ", "  ")),
            _page(f"He said that {within[:-1].lower()}, more or less."),
            _page(" ".join([*words[:6], "granit", *words[7:]])),
            _page("Some say " + long[40:130] + " and so on."),
            _page(short),
            _page(f"Never mind {short[:-1].lower()} at all."),
            _page(census.replace("3412", "5980")),
            _page(korean, make=_korean),
            _page(f"그리고 나서 {korean_within} 라고 누군가 말했다고 한다", make=_korean),
        ]
    )
    rows = [whole, within, edited, long, short, _english(12), _english(3), "Ha ha ha ha ha ha ha."]
    run.task("english", [[row] for row in [*rows, census]], ["sentence"])
    run.task("korean", [[korean], [korean_within], [_korean(8)], ["가나"]])
    english, korean = (task.splits[0] for task in run.find().tasks)
    assert run.kinds("english") == {
        "english-0": ("sentence", "sentence"),
        "english-1": ("sentence", "sentence"),
        "english-2": ("near", "sentence"),
        "english-3": ("ngram", "sentence"),
        "english-4": ("sentence", "sentence"),
    }
    assert run.kinds("korean") == {"korean-0": ("sentence", "1"), "korean-1": ("sentence", "1")}
    assert (english.examples, english.texts, english.touched) == (9, 9, 5)
    assert (korean.touched, korean.too_short) == (2, 1)
    lines = {line.id: line for line in run.lines("english")}
    assert lines["english-3"].fraction == pytest.approx(90 / len(long), abs=0.01)
    assert (lines["english-4"].document, lines["english-4"].documents) == ("00-4", 1)
    assert whole.split()[1].upper() in lines["english-0"].excerpt


def test_a_pair_is_touched_by_either_text_and_all_documents_count(run):
    known, new = _english(12), _english(6)
    run.documents([_page(known) for _ in range(9)])
    run.task("pairs", [[new, known], [known, new], [new, new]], ["premise", "hypothesis"])
    assert run.find().tasks[0].splits[0].touched == 2
    assert [(line.id, line.text, line.document, line.documents) for line in run.lines("pairs")] == [
        (f"pairs-{number}", text, f"00-{document}", 9)
        for number, text in enumerate(["hypothesis", "premise"])
        for document in range(3)
    ]


def _planted_corpus():
    rng = random.Random(11)
    rows = [[_english(rng.randint(6, 40), rng)] for _ in range(20)]
    rows += [[_korean(rng.randint(5, 30), rng)] for _ in range(20)]
    pages = []
    for number, (text,) in enumerate(rows):
        make = _english if number < 20 else _korean
        page = [make(rng.randint(8, 14), rng) for _ in range(10)]
        page.insert(4, text if number % 2 else f"{make(2, rng)[:-1]} {text}")
        pages.append("\n".join(page))
    return rows, pages


def test_a_decontaminated_corpus_has_no_touched_row(run, tmp_path):
    rows, pages = _planted_corpus()
    index = index_of(tmp_path / "texts", [("t", text) for (text,) in rows])
    cleaned = index.decontaminate(pages)
    run.task("t", rows)
    run.documents(pages)
    assert run.find().tasks[0].splits[0].touched > 33
    run.documents([one.text for one in cleaned if one.drop is None])
    assert run.find(overwrite=True).tasks[0].splits[0].touched == 0


def test_a_stopped_search_resumes_and_row_groups_change_nothing(run, tmp_path, monkeypatch):
    rows, pages = _planted_corpus()
    run.task("t", rows)
    run.documents(pages)
    undisturbed = run.find()
    contents = (run.folder / "touched-t.jsonl").read_bytes()
    search, searched = leakage_module._matches, []

    def failing(rows, grams):
        searched.append(rows[0]["id"])
        if len(searched) == 4:
            raise RuntimeError("killed")
        return search(rows, grams)

    monkeypatch.setattr(leakage_module, "_matches", failing)
    run.documents(pages, row_group_characters=8000)
    run.config = config_of(tmp_path, ["none.jsonl"], work_dir="memory://leakage")
    with pytest.raises(RuntimeError, match="killed"):
        run.find(overwrite=True)
    first = list(searched)
    again = run.find(overwrite=True)
    assert again.tasks == undisturbed.tasks
    assert not set(first[:3]) & set(searched[4:])
    assert (run.folder / "touched-t.jsonl").read_bytes() == contents
    assert sorted(path.name for path in run.folder.iterdir()) == [
        "manifest.json",
        "report.json",
        "touched-t.jsonl",
    ]
    assert not (run.folder.parent / ".work").exists()
    assert fsspec.filesystem("memory").find("/leakage") == []
