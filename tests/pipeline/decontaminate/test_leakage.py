"""The leakage stage: what is planted is found and named, nothing else is, and chance is counted."""

import json
import random
import shutil
from pathlib import Path

import fsspec
import pytest

from electrify.config.load import parse_config
from electrify.stage.leakage_report import LEAKAGE, read_report, read_touched
from electrify.stage.plan import clean_stage
from electrify.stage.run import run_stage
from pipeline.decontaminate import leakage as leakage_module
from pipeline.decontaminate.index import read_letters, write_index
from pipeline.decontaminate.leakage import LengthClass, SplitCounts, find_leaks
from pipeline.decontaminate.match import BenchmarkIndex
from pipeline.documents import DOCUMENT_SCHEMA, ParquetParts
from tests.pipeline.decontaminate.made_texts import english, korean

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
    """A run with documents of its own making, and items to look for."""

    def __init__(self, folder: Path) -> None:
        self.config = parse_config(
            {
                "name": "test",
                "output_dir": str(folder / "out"),
                "clean": {"sources": [{"kind": "text", "language": "en", "path": "none.txt"}]},
            }
        )
        self.folder, self.items = folder / "out" / LEAKAGE, folder / "items"
        self.items.mkdir(parents=True)
        (self.items / "missing.json").write_text("[]")

    def documents(self, texts, row_group_characters=None):
        """`texts` are texts, or (text, source)."""
        pairs = [text if isinstance(text, tuple) else (text, "web") for text in texts]

        def work(folder):
            with ParquetParts(
                folder, "documents", DOCUMENT_SCHEMA, row_group_characters=row_group_characters
            ) as parts:
                for number, (text, source) in enumerate(pairs):
                    values = (f"00-{number}", text, "en", source, None, None, None)
                    parts.write(dict(zip(DOCUMENT_SCHEMA.names, values, strict=True)))
            return {}

        stage = clean_stage(self.config, {})
        shutil.rmtree(stage.folder, ignore_errors=True)
        run_stage(stage, work)

    def work_in(self, work_dir):
        beam = self.config.beam.model_copy(update={"work_dir": work_dir})
        self.config = self.config.model_copy(update={"beam": beam})

    def task(self, name, rows, text_names=()):
        header = {
            "task": name,
            "task_version": "1",
            "data_sha256": {"dev": "f"},
            "text_names": list(text_names),
        }
        lines = [{"header": header}]
        lines += [
            {"split": "dev", "id": f"{name}-{number}", "texts": list(texts)}
            for number, texts in enumerate(rows)
        ]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (self.items / f"{name}.jsonl").write_text(text, encoding="utf-8")

    def find(self, overwrite=False):
        find_leaks(self.config, [], overwrite, self.items)
        return read_report(self.folder)

    def found(self, task):
        """By id: strength, kind and text of the first line."""
        found = {}
        for line in read_touched(self.folder, task):
            found.setdefault(line.id, (line.strength, line.kind, line.text))
        return found


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def test_each_kind_of_copy_is_named(run):
    long = " ".join("".join(RNG.choices("abcdefghijklmnop", k=7)) for _ in range(90))
    short = "Walnut pepper saddle ribbon."
    whole, within = _english(12), _english(11)
    edited = _english(14)
    words = edited.split()
    korean, korean_within = _korean(8), _korean(9)
    run.documents(
        [
            _page(whole.upper().replace(" ", "  ")),
            _page(f"He said that {within[:-1].lower()}, more or less."),
            _page(" ".join([*words[:6], "granit", *words[7:]])),
            _page("Some say " + long[40:130] + " and so on."),
            _page(short),
            _page(f"Never mind {short[:-1].lower()} at all."),
            _page(korean, make=_korean),
            _page(f"그리고 나서 {korean_within} 라고 누군가 말했다고 한다", make=_korean),
        ]
    )
    rows = [whole, within, edited, long, short, _english(12), _english(3), "Ha ha ha ha ha ha ha."]
    run.task("english", [[row] for row in rows], ["sentence"])
    run.task("korean", [[korean], [korean_within], [_korean(8)], ["가나"]])
    report = run.find()
    assert run.found("english") == {
        "english-0": ("touched", "whole", "sentence"),
        "english-1": ("touched", "contained", "sentence"),
        "english-2": ("touched", "near", "sentence"),
        "english-3": ("touched", "ngram", "sentence"),
        # 24 letters that are a sentence of one document; within one they are only possible
        "english-4": ("touched", "whole", "sentence"),
    }
    assert run.found("korean") == {
        "korean-0": ("touched", "whole", "1"),
        "korean-1": ("touched", "contained", "1"),
    }
    english, korean = (task.splits[0] for task in report.tasks)
    assert (english.examples, english.touched, english.possible) == (8, 5, 0)
    assert (english.touched_by_half, english.too_short) == (4, 1)
    assert (korean.touched, korean.too_short, korean.sources) == (2, 1, {"web": 2})
    lines = {line.id: line for line in read_touched(run.folder, "english")}
    assert lines["english-3"].share == pytest.approx(90 / len(long), abs=0.01)
    assert (lines["english-0"].document, lines["english-0"].documents) == ("00-0", 1)
    assert whole.split()[1].upper() in lines["english-0"].excerpt


def test_short_texts_and_other_numbers_are_only_possible(run):
    short = "copper meadow whisper"  # 19 letters
    census = "In 1998 the town had 3412 lanterns and 77 orchards by the harbour."
    run.documents(
        [
            _page(short.capitalize() + "."),
            _page(f"Never mind {short} at all."),
            _page(census.replace("3412", "5980")),
        ]
    )
    run.task("t", [[short], [census]])
    report = run.find()
    assert run.found("t") == {"t-0": ("possible", "whole", "1"), "t-1": ("possible", "near", "1")}
    split = report.tasks[0].splits[0]
    assert (split.touched, split.possible) == (0, 2)
    assert next(read_touched(run.folder, "t")).documents == 2


