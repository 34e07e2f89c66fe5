"""`electrify inspect`: which words of a text a discriminator flags as replaced, and why.

The probability alone does not say it: replaced tokens are few in training, so a small discriminator
stays below one half even where it is right, and rare words are suspicious wherever they stand. So
the threshold is set on sentences without a replaced word, so that few of their words are above it.
"""

import io
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from benchmarks.analysis.reader import Reader, TokenizedText, open_reader
from benchmarks.encoder import replaced_logits
from electrify.page.plots import printable
from electrify.storage.encodings import decode_file, is_utf8
from electrify.storage.files import read_toml
from electrify.system.outcome import UserError
from electrify.system.progress import log
from electrify.system.unknown import coverage_of, warn_of_unknown

_TABLE: Mapping[str, dict[str, list[str]]] = read_toml(Path(__file__).with_name("sentences.toml"))
SENTENCES, EXAMPLES = _TABLE["sentences"], _TABLE["examples"]  # by script
MASK_FRACTION = 0.15  # of ELECTRA's training
FALSE_ALARMS = 0.05  # fraction of the words of clean sentences above the threshold
MAX_RELATIVE_ERROR = 0.01  # of an attribution
_NUM_STEPS, _ROWS_AT_ONCE = (32, 128, 512), 32
_NUM_PROPOSALS = 5
_NUM_WORDS_SHOWN = 4  # that a verdict rests on
# syllables and jamo, and letters, in all forms that the tokenizer reads as one (as in detector.js)
_HANGUL = re.compile(r"[가-힣ㄱ-ㆎ\u1100-\u11ff\uffa1-\uffdc]")
_LATIN = re.compile("[A-Za-zＡ-Ｚａ-ｚ]")


@dataclass(frozen=True)
class FlaggableWord:
    """A word by the tokenizer: characters [start, stop), its pieces, and the worst of these, whose
    P(replaced) is that of the word."""

    text: str
    start: int
    stop: int
    pieces: range
    worst: int
    probability: float


@dataclass(frozen=True)
class ScoredText:
    text: TokenizedText
    pieces: Sequence[tuple[str, float]]
    words: Sequence[FlaggableWord]


def read(reader: Reader, text: str) -> ScoredText:
    """P(replaced) of every piece and word of a text of any length."""
    cut = reader.cut(text)
    probabilities = expit(reader.replaced_logits(cut.ids)).tolist()
    words = []
    for _, group in groupby(range(len(cut.ids)), key=cut.words.__getitem__):
        numbers = list(group)
        pieces = range(numbers[0], numbers[-1] + 1)
        start, stop = cut.spans[pieces[0]][0], cut.spans[pieces[-1]][1]
        worst = max(pieces, key=probabilities.__getitem__)
        word = cut.text[start:stop]
        words.append(FlaggableWord(word, start, stop, pieces, worst, probabilities[worst]))
    tokens = reader.source.tokenizer.convert_ids_to_tokens(cut.ids.tolist())
    return ScoredText(cut, list(zip(tokens, probabilities, strict=True)), words)


@dataclass(frozen=True)
class Threshold:
    """Words above `probability` are marked."""

    probability: float
    source: str  # where the sentences come from, or who gave the number
    false_alarms: float | None = None  # fraction of their words above; None: the number was given
    found_fraction: float | None = None  # of words that the generator replaced; None: not measured

    def marks(self, probability: float) -> bool:
        return probability > self.probability

    def __str__(self) -> str:
        if self.false_alarms is None:
            return f"{self.probability:.3g} ({self.source})"
        text = f"{self.probability:.3f}, as {100 * self.false_alarms:.1f} % of the words of "
        text += f"{self.source} are"
        if self.found_fraction is None:
            return text
        return f"{text}, and {100 * self.found_fraction:.0f} % of those that the generator replaced"


