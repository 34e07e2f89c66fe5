"""The suite `retrieval`: what embeddings are worth without a head.

Of a reading task each question that has an answer searches all paragraphs of the split; one is
right, that of the question. Of a task of similar sentences the cosine is compared with the gold
value. Nothing is learnt from the tasks, so the whole reported split is scored, as large as the file
is. Beside the encoder stand BM25 and TF-IDF, and the network at random initialisation.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from benchmarks.embed.sentences import open_sentence_encoder
from benchmarks.encoder import ModelSource, open_model
from benchmarks.metrics import weighted
from benchmarks.metrics.weighted import Floats, Weighted
from benchmarks.model_name import pinned
from benchmarks.results.predictions import PREDICTIONS, write_predictions
from benchmarks.results.results import BASELINES, encoder_label, percent
from benchmarks.results.table import Table, read_csv
from benchmarks.statistics.uncertainty import estimate, resample_scores, score_bounds
from benchmarks.tasks.labels import Regression
from benchmarks.tasks.load import (
    HUB,
    data_dirs,
    dir_of,
    named_split,
    probed_tasks,
    read_splits,
    rows_digest,
    versioned,
)
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.spans import Spans
from benchmarks.tasks.task import OWN, Example, Line, Task
from benchmarks.tasks.windows import QuestionExample
from electrify.config.evaluate import EvaluateConfig
from electrify.config.run import EvaluationRun
from electrify.stage.folder import digest_of, write_text
from electrify.stage.plan import DEFAULT_MODEL, evaluate_stage, output_dir
from electrify.stage.run import run_stage
from electrify.storage.hub import try_hub
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, log, warn

DEFAULT_TASKS = ("klue-mrc", "korean-korquad", "klue-sts", "korean-korsts")
SUITE, TABLE = "retrieval", "retrieval.csv"
NUM_FOUND = 10  # places that count
_DIGITS = 6  # of cosines: those of equal texts differ by rounding alone, and are to tie
_BM25, _TFIDF = "BM25", "TF-IDF"
_WORD = re.compile(r"\w+")
# of Robertson's Okapi BM25, as Lucene has them
_SATURATION, _LENGTH = 1.2, 0.75  # k1, b

# the texts of queries and of documents to what each pair of them scores, (Q, D)
Search = Callable[[Sequence[str], Sequence[str]], Floats]


class Score(BaseModel):
    """One figure of one encoder or baseline."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    encoder: str
    task: str
    task_version: str
    split: str
    metric: str
    value: float
    low: float  # of the 95 % interval over examples
    high: float
    num_examples: int  # questions that are asked, or pairs of sentences
    num_paragraphs: int  # that are searched; 0 of pairs


def accepts(task: Task) -> bool:
    """Whether it is an official task of questions with paragraphs, or of pairs with a number."""
    return task.suite != OWN and isinstance(task, Spans | Regression) and len(task.text_fields) == 2


