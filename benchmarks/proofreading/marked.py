"""What `electrify inspect` marks of mistakes in everyday sentences: a kind that a discriminator is
good at, and one that it is not.
"""

from collections.abc import Sequence

from benchmarks.inspect.inspect import examine
from benchmarks.inspect.report import format_finding
from benchmarks.inspect.threshold import Threshold, bundled_sentences, thresholds_on
from benchmarks.inspect.verdict import Detector, open_detector
from benchmarks.korean.morphemes import analyse
from benchmarks.proofreading.plant import Planted, plant_evenly, words_by_form

FALSE_ALARMS = 0.05  # as `electrify inspect` has it
_SCRIPTS = {"ko": "Hangul", "en": "Latin"}  # of the bundled sentences
_KINDS = {"particle-form": "wrong forms of particles", "exchanged-word": "exchanged words"}


def marked_lines(model: str, language: str) -> list[str]:
    """Lines for a terminal; none for a language without bundled sentences.

    The first says from which probability on a word is marked. In Korean each kind of mistake
    follows, one in each sentence, and a sentence of the more frequent outcome.
    """
    if language not in _SCRIPTS:
        return []
    script = _SCRIPTS[language]
    detector, sentences = open_detector(model), bundled_sentences()[script]
    source = f"{len(sentences)} plain sentences in {script}"
    (threshold,) = thresholds_on(detector, sentences, source, [FALSE_ALARMS])
    lines = [f"electrify inspect marks a word above {threshold}"]
    if language == "ko":
        analysed = analyse(sentences)
        words = words_by_form(analysed)
        for kind in _KINDS:
            planted = plant_evenly(kind, analysed, words, len(analysed), seed=0)
            lines += _outcome(detector, threshold, kind, planted)
    return lines


def _outcome(
    detector: Detector, threshold: Threshold, kind: str, planted: Sequence[Planted]
) -> list[str]:
    is_marked = [_is_marked(detector, threshold, mistake) for mistake in planted]
    num_marked = sum(is_marked)
    often = num_marked * 2 > len(planted)
    shown = planted[is_marked.index(often)]
    right, wrong = shown.clean[slice(*shown.before)], shown.text[slice(*shown.after)]
    finding = examine(detector, shown.text, threshold, has_attributions=False)
    example = f"{wrong} for {right} is{'' if often else ' not'}"
    return [
        f"{num_marked} of {len(planted)} {_KINDS[kind]} are marked; {example}:",
        f"    {format_finding(finding).splitlines()[0]}",
    ]


def _is_marked(detector: Detector, threshold: Threshold, mistake: Planted) -> bool:
    start, stop = mistake.after
    return any(
        threshold.marks(word.probability)
        for word in detector.read(mistake.text).words
        if word.span[0] < stop and start < word.span[1]
    )