def threshold_on(reader: Reader, sentences: Sequence[str], source: str) -> Threshold:
    """The probability that `FALSE_ALARMS` of the words of clean sentences exceed."""
    clean = np.array([word.probability for text in sentences for word in read(reader, text).words])
    limit = float(np.quantile(clean, 1 - FALSE_ALARMS, method="higher"))
    detected = None
    if reader.generator is not None:
        replaced = [p for text in sentences for p in replaced_probabilities(reader, text)]
        detected = float(np.mean(np.array(replaced) > limit))
    return Threshold(limit, source, float(np.mean(clean > limit)), detected)


def replaced_probabilities(reader: Reader, text: str) -> list[float]:
    """P(replaced) of the words that the generator replaced in what a window shows of a text, as in
    training: 15 % of the tokens are hidden, and it samples others. The same text has the same
    draws."""
    draws, cut = torch.Generator().manual_seed(0), reader.cut(text)
    shown = cut.ids[: reader.max_pieces]
    drawn = torch.rand(len(reader.before) + len(shown) + len(reader.after), generator=draws)
    hidden = torch.nonzero(drawn[len(reader.before) :][: len(shown)] < MASK_FRACTION)[:, 0]
    if not len(hidden):
        return []
    ids, words = shown.copy(), np.array(cut.words)[: len(shown)]
    chances = reader.masked_logits(shown, hidden.tolist()).softmax(-1)
    ids[hidden] = torch.multinomial(chances, 1, generator=draws)[:, 0]
    logits = reader.replaced_logits(ids)
    worst = [logits[words == word].max() for word in np.unique(words[ids != shown])]
    probabilities: list[float] = expit(np.array(worst)).tolist()
    return probabilities


def bundled_threshold(reader: Reader, script: str) -> Threshold:
    """The threshold on the bundled sentences in a script; 0.5 where there are none."""
    if script not in SENTENCES:
        return Threshold(0.5, "no sentences of this script are bundled: give `threshold`")
    sentences = SENTENCES[script]
    return threshold_on(reader, sentences, f"{len(sentences)} plain sentences in {script}")


def threshold_chooser(reader: Reader, threshold: float | None) -> Callable[[str], Threshold]:
    """The threshold of a text: the one given, or that on the bundled sentences in the text's script
    (Hangul where it has a letter of it, else Latin)."""
    if threshold is not None and not 0 < threshold < 1:
        raise UserError(f"`threshold` {threshold}: give a number between 0 and 1")
    if threshold is not None:
        return lambda text: Threshold(threshold, "given")
    by_script = cache(lambda script: bundled_threshold(reader, script))
    return lambda text: by_script(
        "Hangul" if _HANGUL.search(text) else "Latin" if _LATIN.search(text) else ""
    )


@dataclass(frozen=True)
class Proposals:
    """What the generator would write in place of a piece: (token, the word that it makes,
    probability), and the probability of the piece itself."""

    probability_as_it_stands: float
    proposals: Sequence[tuple[str, str, float]]


def propose(reader: Reader, reading: ScoredText, word: FlaggableWord) -> Proposals:
    """What the generator expects in place of a word's worst piece, which alone is hidden."""
    tokenizer, ids = reader.source.tokenizer, reading.text.ids
    own = int(ids[word.worst])
    chances = reader.masked_logits(ids, [word.worst])[0].softmax(-1)
    own_probability = float(chances[own])
    chances[[own, *tokenizer.all_special_ids]] = 0.0
    others = []
    for chance, token in zip(*(x.tolist() for x in chances.topk(_NUM_PROPOSALS)), strict=True):
        spelled = [token if piece == word.worst else int(ids[piece]) for piece in word.pieces]
        others.append((tokenizer.convert_ids_to_tokens(token), tokenizer.decode(spelled), chance))
    return Proposals(own_probability, others)


@dataclass(frozen=True)
class Attribution:
    """What each word adds to the logit of a piece; words that the window does not show are left
    out. Without the error, they sum to `logit_difference`."""

    rests_on: dict[int, float]  # by the number of a word
    logit_difference: float  # the text against [MASK] everywhere
    completeness_error: float  # in logits, never negative
    num_steps: int


