"""The command: the text with marked words in brackets, records, a page, and what is refused."""

import io
import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import ElectraForMaskedLM

from benchmarks.analysis.inspect import (
    attribute,
    propose,
    read,
    replaced_probabilities,
    threshold_chooser,
    threshold_on,
)
from benchmarks.analysis.reader import Reader
from electrify.cli import main

TEXT = "오늘 국회, 큰 반도체!"


@pytest.fixture
def words(model_folder: Path, generator_folder: Path) -> list[str]:
    return ["inspect", str(model_folder), "--generator", str(generator_folder)]


def test_records_hold_what_was_printed(words, capsys, reader: Reader, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("오늘 국회\n\n큰 반도체 축구\n"))
    assert main([*words, "--json", "--threshold", "0.001"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["text"] for record in records] == ["오늘 국회", "큰 반도체 축구"]
    for record in records:
        wanted = [word.probability for word in read(reader, record["text"]).words]
        for word, probability in zip(record["words"], wanted, strict=True):
            assert record["text"][word["start"] : word["stop"]] == word["text"]
            assert word["probability"] == pytest.approx(probability, abs=1e-4)
            assert word["is_marked"]
            assert len(word["proposals"]) == 5
            total = sum(word["rests_on"].values())
            error = word["completeness_error"]
            assert abs(total - word["logit_difference"]) <= error + 1e-3


def test_the_threshold_is_given_or_that_of_the_script(reader: Reader):
    assert threshold_chooser(reader, 0.3)("가").probability == 0.3
    bundled = threshold_chooser(reader, None)
    assert bundled("가").source == "40 plain sentences in Hangul"
    assert "`threshold`" in bundled("漢字").source
    assert bundled("漢字").probability == 0.5
    with pytest.raises(ValueError, match="give a number between 0 and 1"):
        threshold_chooser(reader, 1.5)


def test_proposals_are_the_generators_without_the_piece_and_special_tokens(
    reader: Reader, generator_folder: Path
):
    network, tokenizer = ElectraForMaskedLM.from_pretrained(generator_folder), reader.source
    encoded = tokenizer.tokenizer("오늘 [MASK], 큰 반도체!", return_tensors="pt")
    chances = network(**encoded).logits[0, 2].softmax(-1).detach()
    reading = read(reader, TEXT)
    proposals = propose(reader, reading, reading.words[1])
    own = tokenizer.tokenizer.convert_tokens_to_ids("국회")
    assert proposals.probability_as_it_stands == pytest.approx(float(chances[own]))
    words = {t: i for t, i in tokenizer.tokenizer.get_vocab().items() if t[0] != "[" and i != own}
    others = {token: float(chances[i]) for token, i in words.items()}
    wanted = sorted(others.items(), key=lambda pair: -pair[1])[:5]
    tokens, proposed, probabilities = zip(*proposals.proposals, strict=True)
    assert list(tokens) == list(proposed) == [token for token, _ in wanted]
    assert probabilities == pytest.approx([p for _, p in wanted])


def test_a_planted_word_is_flagged_and_its_parts_are_those_planted(plant):
    planted = plant({"축구": 2.0, "여행": 1.5, "새": -0.5, "[MASK]": 0.25, "[CLS]": -3.0})
    reading = read(planted, "새 축구 여행 오늘")
    word = max(reading.words, key=lambda word: word.probability)
    assert word.text == "축구"
    attribution = attribute(planted, reading, word.worst)
    weights = [-0.5, 2 * 2.0, 1.5, 0.0]
    hidden = [0.25, 2 * 0.25, 0.25, 0.25]
    wanted = [a - b for a, b in zip(weights, hidden, strict=True)]
    assert [attribution.rests_on[n] for n in range(4)] == pytest.approx(wanted)
    assert attribution.logit_difference == pytest.approx(sum(wanted))
    assert attribution.completeness_error == pytest.approx(0, abs=1e-6)


def test_the_threshold_is_what_a_fraction_of_clean_words_exceeds(plant):
    planted = plant({"축구": 1.0, "국회": 2.0, "[MASK]": 9.0})
    sentences = ["오늘 내일 새 큰 첫 다시 오늘 내일 새 축구"] * 19 + ["국회"] * 10
    threshold = threshold_on(planted, sentences, "text")
    words = [word.probability for text in sentences for word in read(planted, text).words]
    assert threshold.false_alarms == sum(map(threshold.marks, words)) / len(words) <= 0.05
    assert threshold.found_fraction is not None
    without = threshold_on(replace(planted, generator=None), sentences, "text")
    assert without == replace(threshold, found_fraction=None)


def test_replaced_words_are_those_the_generator_changed(reader: Reader, plant):
    """A generator that always writes 축구: only words that were something else are counted."""
    tokenizer = reader.source.tokenizer
    only = torch.full((len(tokenizer),), -1e9)
    only[tokenizer.convert_tokens_to_ids("축구")] = 0.0

    def generator(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> object:
        class Outputs:
            logits = only.expand(*input_ids.shape, -1)

        return Outputs

    planted = replace(plant({"축구": 1.0}), generator=generator)
    assert replaced_probabilities(planted, "축구 " * 60) == []
    probabilities = replaced_probabilities(planted, "오늘 " * 60)
    assert 3 <= len(probabilities) <= 40
    assert min(probabilities) > 0.7  # 0.5 where nothing is replaced
    assert probabilities == replaced_probabilities(planted, "오늘 " * 60)


@pytest.mark.parametrize("encoding", ["utf-8", "cp949"])
def test_a_file_in_any_encoding_is_read(encoding, words, capsys, monkeypatch):
    text = "오늘 국회 큰 반도체 축구 여행 내일\r\n큰 반도체\r\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode(encoding)), "utf-8"))
    options = ["--json", "--no-attributions", "--threshold", "0.5"]
    assert main([*words, *options]) == 0
    printed = capsys.readouterr()
    records = [json.loads(line) for line in printed.out.splitlines()]
    assert [record["text"] for record in records] == text.splitlines()
    assert ("is read as" in printed.err) == (not encoding.startswith("utf-8"))
    typed = os.fsdecode(text.splitlines()[0].encode(encoding))
    assert main([*words, "--json", "--no-attributions", "--threshold", "0.5", typed]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == text.splitlines()[0]


def test_the_docs_show_what_is_printed(capsys):
    """The sentence of docs/inspect.md, read by the shipped encoder; the last digits of
    probabilities are those of a CPU."""
    page = Path("docs/inspect.md").read_text(encoding="utf-8")
    blocks = r"```\n(electrify inspect .*)\n```\n\n```text\n(.*?)```"
    command, shown = re.search(blocks, page, re.S).groups()
    assert main(shlex.split(command)[1:]) == 0
    digits = re.compile(r"\d+(\.\d+)?(e-\d+)?")
    texts = shown, capsys.readouterr().out
    shown_words, printed = (digits.sub("0", text).split() for text in texts)
    assert shown_words[:42] == printed[:42]
