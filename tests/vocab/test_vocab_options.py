"""Options of the vocabulary that reach across modules."""

import json
from pathlib import Path

import pytest

from electrify.config.load import load_config
from electrify.config.vocab import VocabConfig
from vocab.pretokenize import MASK_WORDS, mask_words_of
from vocab.train import train_vocab, training_of
from vocab.wordpiece.merges import SPECIAL_TOKENS


def corpus(documents, ending=""):
    return [(lang, f"{text} {n}.{ending}") for n in range(20) for lang, text in documents]


def test_masks_have_pieces_only_where_a_language_is_masked(make_run, documents):
    config = make_run(corpus(documents))
    assert mask_words_of(config) == MASK_WORDS
    path = Path(config.output_dir) / "test.toml"
    assert mask_words_of(load_config(path, ["clean.mask_pii=false"])) == ()
    only_korean = ["clean.mask_pii=false", "clean.language.ko.mask_pii=true"]
    assert mask_words_of(load_config(path, only_korean)) == MASK_WORDS


def test_an_old_vocabulary_is_kept_or_extended_on_other_text(
    make_run_in, documents, tmp_path, caplog
):
    english = [(language, text) for language, text in corpus(documents) if language == "en"]
    sizes = {"old": 150, "kept": 150, "extended": 210}
    folders = {name: tmp_path / name for name in sizes}
    for name, size in sizes.items():
        # the old one without pieces for masks of personal data, which kept ones must not need
        options = [f"vocab.size={size}", f"clean.mask_pii={str(name != 'old').lower()}"]
        if name != "old":
            options.append(f"vocab.extend={folders['old'] / 'vocab'}")
        make_run_in(folders[name], english if name == "old" else corpus(documents))
        caplog.clear()
        train_vocab(load_config(folders[name] / "test.toml", options), [], overwrite=False)
        assert ("ko text of test" in caplog.text) == (name != "old")
    old, kept, extended = (
        (folder / "vocab" / "tokenizer.json").read_bytes() for folder in folders.values()
    )
    assert kept == old
    ids = {
        name: json.loads(text)["model"]["vocab"]
        for name, text in (("old", old), ("extended", extended))
    }
    assert ids["old"].items() <= ids["extended"].items()
    assert len(ids["extended"]) == 210
    assert set(MASK_WORDS) <= ids["extended"].keys() - ids["old"].keys()


@pytest.mark.parametrize(
    ("size", "tokens", "message"),
    [
        (99, (), r"size = 99 is too small for 100 pieces .* set it to 100 .*size = 100 keeps"),
        (100, ("[USER]",), r"size = 100 is too small for 100 pieces .* and 1 .* set it to 101 or"),
    ],
)
def test_a_size_without_room_for_the_old_vocabulary_is_refused(tmp_path, size, tokens, message):
    path = tmp_path / "vocab.txt"
    pieces = [*SPECIAL_TOKENS, *(f"a{number}" for number in range(95))]
    path.write_text("\n".join(pieces), encoding="utf-8")
    options = VocabConfig(extend=str(path), size=size, additional_special_tokens=tokens)
    with pytest.raises(ValueError, match=message):
        training_of(options)