def attribute(reader: Reader, reading: ScoredText, piece: int) -> Attribution:
    """What the logit of `piece` owes to each word of its window.

    Layer integrated gradients (Sundararajan et al. 2017) at the token embeddings, from a text whose
    every piece is [MASK]. Steps are added until the sum misses less than 1 % of the difference of
    the logit, 512 at most.
    """
    from captum.attr import LayerIntegratedGradients  # seconds, which the report need not wait for

    ids, network = reading.text.ids, reader.discriminator
    window = reader.window_of(piece, len(ids))
    column, first = reader.column(piece, window), len(reader.before)
    row = torch.from_numpy(reader.row(ids, window))[None]
    baseline = row.clone()
    baseline[0, first : first + len(window.shown)] = reader.source.tokenizer.mask_token_id

    def logit(rows: Tensor) -> Tensor:
        return replaced_logits(network(input_ids=rows).logits)[:, column]

    gradients = LayerIntegratedGradients(logit, network.get_input_embeddings())
    with torch.no_grad():
        logits = logit(torch.cat([row, baseline])).double()
    difference = float(logits[0] - logits[1])
    for num_steps in _NUM_STEPS:
        parts = gradients.attribute(
            row, baselines=baseline, n_steps=num_steps, internal_batch_size=_ROWS_AT_ONCE
        )
        by_place = parts[0].sum(-1).double()
        error = abs(float(by_place.sum()) - difference)
        if error <= MAX_RELATIVE_ERROR * abs(difference):
            break
    by_word: dict[int, float] = defaultdict(float)
    word_of = {piece: n for n, word in enumerate(reading.words) for piece in word.pieces}
    for part, shown in zip(by_place[first:].tolist(), window.shown, strict=False):
        by_word[word_of[shown]] += part
    return Attribution(dict(by_word), difference, error, num_steps)


@dataclass(frozen=True)
class Finding:
    """A text as it was read, and the numbers of its words above the threshold.

    By these: what the generator would write for the worst piece of a word, and what the verdict on
    that piece rests on; empty where that was not asked or there is no generator.
    """

    reading: ScoredText
    threshold: Threshold
    marked: Sequence[int]
    proposals: Mapping[int, Proposals]
    attributions: Mapping[int, Attribution]

    @property
    def count(self) -> str:
        marked, words = len(self.marked), len(self.reading.words)
        return f"{marked} of {words} words {'is' if marked == 1 else 'are'} marked"

    @property
    def bracketed(self) -> str:
        text, end, parts = self.reading.text.text, 0, []
        for number in self.marked:
            word = self.reading.words[number]
            parts.append(f"{text[end : word.start]}[{word.text}]")
            end = word.stop
        return "".join([*parts, text[end:]])


def findings(
    path: str,
    texts: Iterable[str],
    generator: str | None = None,
    threshold: float | None = None,
    has_attributions: bool = True,
) -> Iterator[Finding]:
    """What the discriminator at `path` thinks of each text; `UserError` if there is none.

    `texts` are texts, or an open file with one in each line, in any encoding. Blank ones are left
    out.
    """
    if isinstance(texts, str):
        raise UserError("texts is one string; give a list of texts")
    reader = open_reader(path, generator)
    if reader.generator is None:
        log(f"no generator beside {path}, so no proposals: name one with `generator`")
    choose = threshold_chooser(reader, threshold)
    num_texts, is_known = 0, True
    for text in filter(str.strip, _lines(texts)):
        finding = examine(reader, text, choose(text), has_attributions)
        if is_known:  # one warning is enough
            known = coverage_of([finding.reading.text.ids], reader.source.tokenizer)
            is_known = not warn_of_unknown(known, f"{path} reads {text!r}")
        yield finding
        num_texts += 1
    if not num_texts:
        raise UserError('no text to inspect; give one: electrify inspect MODEL "A sentence."')


