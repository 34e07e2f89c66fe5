"""The command: the text with marked words in brackets, records, a page, and what is refused."""

import io
import json
import re
import shlex
import unicodedata
from pathlib import Path

import pytest

from benchmarks.inspect.inspect import examine, threshold_chooser
from benchmarks.inspect.verdict import Detector
from electrify.cli import main
from tests.benchmarks.conftest import text_of


@pytest.fixture
def words(model_folder: Path, generator_folder: Path) -> list[str]:
    return ["inspect", str(model_folder), "--generator", str(generator_folder)]


def test_marked_words_stand_in_brackets_with_proposals_and_reasons(words, capsys, detector):
    text = "오늘 국회 큰 반도체"
    found = {word.text: word.probability for word in detector.read(text).words}
    worst, second = sorted(found.values(), reverse=True)[:2]
    marked = max(found, key=lambda word: found[word])
    assert main([*words, text, "--threshold", str((worst + second) / 2)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == text.replace(marked, f"[{marked}]")
    assert f"[{marked}] {worst:.2f}" in lines[1]
    assert lines[2].startswith("1 of 4 words is marked: above 0.")
    assert lines[3] == f"[{marked}] {worst:.2f}, for its piece {marked}"
    assert lines[4].startswith("    the generator would write: ")
    assert "the word itself " in lines[5]
    assert "completeness error" in lines[6]


def test_records_hold_what_was_printed(words, capsys, detector: Detector, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("오늘 국회\n\n큰 반도체 축구\n"))
    assert main([*words, "--json", "--threshold", "0.001"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["text"] for record in records] == ["오늘 국회", "큰 반도체 축구"]
    for record in records:
        wanted = [word.probability for word in detector.read(record["text"]).words]
        for word, probability in zip(record["words"], wanted, strict=True):
            assert record["text"][word["start"] : word["stop"]] == word["text"]
            assert word["probability"] == pytest.approx(probability, abs=1e-4)
            assert word["is_marked"]
            assert len(word["proposals"]) == 5
            total = sum(share for _, share in word["rests_on"])
            error = word["completeness_error"]
            assert abs(total - word["logit_difference"]) <= error + 1e-3


def test_a_page_says_what_its_numbers_are(words, tmp_path: Path, capsys):
    page = tmp_path / "page.html"
    texts = ["오늘 <u>국회</u>", "큰 반도체"]
    assert main([*words, *texts, "--html", str(page), "--threshold", "0.001"]) == 0
    html = page.read_text(encoding="utf-8")
    text = text_of(html)
    assert "layer integrated gradients" in text
    assert "as suspicious as its worst token" in text
    assert "[큰] [반도체]" in text
    assert "<u>" not in html
    assert "<i class=hidden>marked </i>" in html


def test_a_detector_without_a_generator_gives_less_and_says_so(model_folder, capsys):
    options = ["--threshold", "0.001", "--no-attributions"]
    assert main(["inspect", str(model_folder), "오늘 국회", *options]) == 0
    printed = capsys.readouterr()
    assert "no generator beside" in printed.err
    assert "the generator would write" not in printed.out
    assert "rests on" not in printed.out
    assert "[오늘] [국회]" in printed.out


def test_the_threshold_is_given_or_set_on_clean_text(detector: Detector, tmp_path: Path):
    assert threshold_chooser(detector, 0.3, None, 0.05)("가").probability == 0.3
    clean = tmp_path / "clean.txt"
    clean.write_text("오늘 국회 큰 반도체 축구 여행 내일\n" * 20, encoding="utf-8")
    own = threshold_chooser(detector, None, str(clean), 0.05)
    assert own("가").source == str(clean)
    assert own("가") == own("b")
    bundled = threshold_chooser(detector, None, None, 0.05)
    assert bundled("가").source == "40 plain sentences in Hangul"
    assert "--clean FILE" in bundled("漢字").source
    assert bundled("漢字").probability == 0.5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([" "], "no text to inspect"),
        (["가", "--threshold", "2"], "--threshold 2.0: give a number between 0 and 1"),
        (["가", "--false-alarms", "0"], "--false-alarms 0.0"),
        (["가", "--clean", "none.txt"], "none.txt"),
    ],
)
def test_what_makes_no_sense_is_refused(options, says, words, capsys):
    assert main([*words, *options]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16"])
def test_a_file_in_any_encoding_is_read(encoding, words, capsys, monkeypatch, tmp_path):
    text = "오늘 국회 큰 반도체 축구 여행 내일\r\n큰 반도체\r\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode(encoding)), "utf-8"))
    (tmp_path / "clean.txt").write_bytes((text * 20).encode(encoding))
    options = ["--json", "--no-attributions", "--clean", str(tmp_path / "clean.txt")]
    assert main([*words, *options]) == 0
    printed = capsys.readouterr()
    records = [json.loads(line) for line in printed.out.splitlines()]
    assert [record["text"] for record in records] == text.splitlines()
    assert ("is read as" in printed.err) == (not encoding.startswith("utf-8"))


def test_bytes_that_are_no_text_are_refused_in_one_line(words, capsys, monkeypatch):
    data = "오늘 국회\n".encode() * 50 + b"\xff\xff\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))
    assert main([*words, "--threshold", "0.5"]) == 1
    assert "the input cannot be read: line 51" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_both_forms_of_unicode_have_one_threshold_and_verdict(form, detector: Detector):
    text = "오늘 국회 큰 반도체"
    choose = threshold_chooser(detector, None, None, 0.05)
    typed = unicodedata.normalize(form, text)
    assert choose(typed).source == "40 plain sentences in Hangul"
    findings = [examine(detector, form, choose(form), False) for form in (typed, text)]
    one, two = ((of.verdict.text, of.verdict.words, of.suspicions) for of in findings)
    assert one == two


def test_a_text_that_the_tokenizer_cannot_read_is_named(words, capsys):
    assert main([*words, "오늘 국회", "the chef ate", "--no-attributions"]) == 0
    printed = capsys.readouterr().err
    assert printed.count("[UNK]") == 1
    assert "'the chef ate': 100 % of 3 tokens are [UNK]" in printed


def test_the_docs_show_what_is_printed(capsys):
    """The sentence of docs/inspect.md, read by the shipped encoder; the last digits of
    probabilities are those of a CPU."""
    page = Path("docs/inspect.md").read_text(encoding="utf-8")
    command, shown = re.search(
        r"```\n(electrify inspect .*)\n```\n\n```text\n(.*?)```", page, re.S
    ).groups()
    assert main(shlex.split(command)[1:]) == 0
    digits = re.compile(r"\d+(\.\d+)?(e-\d+)?")
    shown_words, printed = (
        digits.sub("0", text).split() for text in (shown, capsys.readouterr().out)
    )
    assert shown_words[:42] == printed[:42]
