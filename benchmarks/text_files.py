"""Official evaluation files of tasks whose texts a corpus should not hold.

Read by field names alone, so that a file with a row out of form still gives its texts. Of tasks of
the harness that are not here `texts` reads the reported splits as the harness does.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class EvaluationFile:
    """One split of one task. `fields`: keys at any depth (json), or names in the header (tsv)."""

    suite: str
    task: str
    split: str
    names: tuple[str, ...]  # any of them; may hold folders
    fields: tuple[str, ...] = ()
    file_format: Literal["json", "tsv", "tokens"] = "tsv"


_PAIR = ("sentence1", "sentence2")
_SQUAD = ("context", "question")


def _klue(task: str, fields: tuple[str, ...]) -> EvaluationFile:
    return EvaluationFile(
        "klue", f"klue-{task}", "dev", (f"klue-{task}-v1.1_dev.json",), fields, "json"
    )


def _glue(task: str, folder: str, fields: tuple[str, ...], *splits: str) -> list[EvaluationFile]:
    return [
        EvaluationFile("glue", f"glue-{task}", split, (f"{folder}/{split}.tsv",), fields)
        for split in splits
    ]


def _squad(suite: str, task: str, split: str, *names: str) -> EvaluationFile:
    return EvaluationFile(suite, task, split, names, _SQUAD, "json")


EVALUATION_FILES: tuple[EvaluationFile, ...] = (
    _klue("sts", _PAIR),
    _klue("re", ("sentence",)),
    _klue("mrc", _SQUAD),  # not the title: often a name alone, of a law or a film
    EvaluationFile("klue", "klue-dp", "dev", ("klue-dp-v1.1_dev.tsv",), file_format="tokens"),
    EvaluationFile("klue", "klue-wos", "dev", ("wos-v1.1_dev.json",), ("text",), "json"),
    *_glue("cola", "CoLA", ("sentence",), "test"),
    *_glue("sst2", "SST-2", ("sentence",), "test"),
    *_glue("mrpc", "MRPC", ("#1 String", "#2 String"), "test"),
    EvaluationFile(
        "glue", "glue-mrpc", "test", ("msr_paraphrase_test.txt",), ("#1 String", "#2 String")
    ),
    *_glue("rte", "RTE", _PAIR, "test"),
    *_glue("stsb", "STS-B", _PAIR, "dev", "test"),
    *_glue("qqp", "QQP", ("question1", "question2"), "dev", "test"),
    *_glue("qnli", "QNLI", ("question", "sentence"), "dev", "test"),
    *_glue(
        "mnli", "MNLI", _PAIR, "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"
    ),
    *_glue("wnli", "WNLI", _PAIR, "dev", "test"),
    EvaluationFile("glue", "glue-diagnostic", "test", ("diagnostic.tsv",), _PAIR),
    _squad(
        "squad", "squad-1.1", "dev", "dev-v1.1.json", "dev-v1.1_part.json", "dev-v1.1_from_v2.json"
    ),
    _squad("squad", "squad-2.0", "dev", "dev-v2.0.json", "dev-v2.0_part.json"),
    _squad("korquad", "korquad-v1", "dev", "KorQuAD_v1.0_dev.json"),
    *(
        _squad("xquad", f"xquad-{language}", "test", f"xquad.{language}.json")
        for language in ("ar", "de", "el", "en", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")
    ),
    EvaluationFile("nsmc", "nsmc", "test", ("ratings_test.txt",), ("document",)),
    EvaluationFile("kornli", "kornli", "dev", ("xnli.dev.ko.tsv",), _PAIR),
    EvaluationFile("kornli", "kornli", "test", ("xnli.test.ko.tsv",), _PAIR),
    EvaluationFile("korsts", "korsts", "dev", ("sts-dev.tsv",), _PAIR),
    EvaluationFile("korsts", "korsts", "test", ("sts-test.tsv",), _PAIR),
    EvaluationFile(
        "hate-speech", "korean-hate-speech", "dev",
        ("hate-speech/dev.tsv", "korean-hate-speech/labeled/dev.tsv"), ("comments",),
    ),
    EvaluationFile(
        "hate-speech", "korean-hate-speech", "test",
        ("test.no_label.tsv",), ("comments",),
    ),
)  # fmt: skip
