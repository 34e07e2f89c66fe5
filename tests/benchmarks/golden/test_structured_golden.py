"""Golden files of relations, trees and dialogue states: made ones, and the lists of labels."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.golden.check import check_file
from benchmarks.golden.inputs import ADAPTERS
from benchmarks.tasks.klue import DP, RE, WOS

DATA = Path(__file__).parents[4] / "shared" / "data" / "klue"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
RELATION_INPUT = {
    "task": "klue/re (input construction)",
    "vocab": [*SPECIAL, "미담", "은", "##은", "산", "다"],
    "max_seq_length": 12,
    "references": {
        "inside": {
            "sentence": "미담은 산 다",
            "subject_entity": {"start_idx": 4, "end_idx": 4},
            "object_entity": {"start_idx": 0, "end_idx": 1},
        },
        "end": {
            "sentence": "미담은 산",
            "subject_entity": {"start_idx": 0, "end_idx": 1},
            "object_entity": {"start_idx": 4, "end_idx": 4},
        },
    },
    "predictions": {},
    "expected": {
        "inside": {
            "marked": "<obj>미담</obj>은 <subj>산</subj> 다",
            "tokens": [
                "[CLS]",
                "<obj>",
                "미담",
                "</obj>",
                "##은",
                "<subj>",
                "산",
                "</subj>",
                "다",
                "[SEP]",
            ],
            "token_type_ids": [0] * 10,
        },
        "end": {"error": "IndexError"},
    },
}
PARSING_INPUT = {
    "task": "klue/dp (input construction)",
    "vocab": [*SPECIAL, "미담", "##은", "산", "##다", "."],
    "max_seq_length": 16,
    "references": {
        "long": {
            "rows": [
                ["1", "미담은", "미담 은", "NNP+JX", "2", "NP_SBJ"],
                ["2", "산다.", "살 ㄴ다 .", "VV+EF+SF", "0", "VP"],
            ]
        },
        "short": {"rows": [["1", "산다", "살 ㄴ다", "VV+EF", "0", "VP"]]},
    },
    "predictions": {},
    "expected": {
        "long": {
            "pieces": ["[CLS]", "미담", "##은", "산", "##다", ".", "[SEP]"],
            "first_piece_positions": [1, 3],
            "last_piece_positions": [2, 5],
            "head_ids": [2, 0],
            "type_ids": [3, 2],
            "pos_ids": [45, 24, 35],
            "word_mask": [1, 1],
        },
        "short": {
            "pieces": ["[CLS]", "산", "##다", "[SEP]"],
            "first_piece_positions": [1],
            "last_piece_positions": [2],
            "head_ids": [0, -1],
            "type_ids": [2, -1],
            "pos_ids": [45, 26, 45],
            "word_mask": [1, 0],
        },
    },
}
STATES = {
    "task": "klue/wos (gates and generated values to state strings)",
    "slot_meta": ["식당-이름", "식당-주차 가능"],
    "gates": ["none", "dontcare", "ptr", "yes", "no"],
    "vocab": [*SPECIAL, "미", "##담", ",", "산"],
    "references": {},
    "predictions": {
        "generated": {"gates": [2, 3], "generated_ids": [[5, 6, 7, 8, 3, 8], [8, 8, 8, 8, 8, 8]]},
        "nothing": {"gates": [0, 0], "generated_ids": [[5], [5]]},
    },
    "expected": {"generated": ["식당-이름-미담, 산", "식당-주차 가능-yes"], "nothing": []},
}


def check(golden: dict[str, Any]) -> tuple[int, int]:
    found = check_file(Path("made.json"), golden, ADAPTERS[golden["task"]])
    assert not found.not_covered
    return found.num_agree, len(found.differ)


@pytest.mark.parametrize("golden", [RELATION_INPUT, PARSING_INPUT, STATES], ids=["re", "dp", "wos"])
def test_made_files_agree_and_changed_ones_do_not(golden):
    assert check(golden) == (2, 0)
    other = copy.deepcopy(golden)
    first, second = other["expected"]
    other["expected"] = {
        first: golden["expected"][second] if golden is not RELATION_INPUT else {"error": "any"},
        second: golden["expected"][first],
    }
    assert check(other) == (0, 2)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no KLUE files at {DATA}")
def test_lists_of_labels_are_those_of_the_official_files():
    relations = json.loads((DATA / "re" / "relation_list.json").read_text(encoding="utf-8"))
    assert tuple(relations["relations"]) == RE.labels
    ontology = json.loads((DATA / "wos" / "ontology.json").read_text(encoding="utf-8"))
    assert tuple(sorted(ontology)) == WOS.labels


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no KLUE files at {DATA}")
@pytest.mark.parametrize(
    ("task", "name", "count"),
    [
        (RE, "re/klue-re-v1.1_dev.json", 5436),
        (DP, "dp/klue-dp-v1.1_dev.tsv", 1400),
        (WOS, "wos/wos-v1.1_dev.json", 3553),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_official_files_are_read_whole(task, name, count):
    examples = list(task.read("dev", DATA / name))
    assert len({example.id for example in examples}) == len(examples) == count
