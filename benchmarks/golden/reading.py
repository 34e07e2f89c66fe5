"""Golden files of reading comprehension: SQuAD, KorQuAD and KLUE-MRC."""

from collections.abc import Mapping

from benchmarks.golden import reading_answers, reading_scores
from benchmarks.golden.adapter import Adapter

ADAPTERS: Mapping[str, Adapter] = {**reading_scores.ADAPTERS, **reading_answers.ADAPTERS}
