import hashlib
import json
import shutil
from pathlib import Path

import pytest

from electrify.config.load import load_config
from pipeline.documents import document_paths
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


def digests(folder):
    """SHA-256 of every file, without the manifest, which holds times."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


@pytest.fixture(scope="module")
def finished(make_run_in, documents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    return run(make_run_in(folder, corpus(documents)))


def again(finished, tmp_path, *options):
    """The config of a copy of the finished run, which has yet to be encoded, with other options."""
    folder = shutil.copytree(finished, tmp_path / "copy", ignore=shutil.ignore_patterns("shards"))
    return load_config(folder / "test.toml", [f"output_dir='{folder}'", *options])


def test_the_folders_hold_what_they_promise(finished):
    reports = {"report.json", "report.html"}
    of_tokenizer = {"tokenizer.json", "tokenizer_config.json", "vocab.txt"}
    assert set(digests(finished / "vocab")) == reports | of_tokenizer
    folders = {Path(name).parent.as_posix() for name in digests(finished / "shards")}
    assert folders == {".", "train/en", "train/ko", "valid/en", "valid/ko"}
    report = json.loads((finished / "vocab" / "report.json").read_text(encoding="utf-8"))
    assert report["vocab_size"] == 600
    assert report["languages"]["ko"]["unk_piece_fraction"] == 0
    assert {sample["language"] for sample in report["samples"]} == {"ko", "en"}


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
    encode(again(finished, tmp_path, "encode.repeats.test=3"), [], overwrite=False)
    once, thrice = (
        {split: tokens_of(TokenShards(folder / "shards"), split, "ko") for split in SPLITS}
        for folder in (finished, tmp_path / "copy")
    )
    assert thrice == {"train": 3 * once["train"], "valid": once["valid"]}
    config = load_config(finished / "test.toml", ["encode.repeats.tset=2"])
    with pytest.raises(ValueError, match=r"'tset'.*test"):
        check_sources(config.encode.repeats, document_paths(finished / "clean"))


def test_odd_documents(make_run, documents):
    """Special tokens are mere text there, and each mask of personal data is one piece."""
    odd = ["\x00\x07", "가", "가" * 10_000, "[MASK]", " \n \n"]
    texts = [(lang, f"[MASK] {text} [SEP] <email>로") for lang, text in corpus(documents, 10)]
    folder = run(make_run(texts + [("ko", text) for text in odd]))
    shards = TokenShards(folder / "shards")
    ko = [split["ko"] for split in shards.index["splits"].values()]
    assert sum(of["num_documents_without_tokens"] for of in ko) == 2
    num_korean = sum(language == "ko" for language, _ in texts)
    assert sum(of["num_documents"] for of in ko) == num_korean + 3
    assert sum(of["num_unknown_tokens"] for of in ko) == 0  # the word of 10,000 characters is cut
    tokenizer = load_tokenizer(folder / "vocab")
    assert tokenizer.get_vocab_size() == 600
    tokens = []
    for split in ("train", "valid"):
        for language in shards.languages(split):
            tokens += tokens_of(shards, split, language)
    assert tokens.count(3) == len(texts) + 3
    assert not {0, 2, 4} & set(tokens)
    assert tokens.count(tokenizer.token_to_id("<email>")) == len(texts)
    report = json.loads((folder / "vocab" / "report.json").read_text(encoding="utf-8"))
    assert not {"[MASK]", "[SEP]"} & {p for of in report["samples"] for p in of["pieces"]}


@pytest.mark.slow
def test_a_second_run_in_several_processes_makes_the_same_bytes(finished, make_run, documents):
    workers = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    second = run(make_run(corpus(documents)), workers)
    for stage in ("vocab", "shards"):
        assert digests(finished / stage) == digests(second / stage)


def test_equal_texts_fall_into_one_split_and_shares_hold():
    splits = [split_of(f"text {number}", 0.1) for number in range(20_000)]
    assert splits.count("valid") / 20_000 == pytest.approx(0.1, abs=0.01)
    assert splits[:100] == [split_of(f"text {number}", 0.1) for number in range(100)]
    # a larger share only adds to the valid texts
    valid = [f"text {number}" for number, split in enumerate(splits) if split == "valid"]
    assert {split_of(text, 0.2) for text in valid} == {"valid"}


def test_an_old_vocabulary_is_extended_on_other_text(make_run_in, documents, tmp_path, caplog):
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