def test_a_pair_is_touched_by_either_text_and_all_documents_count(run):
    known, new = _english(12), _english(6)
    run.documents([(_page(known), f"source {number % 2}") for number in range(9)])
    run.task("pairs", [[new, known], [known, new], [new, new]], ["premise", "hypothesis"])
    split = run.find().tasks[0].splits[0]
    lines = list(read_touched(run.folder, "pairs"))
    assert [(line.id, line.text, line.document) for line in lines] == [
        (f"pairs-{number}", text, f"00-{document}")
        for number, text in enumerate(["hypothesis", "premise"])
        for document in range(3)
    ]
    assert split.found_texts == {"hypothesis": 1, "premise": 1}
    letters = [len(read_letters(text)[0]) for text in (known, new)]
    assert lines[0].example_share == pytest.approx(letters[0] / sum(letters), abs=1e-4)
    assert (lines[0].documents, lines[0].sources) == (9, {"source 0": 5, "source 1": 4})


def test_a_source_counts_with_either_text_of_a_pair(run):
    premise, hypothesis = _english(12), _english(12)
    run.documents([(_page(premise), "a"), (_page(hypothesis), "b"), (_page(hypothesis), "b")])
    run.task("pairs", [[premise, hypothesis], [_english(12), hypothesis]])
    split = run.find().tasks[0].splits[0]
    assert (split.touched, split.sources) == (2, {"b": 2, "a": 1})


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
    texts = tmp_path / "texts"
    texts.mkdir()
    lines = (json.dumps({"task": "t", "split": "dev", "text": text}) for (text,) in rows)
    (texts / "t.jsonl").write_text("".join(f"{line}\n" for line in lines))
    write_index(texts, tmp_path / "index")
    cleaned = BenchmarkIndex.load(tmp_path / "index").decontaminate_all(pages)
    run.task("t", rows)
    run.documents(pages)
    assert run.find().tasks[0].splits[0].touched > 33
    run.documents([one.text for one in cleaned if one.drop is None])
    assert run.find(overwrite=True).tasks[0].splits[0].touched == 0


@pytest.mark.parametrize("work_dir", [None, "memory://leakage"])
def test_a_stopped_search_goes_on_and_row_groups_change_nothing(run, monkeypatch, work_dir):
    rows, pages = _planted_corpus()
    run.task("t", rows)
    run.documents(pages)
    undisturbed = run.find()
    contents = (run.folder / "touched-t.jsonl").read_bytes()
    search, searched = leakage_module.Search.search, []

    def failing(self, rows):
        searched.append(rows[0]["id"])
        if len(searched) == 4:
            raise RuntimeError("killed")
        return search(self, rows)

    monkeypatch.setattr(leakage_module.Search, "search", failing)
    run.documents(pages, 8000)
    run.work_in(work_dir)
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


def test_chance_is_what_other_documents_and_sources_hold(run):
    rng = random.Random(5)
    own = [_english(9, rng) for _ in range(30)]
    both, far = own[:6], own[6:9]  # in a second document, of the same source and of another
    pages = [(sentence, "books") for sentence in own]
    pages += [(f"{sentence}\n{_english(9, rng)}", "books") for sentence in both]
    pages += [(f"{sentence}\n{_english(9, rng)}", "news") for sentence in far]
    run.documents(pages)
    run.task("t", [[_english(9, rng)], ["Ha."]])
    chance = run.find().chance
    # sentences that stand twice are drawn once a source: 6 books twice, 3 in both sources
    assert sum(one.sentences for one in chance) == 30 + 6 + 3 + 3
    assert sum(one.touched for one in chance) == sum(one.found for one in chance) == 6 + 2 * 3
    assert sum(one.other_touched for one in chance) == 2 * 3
    run.documents([(text, "books") for text, _ in pages])
    alone = run.find(overwrite=True).chance
    assert sum(one.touched for one in alone) == 9
    assert {one.other_touched for one in alone} == {None}


def test_a_benchmark_text_that_is_drawn_for_chance_is_still_found(run):
    known = _english(10)
    run.documents([known])  # the only sentence there is to draw
    run.task("t", [[known]])
    report = run.find()
    assert report.tasks[0].splits[0].touched == 1
    assert [(one.sentences, one.found) for one in report.chance] == [(1, 0)]


def test_expected_rows_are_those_with_any_text_found():
    short, long = LengthClass("narrow", 12), LengthClass("narrow", 48)
    counts = SplitCounts()
    for lengths in ([short], [short, long], [short, short], [None], [None, long]):
        counts.add(lengths)
    assert (counts.examples, counts.texts, counts.too_short) == (5, 8, 2)
    rates = {short: 0.2, long: 0.1}
    assert counts.expected(rates) == pytest.approx(0.2 + 0.28 + 0.36 + 0 + 0.1)
    # of lengths that the corpus does not have, those of the nearest shorter one
    assert counts.expected({short: 0.2}) == pytest.approx(0.2 + 0.36 + 0.36 + 0 + 0.2)
    assert counts.expected({}) == 0


def test_what_is_missing_is_named(run):
    with pytest.raises(ValueError, match="no \\*\\.jsonl of benchmark examples"):
        run.find()
    run.task("t", [["A text."]])
    with pytest.raises(ValueError, match="electrify clean CONFIG"):
        run.find()