def gold_ranks(scores: Floats, gold: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place (Q,) from 1 of the right document of each query in `scores` (Q, D); behind all
    others that score as much."""
    right = scores[np.arange(len(gold)), gold]
    return np.asarray((scores >= right[:, None]).sum(axis=1))


def ndcg_at_10(ranks: NDArray[np.int64]) -> Floats:
    """Of each query with one right document, whose ideal place is the first: 1 / log2(1 + rank)."""
    return np.where(ranks <= NUM_FOUND, 1 / np.log2(1.0 + ranks), 0.0)


def recall_at_10(ranks: NDArray[np.int64]) -> Floats:
    return (ranks <= NUM_FOUND).astype(np.float64)


def score_retrieval(
    config: EvaluationRun,
    model: str | None,
    overwrite: bool,
    weights: Path | None = None,
    name: str | None = None,
) -> None:
    """Score `model` (folder or hub name; None: the run's own discriminator) into `retrieval/`: a
    table, and of each question the place of its paragraph. Arguments and errors are those of
    `benchmarks.evaluate.evaluate`."""
    options = config.evaluate
    at, commit = pinned(model) if model is not None and weights is None else (model, None)
    if commit:
        name = name or model
    if options.limit is not None:
        warn(f"evaluate.limit = {options.limit} does not hold for {SUITE}: it scores all rows")
    data = list(_read(options))
    digests = {task.name: {task.reported: rows_digest(of)} for task, of in data}
    stage = replace(evaluate_stage(config, at, digests, None, name, SUITE), keyed=False)
    path = model if model is not None else str(output_dir(config) / DEFAULT_MODEL)

    def work(partial: Path) -> dict[str, int]:
        place = name or model or DEFAULT_MODEL
        source = open_model(path if weights is None else str(weights), place, commit)
        scores: list[Score] = []
        for encoder, search in _encoders(source, options).items():
            for task, examples in data:
                if encoder == _BM25 and not isinstance(task, Spans):
                    continue  # it says how well a text answers, not how near two are
                score = _score_search if isinstance(task, Spans) else _score_pairs
                of_task, lines = score(task, examples, search, encoder)
                scores += of_task
                header = {"task": task.name, "task_version": task.version, "encoder": encoder}
                file = re.sub("[ /]", "-", encoder) + ".jsonl"
                write_predictions(partial / PREDICTIONS / task.name / file, header, lines)
        table = Table.of([score.model_dump() for score in scores])
        write_text(partial / TABLE, table.csv())
        return {"scores": len(scores)}

    run_stage(stage, work, overwrite)
    for line in score_table(read_csv(stage.folder / TABLE, Score)).terminal():
        log(line)


def score_table(scores: Sequence[Score]) -> Table:
    """A row an encoder and task, in percent, with the intervals."""
    rows: dict[tuple[str, str], dict[str, object]] = {}
    metrics = dict.fromkeys(score.metric for score in scores)
    for score in scores:
        row = rows.setdefault(
            (score.task, score.encoder),
            {
                "task": score.task,
                "encoder": score.encoder,
                "examples": score.num_examples,
                "paragraphs": score.num_paragraphs or None,
                **dict.fromkeys(metrics),
            },
        )
        value, low, high = (percent(v, 1) for v in (score.value, score.low, score.high))
        row[score.metric] = f"{value} ({low} to {high})"
    ordered = sorted(rows, key=lambda key: [task for task, _ in rows].index(key[0]))
    return Table.of([rows[key] for key in ordered], "Sentence embeddings, percent")


def _read(options: EvaluateConfig) -> Iterator[tuple[Task, tuple[Example, ...]]]:
    """The tasks that are scored, each with all rows of its reported split."""
    names = probed_tasks(options, SUITE, DEFAULT_TASKS, accepts)
    dirs = data_dirs(options, [TASKS[name] for name in names])
    places = {name: dir_of(TASKS[name], dirs) for name in names}
    if any(str(place) == HUB for place in places.values()):
        try_hub()
    for name, place in places.items():
        task = versioned(TASKS[name], place)
        yield task, read_splits(task, place, [task.reported])[task.reported]


def _encoders(source: ModelSource, options: EvaluateConfig) -> Mapping[str, Search]:
    """How texts are compared, by the name of what compares them."""

    def by_vectors(role: Any) -> Search:
        encoder = open_sentence_encoder(
            source, options.device, options.precision, options.max_sequence_length, role=role
        )

        def search(queries: Sequence[str], documents: Sequence[str]) -> Floats:
            texts = list(dict.fromkeys([*queries, *documents]))
            with Progress(f"{SUITE}: {role}", len(texts), "texts") as progress:
                vectors = encoder.embed(texts, progress.update)
            place = {text: number for number, text in enumerate(texts)}
            first, second = (vectors[[place[t] for t in side]] for side in (queries, documents))
            return np.round(first.astype(np.float64) @ second.T.astype(np.float64), _DIGITS)

        return search

    name = encoder_label("pretrained", source.name)
    encoders: dict[str, Search] = {name: by_vectors("pretrained"), _BM25: bm25, _TFIDF: tfidf}
    if options.random_init_control:
        encoders[BASELINES["random-init"]] = by_vectors("random-init")
    return encoders


def terms(text: str) -> list[str]:
    """The pairs of neighbouring characters of each word, in small letters; a word of one character
    as it is. Korean words carry endings, so that whole words seldom meet (Lucene's CJK analyzer
    does the same)."""
    words = _WORD.findall(text.lower())
    return [word[i : i + 2] for word in words for i in range(max(1, len(word) - 1))]


def bm25(queries: Sequence[str], documents: Sequence[str]) -> Floats:
    """BM25 of each query and document, (Q, D), over the `terms` of both.

    A term's weight in a document is idf tf (k1 + 1) / (tf + k1 (1 - b + b length / mean length))
    with idf = ln(1 + (D - df + 0.5) / (df + 0.5)); a term counts as often as the query has it.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(analyzer=terms)
    weights = vectorizer.fit_transform(documents).astype(np.float64).tocsr()  # tf
    lengths = np.asarray(weights.sum(axis=1)).ravel()
    frequencies = np.bincount(weights.indices, minlength=weights.shape[1])
    idf = np.log1p((len(documents) - frequencies + 0.5) / (frequencies + 0.5))
    norms = _SATURATION * (1 - _LENGTH + _LENGTH * lengths / lengths.mean())
    tf, norm = weights.data, np.repeat(norms, np.diff(weights.indptr))
    weights.data = idf[weights.indices] * tf * (_SATURATION + 1) / (tf + norm)
    return np.asarray((vectorizer.transform(queries) @ weights.T).toarray())


def tfidf(queries: Sequence[str], documents: Sequence[str]) -> Floats:
    """Cosines (Q, D) of TF-IDF rows, of n-grams of characters in words; document frequencies are
    those of `documents`."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
    vectorizer.fit(documents)
    first, second = (vectorizer.transform(texts) for texts in (queries, documents))
    return np.asarray((first @ second.T).toarray())


def _score_search(
    task: Task, examples: Sequence[Example], search: Search, encoder: str
) -> tuple[list[Score], list[Line]]:
    """Every paragraph counts, also those whose questions have no answer."""
    questions = [e for e in examples if isinstance(e, QuestionExample) and e.answers]
    paragraphs = {text: n for n, text in enumerate(dict.fromkeys(e.texts[0] for e in examples))}
    if not questions:
        raise UserError(f"{task.name} {task.reported}: no question has an answer")
    gold = np.array([paragraphs[question.context] for question in questions])
    ranks = gold_ranks(search([q.question for q in questions], list(paragraphs)), gold)
    lines = [{"id": q.id, "rank": r} for q, r in zip(questions, ranks.tolist(), strict=True)]
    split = named_split(task, examples)
    values = {f.__name__: f(ranks) for f in (ndcg_at_10, recall_at_10)}
    scores = [
        _score(task, split, encoder, name, lines, weighted.mean_of(of), len(paragraphs))
        for name, of in values.items()
    ]
    return scores, lines


def _score_pairs(
    task: Task, examples: Sequence[Any], search: Search, encoder: str
) -> tuple[list[Score], list[Line]]:
    first, second = ([example.texts[side] for example in examples] for side in (0, 1))
    cosines = np.diagonal(search(first, second)).tolist()
    lines = [
        {"id": example.id, "gold": example.gold, "prediction": cosine}
        for example, cosine in zip(examples, cosines, strict=True)
    ]
    score = weighted.spearman([example.gold for example in examples], cosines)
    return [_score(task, named_split(task, examples), encoder, "spearman", lines, score, 0)], lines


def _score(
    task: Task,
    split: str,
    encoder: str,
    metric: str,
    lines: Sequence[Line],
    score: Weighted,
    num_paragraphs: int,
) -> Score:
    """The score of all examples, with the interval of samples of them."""
    value = float(score(np.ones((1, len(lines))))[0])
    draws = resample_scores(digest_of([line["id"] for line in lines]), len(lines), {0: score})
    mean = estimate({0: value}, draws, score_bounds(metric))
    return Score(
        encoder=encoder,
        task=task.name,
        task_version=task.version,
        split=split,
        metric=metric,
        value=value,
        low=mean.low,
        high=mean.high,
        num_examples=len(lines),
        num_paragraphs=num_paragraphs,
    )
