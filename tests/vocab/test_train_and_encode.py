import json
import shutil
from pathlib import Path

import pytest

from electrify.config.load import load_config
from pipeline.documents import document_paths
from tests.vocab.conftest import make_run_in
from tests.vocab.shard_files import read_all
from vocab.encode import check_sources, encode, split_of
from vocab.pretokenize import MASK_WORDS
from vocab.shards.files import SPLITS, TokenShards
from vocab.tokenizer import load_tokenizer, tokenizer_sha256
from vocab.train import train_vocab

MANY = 15  # times the sentences, each time another text


def tokens_of(shards, split, language):
    return read_all(shards.stream(split, language))


def corpus(documents, times=MANY):
    return [(lang, f"{text} {n}.") for n in range(times) for lang, text in documents]


def run(config, options=()):
    train_vocab(config, options, overwrite=False)
    encode(config, options, overwrite=False)
    return Path(config.output_dir)


@pytest.fixture(scope="module")
def finished(documents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    return run(make_run_in(folder, corpus(documents)))


def test_shards_are_the_encoded_documents_in_order(finished, documents):
    tokenizer = load_tokenizer(finished / "vocab")
    shards = TokenShards(finished / "shards")
    assert shards.tokenizer_sha256 == tokenizer_sha256(finished / "vocab")
    assert shards.vocab_size == 600
    assert shards.special_token_ids["[SEP]"] == 3
    texts = corpus(documents)
    in_files = texts[0::2] + texts[1::2]  # as `write_pairs` spreads them over two files
    for split in ("train", "valid"):
        for language in ("en", "ko"):
            expected = [
                token
                for lang, text in in_files
                if lang == language and split_of(text, 0.2) == split
                for token in [*tokenizer.encode(text, add_special_tokens=False).ids, 3]
            ]
            assert tokens_of(shards, split, language) == expected
        sizes = [s["num_tokens"] for s in shards.index["splits"][split]["ko"]["shards"]]
        assert all(size >= 1024 for size in sizes[:-1])


def test_repeated_documents_stand_in_the_train_split_once_a_pass(finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy", ignore=shutil.ignore_patterns("shards"))
    options = [f"output_dir='{copy}'", "encode.repeats.test=3"]
    encode(load_config(copy / "test.toml", options), [], overwrite=False)
    once, thrice = (
        {split: tokens_of(TokenShards(folder / "shards"), split, "ko") for split in SPLITS}
        for folder in (finished, copy)
    )
    assert thrice == {"train": 3 * once["train"], "valid": once["valid"]}
    counts = TokenShards(copy / "shards").index["splits"]
    for language, of in counts["train"].items():
        assert of["num_documents"] * 2 == of["num_document_copies"] * 3, language
    config = load_config(finished / "test.toml", ["encode.repeats.tset=2"])
    with pytest.raises(ValueError, match=r"'tset'.*test"):
        check_sources(config.encode.repeats, document_paths(finished / "clean"))


def test_odd_documents(documents, tmp_path):
    """Special tokens are mere text there, and each mask of personal data is one piece."""
    texts = [(lang, f"[MASK] {text} [SEP] <email>로") for lang, text in corpus(documents, 10)]
    odd = [("ko", text) for text in ("\x00\x07", "[MASK]", " \n \n")]
    folder = run(make_run_in(tmp_path, texts + odd))
    shards = TokenShards(folder / "shards")
    ko = [split["ko"] for split in shards.index["splits"].values()]
    assert sum(of["num_documents_without_tokens"] for of in ko) == 2
    tokenizer = load_tokenizer(folder / "vocab")
    tokens = []
    for split in SPLITS:
        for language in shards.languages(split):
            tokens += tokens_of(shards, split, language)
    assert tokens.count(3) == len(texts) + 1
    assert not {0, 2, 4} & set(tokens)
    assert tokens.count(tokenizer.token_to_id("<email>")) == len(texts)
    report = json.loads((folder / "vocab" / "report.json").read_text(encoding="utf-8"))
    assert not {"[MASK]", "[SEP]"} & {p for of in report["samples"] for p in of["pieces"]}


@pytest.mark.slow
def test_a_second_run_in_several_processes_makes_the_same_bytes(finished, documents, tmp_path):
    workers = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    second = run(make_run_in(tmp_path, corpus(documents)), workers)
    for stage in ("vocab", "shards"):
        for path in (finished / stage).rglob("*"):
            if path.is_file() and path.name != "manifest.json":  # which holds times
                other = second / path.relative_to(finished)
                assert path.read_bytes() == other.read_bytes(), path


def test_equal_texts_fall_into_one_split_and_shares_hold():
    valid = [text for text in map(str, range(20_000)) if split_of(text, 0.1) == "valid"]
    assert len(valid) / 20_000 == pytest.approx(0.1, abs=0.01)
    # a larger share only adds to the valid texts
    assert {split_of(text, 0.2) for text in valid} == {"valid"}


def test_an_old_vocabulary_is_extended_on_other_text(documents, tmp_path, caplog):
    english = [(language, text) for language, text in corpus(documents, 20) if language == "en"]
    sizes = {"old": 150, "extended": 210}
    folders = {name: tmp_path / name for name in sizes}
    for name, size in sizes.items():
        # the old one without pieces for masks of personal data
        options = [f"vocab.size={size}", f"clean.mask_pii={str(name != 'old').lower()}"]
        if name != "old":
            options.append(f"vocab.extend={folders['old'] / 'vocab'}")
        make_run_in(folders[name], english if name == "old" else corpus(documents, 20))
        caplog.clear()
        train_vocab(load_config(folders[name] / "test.toml", options), [], overwrite=False)
        assert ("ko text of test" in caplog.text) == (name != "old")
    old, extended = ((of / "vocab" / "tokenizer.json").read_bytes() for of in folders.values())
    before, after = (json.loads(text)["model"]["vocab"] for text in (old, extended))
    assert before.items() <= after.items()
    assert len(after) == 210
    report = json.loads((folders["extended"] / "vocab/report.json").read_text(encoding="utf-8"))
    added = after.keys() - before.keys() - {*MASK_WORDS}
    assert report["added_pieces"] == sorted(added, key=after.get)
    assert all("pieces_per_word_before" in row for row in report["languages"].values())
    assert set(MASK_WORDS) <= after.keys() - before.keys()


def test_an_old_vocabulary_grows_by_itself_where_much_of_the_text_is_unknown_in_it(
    documents, tmp_path
):
    everything = corpus(documents, 20)
    english = [(language, text) for language, text in everything if language == "en"]
    options, reports = ["vocab.size=150"], []
    for folder, texts in (("old", english), ("same", english), ("other", everything)):
        make_run_in(tmp_path / folder, texts)
        config = load_config(tmp_path / folder / "test.toml", options)
        train_vocab(config, [], overwrite=False)
        reports.append(json.loads((tmp_path / folder / "vocab/report.json").read_text("utf-8")))
        options = ["vocab.size='auto'", f"vocab.extend={tmp_path / 'old' / 'vocab'}"]
    assert [report["vocab_size"] for report in reports] == [150, 150, 200]


def test_an_old_vocabulary_is_kept_without_morphemes(finished, documents, tmp_path, monkeypatch):
    def split(*arguments):
        raise AssertionError("words are cut into morphemes, of which nothing is learnt")

    monkeypatch.setattr("vocab.word_counts.morphemes_of", split)
    make_run_in(tmp_path, corpus(documents, 20))
    options = ["vocab.size='auto'", f"vocab.extend={finished / 'vocab'}"]
    train_vocab(load_config(tmp_path / "test.toml", options), [], overwrite=False)
    kept, old = (path / "vocab" / "tokenizer.json" for path in (tmp_path, finished))
    assert kept.read_bytes() == old.read_bytes()
