"""Golden files of the scores of reading comprehension."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.golden.adapter import Adapter, Comparison, Golden, compare_cases
from benchmarks.metrics import klue_mrc
from benchmarks.metrics.korquad import korquad
from benchmarks.metrics.squad import squad_v1, squad_v2

_NO_PERCENT = ("total", "thresh")  # ends of names whose values are counts or thresholds


def _squad_v1(golden: Golden) -> Iterator[Comparison]:
    gold = gold_answers(golden)
    for block in (golden["expected"], *golden.get("expected_other", {}).values()):
        yield from compare_cases(
            block, lambda case: percent(squad_v1(gold, golden["predictions"][case]))
        )


def _squad_v2(golden: Golden) -> Iterator[Comparison]:
    gold = gold_answers(golden)

    def compute(case: str) -> Mapping[str, float]:
        given = golden["predictions"][case]
        return percent(squad_v2(gold, given["pred"], given["na_probs"], given["na_prob_thresh"]))

    return compare_cases(golden["expected"], compute)


def _korquad(golden: Golden) -> Iterator[Comparison]:
    gold = gold_answers(golden)

    def compute(case: str) -> Mapping[str, float]:
        values = percent(korquad(gold, golden["predictions"][case]))
        return {f"official_{name}": value for name, value in values.items()}

    return compare_cases(golden["expected"], compute)


def _klue_mrc(golden: Golden) -> Iterator[Comparison]:
    gold = gold_answers(golden)
    types = {qa["guid"]: qa["question_type"] for _, qa in questions(golden)}

    def compute(case: str) -> Mapping[str, float]:
        return percent(klue_mrc.klue_mrc(gold, golden["predictions"][case], types))

    yield from compare_cases(golden["expected"], compute)
    for block in golden.get("expected_other", {}).values():
        yield from compare_cases(
            block, lambda case: klue_mrc.klue_mrc_of_predicted(gold, golden["predictions"][case])
        )
    for number, pair in enumerate(golden.get("single_pairs", ())):
        texts = (pair["pred"], pair["gold"])
        computed: dict[str, Any] = {
            "pred_normalised": klue_mrc.normalize_answer(texts[0]),
            "gold_normalised": klue_mrc.normalize_answer(texts[1]),
            "em": klue_mrc.exact_match(*texts),
            "rouge_w": klue_mrc.rouge_w(*texts),
        }
        for name, value in computed.items():
            yield Comparison(f"single pair {number}", name, pair[name], value)


def questions(golden: Golden) -> list[tuple[str, Mapping[str, Any]]]:
    """Context and question of every row of a SQuAD file."""
    return [
        (paragraph["context"], qa)
        for article in golden["references"]["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def identity(qa: Mapping[str, Any]) -> str:
    return str(qa["guid"] if "guid" in qa else qa["id"])


def gold_answers(golden: Golden) -> dict[str, list[str]]:
    return {
        identity(qa): [answer["text"] for answer in qa["answers"]] for _, qa in questions(golden)
    }


def percent(values: Mapping[str, float]) -> dict[str, float]:
    return {
        name: value if name.endswith(_NO_PERCENT) else 100 * value for name, value in values.items()
    }


ADAPTERS: Mapping[str, Adapter] = {
    "squad_v1.1": _squad_v1,
    "squad_v2.0": _squad_v2,
    "korquad_v1.0": _korquad,
    "klue/mrc": _klue_mrc,
}
