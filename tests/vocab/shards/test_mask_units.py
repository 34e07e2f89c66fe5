"""Which pieces begin a word or a morpheme, from the vocabulary alone."""

from itertools import pairwise
from pathlib import Path

import pytest

from electrify.stage.plan import MASK_UNITS_FILE
from tests.vocab.conftest import batches_of
from vocab.pretokenize import CUT
from vocab.shards.mask_units import count_borders, read_unit_starts, write_mask_units
from vocab.tokenizer import build_tokenizer, load_tokenizer, save_tokenizer
from vocab.wordpiece.merges import SPECIAL_TOKENS
from vocab.wordpiece.segment import is_continuing

LETTERS = [*"학교에서가를나", *(f"##{letter}" for letter in "학교에서가를나")]
PIECES = [*SPECIAL_TOKENS, *LETTERS, "학교", "##에서", "##가나"]
# ##가 begins a morpheme in 30 of 50; in 학교가|나 the border is inside ##가나
WORDS = {
    f"학교{CUT}에서": 50,
    f"나{CUT}가": 30,
    "학가": 20,
    "나가나": 7,
    f"학교{CUT}를": 3,
    f"학교가{CUT}나": 5,
    f"나를{CUT}를": 2,
    "쀍": 9,
}


def save(folder: Path, pieces: list[str] = PIECES) -> Path:
    folder.mkdir(exist_ok=True)
    save_tokenizer(build_tokenizer(pieces, lowercase=False), folder, lowercase=False)
    return folder


def read_pieces(folder: Path) -> list[str]:
    return (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()


def test_a_word_begins_with_every_piece_that_does_not_continue_one(tmp_path):
    starts = read_unit_starts(save(tmp_path), "word")
    assert starts.dtype == bool
    of = dict(zip(PIECES, starts.tolist(), strict=True))
    assert of == {piece: not is_continuing(piece) for piece in PIECES}


def test_words_are_what_the_pretokenizer_parts(tmp_path, documents):
    characters = sorted({c for _, text in documents for c in text if not c.isspace()})
    folder = save(tmp_path, [*SPECIAL_TOKENS, *characters, *(f"##{c}" for c in characters)])
    starts, tokenizer = read_unit_starts(folder, "word"), load_tokenizer(folder)
    for _, text in documents:
        found = tokenizer.encode(text, add_special_tokens=False)
        begins = [False, *(a != b for a, b in pairwise(found.word_ids))]
        assert starts[found.ids].tolist() == [True, *begins[1:]]


def test_borders_are_counted_piece_by_piece():
    found = count_borders(PIECES, batches_of(WORDS, "ko"))
    behind = {PIECES[i]: int(n) for i, n in enumerate(found.behind) if n}
    inside = {PIECES[i]: int(n) for i, n in enumerate(found.inside) if n}
    assert behind == {"##에서": 50, "##가": 30, "##를": 5}
    assert inside == {"##가": 20, "##가나": 12, "##를": 2}
    assert found.num_borders == 90


def test_figures_of_the_table_are_counted_over_the_text(tmp_path):
    figures = write_mask_units(PIECES, batches_of(WORDS, "ko"), save(tmp_path))
    assert figures == {
        "num_pieces": 3,
        "num_borders": 90,
        "precision": round(85 / 107, 6),  # the 20 of 학가 and the 2 of 나를|를 are taken wrongly
        "recall": round(85 / 90, 6),
        "recall_ceiling": round(85 / 90, 6),  # the border in ##가나 is between no pieces
    }
    starts = read_unit_starts(tmp_path, "morpheme")
    words = read_unit_starts(tmp_path, "word")
    assert {PIECES[i] for i in (starts & ~words).nonzero()[0]} == {"##에서", "##가", "##를"}
    assert (starts | ~words).all()


def test_without_morphemes_there_is_no_file_and_reading_says_what_to_do(tmp_path):
    folder = save(tmp_path)
    assert write_mask_units(PIECES, batches_of({"학교에서": 4}, "ko"), folder) is None
    assert not (folder / MASK_UNITS_FILE).exists()
    assert read_unit_starts(folder, "word").any()
    with pytest.raises(ValueError, match=r"mask_unit = 'morpheme': no .*pretokenizer to kiwi"):
        read_unit_starts(folder, "morpheme")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"num_pieces": 3, "morpheme_starts": []}',
        f'{{"num_pieces": {len(PIECES)}}}',
        f'{{"num_pieces": {len(PIECES)}, "morpheme_starts": [1000]}}',
        f'{{"num_pieces": {len(PIECES)}, "morpheme_starts": [-1]}}',
        f'{{"num_pieces": {len(PIECES)}, "morpheme_starts": "x"}}',
    ],
)
def test_a_damaged_file_is_refused(tmp_path, text):
    folder = save(tmp_path)
    (folder / MASK_UNITS_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"mask_units.json is damaged .*--overwrite"):
        read_unit_starts(folder, "morpheme")
