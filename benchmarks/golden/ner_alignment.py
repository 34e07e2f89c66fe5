"""Golden files of KLUE-NER from word pieces to characters and back."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.golden.adapter import Adapter, Comparison, Golden, attempt, compare_cases
from benchmarks.golden.words import word_pieces
from benchmarks.metrics.klue_ner_alignment import official_character_labels, official_piece_labels
from benchmarks.metrics.tagging import character_macro_f1, entity_macro_f1


def _alignment(golden: Golden) -> Iterator[Comparison]:
    labels = golden["label_list"]
    tokenizers = {name: word_pieces(lines) for name, lines in golden["vocabs"].items()}

    def compute(case: str) -> Mapping[str, Any]:
        sentence = golden["references"][case]
        text, tokenizer = sentence["chars"], tokenizers[sentence["vocab"]]
        tags = [labels.index(tag) for tag in sentence["tags"]]
        predicted = golden["predictions"][case]["piece_label_ids"]

        def tokenize(word: str) -> list[str]:
            return list(tokenizer.encode(word, add_special_tokens=False).tokens)

        found, gold = official_character_labels(text, tags, predicted, tokenize, labels)
        outside, length = labels.index("O"), sentence["max_seq_length"]
        return {
            "gold_piece_label_ids": attempt(
                official_piece_labels, text, tags, tokenize, length, outside
            ),
            "char_pred_ids": found,
            "char_gold_ids": gold,
            "entity_macro_f1": 100 * entity_macro_f1(gold, found, labels),
            "character_macro_f1": 100 * character_macro_f1(gold, found, labels),
        }

    return compare_cases(golden["expected"], compute)


ADAPTERS: Mapping[str, Adapter] = {"klue/ner (word pieces to characters)": _alignment}
