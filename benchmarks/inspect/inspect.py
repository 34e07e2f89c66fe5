"""`electrify inspect`: which words of a text a discriminator takes for replaced, and why."""

import io
import os
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from benchmarks.inspect.attribution import attribute
from benchmarks.inspect.report import (
    Finding,
    Suspicion,
    add_finding,
    as_record,
    format_finding,
    new_page,
)
from benchmarks.inspect.threshold import (
    Threshold,
    bundled_sentences,
    script_of,
    thresholds_on,
)
from benchmarks.inspect.verdict import Detector, open_detector
from electrify.storage.encodings import decode_file, is_utf8
from electrify.system.outcome import UserError
from electrify.system.progress import log
from electrify.system.unknown import Coverage, warn_of_unknown

Choose = Callable[[str], Threshold]  # the threshold of a text


def inspect(
    path: str,
    texts: Iterable[str],
    generator: str | None,
    threshold: float | None,
    clean: str | None,
    false_alarms: float,
    has_attributions: bool,
    as_json: bool,
    html: str | None,
) -> None:
    """Print what the discriminator at `path` thinks of each text; with `html` write a page, too.

    `texts` are texts, or an open file with one in each line, in any encoding. `threshold` or the
    sentences of the file `clean` say from where on a word is marked. Raises `ValueError` for a
    model that is no discriminator of ELECTRA's, for texts that are all empty and for bytes that are
    no text.
    """
    detector = open_detector(path, generator)
    if detector.generator is None:
        log(f"no generator beside {path}, so no proposals: name one with --generator")
    choose = threshold_chooser(detector, threshold, clean, false_alarms)
    page = new_page(path, has_attributions)
    num_texts, is_known = 0, True
    for text in filter(str.strip, _lines(texts)):
        finding = examine(detector, text, choose(text), has_attributions)
        if is_known:  # one warning is enough
            is_known = not warn_of_unknown(
                _coverage(detector, finding), f"{path} reads {text!r}", detector.source.tokenizer
            )
        print(as_record(finding) if as_json else format_finding(finding), flush=True)
        add_finding(page, finding)
        num_texts += 1
    if not num_texts:
        raise UserError('no text to inspect; give one: electrify inspect MODEL "A sentence."')
    if html:
        Path(html).parent.mkdir(parents=True, exist_ok=True)
        page.write(Path(html))
        log(f"inspect: {html}")


def _lines(texts: Iterable[str]) -> Iterator[str]:
    if isinstance(texts, io.TextIOWrapper) and not texts.isatty():
        yield from _decoded(texts.buffer.read(), "the input").split("\n")
        return
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:  # bytes of another encoding, as Python hands them over
            text = _decoded(os.fsencode(text), "the text")
        yield text.rstrip("\n")


def _decoded(data: bytes, place: str) -> str:
    """The text of bytes in any encoding; `ValueError` with their `place` if they are no text."""
    try:
        text, encoding = decode_file(data)
    except ValueError as error:
        raise UserError(f"{place} cannot be read: {error}; save it as UTF-8") from None
    if not is_utf8(encoding):
        log(f"{place} is not UTF-8: it is read as {encoding}")
    return text


def _coverage(detector: Detector, finding: Finding) -> Coverage:
    tokens = [piece.token for word in finding.verdict.words for piece in word.pieces]
    return Coverage(len(tokens), tokens.count(str(detector.source.tokenizer.unk_token)))


def examine(detector: Detector, text: str, threshold: Threshold, has_attributions: bool) -> Finding:
    """The verdict on a text; for each marked word the proposals and attributions of its worst
    piece."""
    verdict = detector.read(text)
    suspicions = [
        Suspicion(
            word,
            None if detector.generator is None else detector.propose(verdict, word.worst),
            attribute(detector, verdict, word.worst) if has_attributions else None,
        )
        for word in verdict.words
        if threshold.marks(word.probability)
    ]
    return Finding(verdict, threshold, tuple(suspicions))


def threshold_chooser(
    detector: Detector, given: float | None, clean: str | None, false_alarms: float
) -> Choose:
    """How a text gets its threshold: the one given, that of the file's sentences, or else of the
    bundled sentences in the text's script; 0.5 where there are none.

    Raises `ValueError` for both at once, and for a fraction that is not between 0 and 1.
    """
    for name, value in (("--threshold", given), ("--false-alarms", false_alarms)):
        if value is not None and not 0 < value < 1:
            raise UserError(f"{name} {value}: give a number between 0 and 1")
    if given is not None and clean is not None:
        raise UserError(f"--threshold {given} and --clean {clean}: give one of them")
    if given is not None:
        return lambda text: Threshold(given, "given")
    if clean is not None:
        try:
            data = Path(clean).read_bytes()
        except OSError as error:
            raise UserError(f"--clean {clean} cannot be read: {error}") from error
        lines = _decoded(data, f"--clean {clean}").split("\n")
        (own,) = thresholds_on(detector, lines, clean, [false_alarms])
        return lambda text: own

    @lru_cache
    def of_script(script: str) -> Threshold:
        sentences = bundled_sentences().get(script)
        if sentences is None:
            return Threshold(0.5, "no sentences of this script are bundled: give --clean FILE")
        source = f"{len(sentences)} plain sentences in {script}"
        return thresholds_on(detector, sentences, source, [false_alarms])[0]

    return lambda text: of_script(script_of(text))
