"""Options of the vocabulary that reach across modules."""

import json
from pathlib import Path

import pytest

from electrify.config_file import load_config
from electrify.config_vocab import VocabConfig
from vocab.encode import encode
from vocab.mask_words import MASK_WORDS, mask_words_of
from vocab.shards import TokenShards
from vocab.tokenizer import load_tokenizer
from vocab.train import train_vocab, training_of


def corpus(documents, ending=""):
    return [(lang, f"{text} {n}.{ending}") for n in range(20) for lang, text in documents]


def test_masks_in_documents_are_one_piece_from_end_to_end(make_run, documents):
    config = make_run(corpus(documents, " 문의:<email>로 <phone>"))
    train_vocab(config, [], overwrite=False)
    encode(config, [], overwrite=False)
    folder = Path(config.output_dir)
    tokenizer = load_tokenizer(folder / "vocab")
    assert tokenizer.get_vocab_size() == 600
    stream = TokenShards(folder / "shards").stream("train")
    tokens = stream.read(0, stream.num_tokens).tolist()
    for word in ("<email>", "<phone>"):
        assert tokens.count(tokenizer.token_to_id(word)) == stream.num_documents


def test_masks_have_pieces_only_where_a_language_is_masked(make_run, documents):
    config = make_run(corpus(documents))
    assert mask_words_of(config) == MASK_WORDS
    path = Path(config.output_dir) / "test.toml"
    assert mask_words_of(load_config(path, ["clean.mask_pii=false"])) == ()
    only_korean = ["clean.mask_pii=false", "clean.language.ko.mask_pii=true"]
    assert mask_words_of(load_config(path, only_korean)) == MASK_WORDS


@pytest.mark.parametrize(("hangul", "num"), [("seen", 0), ("common", 2350), ("all", 11172)])
def test_syllables_are_covered_as_asked(hangul, num):
    assert len(training_of(VocabConfig(hangul=hangul)).extra_characters) == num


def test_a_changed_reference_or_span_file_makes_the_stage_again(make_run, documents, tmp_path):
    spans = tmp_path / "spans" / "klue-ner-dev.tsv"
    spans.parent.mkdir()
    spans.write_text("가\tB-PS\n나\tO\n\n", encoding="utf-8")
    config = make_run(corpus(documents), vocab=f'span_data_dir = "{spans.parent}"')
    train_vocab(config, [], overwrite=False)
    report = json.loads((Path(config.output_dir) / "vocab" / "report.json").read_text())
    assert report["compared"]
    train_vocab(config, [], overwrite=False)  # done already
    spans.write_text("다\tB-PS\n나\tO\n\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"inputs vocab\.span_data_dir changed"):
        train_vocab(config, [], overwrite=False)
