"""Which pieces begin a word or a morpheme, from the vocabulary alone."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from electrify.stage.plan import MASK_UNITS_FILE
from tests.vocab.conftest import batches_of
from vocab.pretokenize import CUT, morphemes_of
from vocab.shards.mask_units import count_borders, read_unit_starts, write_mask_units
from vocab.tokenizer import build_tokenizer, load_tokenizer, save_tokenizer
from vocab.train import train_vocab
from vocab.wordpiece.learn import SPECIAL_TOKENS
from vocab.wordpiece.segment import Segmenter, is_continuing

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


@pytest.fixture(scope="module")
def trained(make_run_in, documents, tmp_path_factory):
    """A config whose vocabulary was trained on Korean and English with morphemes."""
    config = make_run_in(tmp_path_factory.mktemp("units") / "run", documents * 3)
    train_vocab(config, [], overwrite=False)
    return config


def test_training_writes_the_table_and_its_figures(trained, documents):
    folder = Path(trained.output_dir) / "vocab"
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    figures = report["training"]["morpheme_starts"]
    pieces = read_pieces(folder)
    starts = read_unit_starts(folder, "morpheme")
    assert figures["num_pieces"] == (starts & ~read_unit_starts(folder, "word")).sum() > 0
    # against morphemes of the words as they stand in the text, one by one
    segmenter, hits, taken, borders = Segmenter(pieces), 0, 0, 0
    tokenizer = load_tokenizer(folder)
    for language, text in documents * 3:
        normal = tokenizer.normalizer.normalize_str(text)
        words = [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal)]
        cuts = trained.vocab.morpheme_cuts if language == "ko" else "none"
        for parts in morphemes_of(words, cuts):
            found = segmenter.segment([CUT.join(parts)])
            begins = dict(zip([0, *found.end[:-1].tolist()], found.ids.tolist(), strict=True))
            taken += sum(bool(starts[piece]) for place, piece in begins.items() if place)
            hits += sum(place in begins and bool(starts[begins[place]]) for place in found.cut)
            borders += len(found.cut)
    assert figures["num_borders"] == borders
    assert figures["precision"] == round(hits / taken, 6)
    assert figures["recall"] == round(hits / borders, 6)
