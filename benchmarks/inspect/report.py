"""A verdict for a reader: in the terminal, as a record, on a page."""

import json
from dataclasses import dataclass

from benchmarks.inspect.attribution import Attribution
from benchmarks.inspect.threshold import Threshold
from benchmarks.inspect.verdict import Proposals, Verdict, Word
from electrify.page.page import Page
from electrify.page.plots import shorten

_NUM_WORDS_SHOWN = 4  # that a verdict rests on
_MAX_COLUMNS = 160  # of a heading


@dataclass(frozen=True)
class Suspicion:
    """A marked word: what the generator would write for its worst piece, and what the verdict on
    that piece rests on; None where that was not asked or there is no generator."""

    word: Word
    proposals: Proposals | None
    attribution: Attribution | None


@dataclass(frozen=True)
class Finding:
    """The verdict on a text, and each word above the threshold."""

    verdict: Verdict
    threshold: Threshold
    suspicions: tuple[Suspicion, ...]

    def is_marked(self, word: Word) -> bool:
        return self.threshold.marks(word.probability)


def format_finding(finding: Finding) -> str:
    """Lines for a terminal: the text with its marked words in brackets, each piece with its
    probability, and what is known of each marked word."""
    pieces = [
        f"[{piece.token}] {piece.probability:.2f}"
        if finding.threshold.marks(piece.probability)
        else f"{piece.token} {piece.probability:.2f}"
        for word in finding.verdict.words
        for piece in word.pieces
    ]
    lines = [
        _bracketed(finding),
        f"P(replaced): {'  '.join(pieces)}",
        f"{_count(finding)}: above {finding.threshold}",
    ]
    for suspicion in finding.suspicions:
        word = suspicion.word
        lines.append(f"[{word.text}] {word.probability:.2f}, for its piece {word.worst.token}")
        if suspicion.proposals:
            lines.append(f"    the generator would write: {_proposals(suspicion.proposals)}")
        if suspicion.attribution:
            lines.append(f"    the verdict rests on: {_reasons(finding, suspicion)}")
            lines.append(f"    {_completeness(suspicion.attribution)}")
    return "\n".join([*lines, ""])


def as_record(finding: Finding) -> str:
    """The same as a line of JSON; shares are pairs of a word's number and a part of the logit."""
    details = {id(suspicion.word): suspicion for suspicion in finding.suspicions}
    words = []
    for word in finding.verdict.words:
        record: dict[str, object] = {
            "text": word.text,
            "start": word.span[0],
            "stop": word.span[1],
            "probability": round(word.probability, 4),
            "is_marked": finding.is_marked(word),
            "pieces": [[piece.token, round(piece.probability, 4)] for piece in word.pieces],
        }
        suspicion = details.get(id(word))
        if suspicion and (proposals := suspicion.proposals):
            record["piece"] = word.worst.token
            record["piece_probability_by_generator"] = proposals.own_probability
            record["proposals"] = [
                {"token": each.token, "word": each.word, "probability": round(each.probability, 4)}
                for each in proposals.others
            ]
        if suspicion and (attribution := suspicion.attribution):
            record["rests_on"] = [[n, round(x, 4)] for n, x in attribution.by_word.items()]
            record["logit_difference"] = round(attribution.difference, 4)
            record["completeness_error"] = attribution.completeness_error
        words.append(record)
    whole = {"text": finding.verdict.text, "threshold": finding.threshold.probability}
    return json.dumps({**whole, "words": words}, ensure_ascii=False)


def new_page(model: str, has_attributions: bool) -> Page:
    """A page that says what its numbers are."""
    page = Page("Replaced words", f"as {model} sees them")
    page.paragraph(
        "The discriminator gives each token the probability that it was replaced. A word is as "
        "suspicious as its worst token. Rare words are suspicious wherever they stand, and a "
        "marked word need not be wrong."
    )
    if has_attributions:
        page.paragraph(
            "What a verdict rests on: layer integrated gradients, from a text of nothing but "
            "[MASK] to this one. A word with a positive share made the logit of the marked token "
            "larger. All shares together are the difference of the logit between the two texts; "
            "what they miss of it is the completeness error."
        )
    return page


def add_finding(page: Page, finding: Finding) -> None:
    """A section for a text."""
    page.heading(shorten(_bracketed(finding), _MAX_COLUMNS))
    page.tokens(
        f"{_count(finding)} (framed): above {finding.threshold}",
        [
            (piece.token, piece.probability, finding.threshold.marks(piece.probability))
            for word in finding.verdict.words
            for piece in word.pieces
        ],
        "marked",
    )
    page.records(
        [
            {
                "word": suspicion.word.text,
                "its worst token": suspicion.word.worst.token,
                "P(replaced)": round(suspicion.word.probability, 3),
                "the generator would write": _proposals(suspicion.proposals)
                if suspicion.proposals
                else None,
                "the verdict rests on": _reasons(finding, suspicion)
                if suspicion.attribution
                else None,
                "completeness": _completeness(suspicion.attribution)
                if suspicion.attribution
                else None,
            }
            for suspicion in finding.suspicions
        ]
    )


def _bracketed(finding: Finding) -> str:
    text, end, parts = finding.verdict.text, 0, []
    for suspicion in finding.suspicions:
        start, stop = suspicion.word.span
        parts.append(f"{text[end:start]}[{text[start:stop]}]")
        end = stop
    return "".join([*parts, text[end:]])


def _count(finding: Finding) -> str:
    marked, words = len(finding.suspicions), len(finding.verdict.words)
    return f"{marked} of {words} words {'is' if marked == 1 else 'are'} marked"


def _proposals(proposals: Proposals) -> str:
    others = ", ".join(f"{each.word} {each.probability:.2f}" for each in proposals.others)
    return f"{others}; as it stands {proposals.own_probability:.2g}"


def _reasons(finding: Finding, suspicion: Suspicion) -> str:
    attribution, own = suspicion.attribution, suspicion.word.worst.word
    assert attribution is not None
    shares = [
        f"{finding.verdict.words[word].text} {share:+.2f}"
        for word, share in attribution.largest(_NUM_WORDS_SHOWN, own)
    ]
    return ", ".join([*shares, f"the word itself {attribution.by_word[own]:+.2f}"])


def _completeness(attribution: Attribution) -> str:
    return (
        f"integrated gradients from [MASK]: logit {attribution.difference:+.2f}, completeness "
        f"error {attribution.completeness_error:.1e} in {attribution.num_steps} steps"
    )