def examine(reader: Reader, text: str, threshold: Threshold, has_attributions: bool) -> Finding:
    """A text with its marked words, and what is to say of the worst piece of each."""
    reading = read(reader, text)
    marked = {n: word for n, word in enumerate(reading.words) if threshold.marks(word.probability)}
    proposed = marked if reader.generator is not None else {}
    attributed = marked if has_attributions else {}
    return Finding(
        reading,
        threshold,
        list(marked),
        {n: propose(reader, reading, word) for n, word in proposed.items()},
        {n: attribute(reader, reading, word.worst) for n, word in attributed.items()},
    )


def _lines(texts: Iterable[str]) -> Iterable[str]:
    """Texts without their line ends; those of the standard input in any encoding."""
    if isinstance(texts, io.TextIOWrapper) and not texts.isatty():
        return _decoded(texts.buffer.read(), "the input").split("\n")
    return (_typed(text).rstrip("\n") for text in texts)


def _typed(text: str) -> str:
    """A text of the command line, where bytes that are not UTF-8 stand as lone surrogates."""
    has_bytes = re.search("[\udc80-\udcff]", text)
    return _decoded(os.fsencode(text), "the text") if has_bytes else text


def _decoded(data: bytes, name: str) -> str:
    text, encoding = decode_file(data, name)
    if not is_utf8(encoding):
        log(f"{name} is not UTF-8: it is read as {encoding}")
    return text


def as_text(finding: Finding) -> str:
    """Lines for a terminal: the text with its marked words in brackets, each piece with its
    probability, and what is known of each marked word."""
    reading, marks = finding.reading, finding.threshold.marks
    pieces = [f"[{t}] {p:.2f}" if marks(p) else f"{t} {p:.2f}" for t, p in reading.pieces]
    lines = [
        finding.bracketed,
        f"P(replaced): {'  '.join(pieces)}",
        f"{finding.count}: above {finding.threshold}",
    ]
    for number in finding.marked:
        word = reading.words[number]
        worst, _ = reading.pieces[word.worst]
        lines.append(f"[{word.text}] {word.probability:.2f}, for its piece {worst}")
        lines += [f"    {reason}" for reason in _reasons(finding, number)]
    return printable("\n".join([*lines, ""]))  # a text may hold what steers a terminal


def as_record(finding: Finding) -> dict[str, object]:
    """The same for programs: of a marked word also its `Proposals` and `Attribution`."""
    words = []
    for number, word in enumerate(finding.reading.words):
        pieces = [finding.reading.pieces[piece] for piece in word.pieces]
        record = asdict(word) | {"is_marked": number in finding.marked, "pieces": pieces}
        for reasons in (finding.proposals, finding.attributions):
            record |= asdict(reasons[number]) if number in reasons else {}
        words.append(record)
    threshold = finding.threshold.probability
    return {"text": finding.reading.text.text, "threshold": threshold, "words": words}


def _reasons(finding: Finding, number: int) -> Iterator[str]:
    if proposals := finding.proposals.get(number):
        proposed = ", ".join(f"{word} {chance:.2f}" for _, word, chance in proposals.proposals)
        own = f"as it stands {proposals.probability_as_it_stands:.2g}"
        yield f"the generator would write: {proposed}; {own}"
    if attribution := finding.attributions.get(number):
        others = [(n, part) for n, part in attribution.rests_on.items() if n != number]
        largest = sorted(others, key=lambda pair: -abs(pair[1]))[:_NUM_WORDS_SHOWN]
        parts = [f"{finding.reading.words[n].text} {part:+.2f}" for n, part in largest]
        parts.append(f"the word itself {attribution.rests_on[number]:+.2f}")
        yield f"the verdict rests on: {', '.join(parts)}"
        yield (
            f"integrated gradients from [MASK]: logit {attribution.logit_difference:+.2f}, "
            f"completeness error {attribution.completeness_error:.1e} in {attribution.num_steps} "
            "steps"
        )
