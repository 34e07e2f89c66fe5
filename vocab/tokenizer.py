"""The tokenizer as files: opened by `tokenizers` and by `transformers.AutoTokenizer` alike.

The normaliser contract: the `tokenizer.json` that encodes the corpus is the one that is trained on
and exported; its hash goes with the shards and the model. Tokenizers of others are read too: to
extend them, and to compare with.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, processors
from tokenizers.models import WordPiece

from electrify.stage.folder import file_sha256, write_json, write_text
from electrify.storage.files import read_json
from electrify.system.outcome import UserError, panics_as_errors
from vocab.pretokenize import MASK_WORDS, PlainWords, normalizer, pre_tokenizer
from vocab.segment import PREFIX, SPECIAL_TOKENS, isolated_pattern, wordpiece_model

TOKENIZER_FILE = "tokenizer.json"
PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS


def build_tokenizer(
    pieces: Sequence[str],
    lowercase: bool,
    additional_special_tokens: Sequence[str] = (),
) -> Any:
    """A `tokenizers.Tokenizer` over the pieces, whose ids are their positions.

    Those of them that are `MASK_WORDS` are never split. A run of characters that no piece has is
    [UNK]; in BERT one of them makes its whole word [UNK]. A long word is cut; in BERT it is [UNK].
    """
    assert set(pieces) >= {*SPECIAL_TOKENS, *additional_special_tokens}
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    assert len(vocabulary) == len(pieces), "a piece stands twice"
    tokenizer = Tokenizer(wordpiece_model(vocabulary))
    tokenizer.normalizer = normalizer(lowercase)
    tokenizer.pre_tokenizer = pre_tokenizer(_isolated(pieces))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS}:0 $A:0 {SEP}:0",
        pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
        special_tokens=[(CLS, vocabulary[CLS]), (SEP, vocabulary[SEP])],
    )
    tokenizer.decoder = decoders.WordPiece(prefix=PREFIX, cleanup=False)
    special = (*SPECIAL_TOKENS, *additional_special_tokens)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    words = [word for word in MASK_WORDS if word in vocabulary]
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    return tokenizer


def _isolated(pieces: Iterable[str]) -> str:
    return isolated_pattern(p for p in pieces if not is_special(p) and p not in MASK_WORDS)


def plain_words_of(tokenizer: Any) -> PlainWords:
    """For a tokenizer with the steps of this project; `ValueError` if it has others."""
    steps = _state(tokenizer.normalizer), _state(tokenizer.pre_tokenizer)
    isolated = _isolated(tokenizer.get_vocab(with_added_tokens=False))
    for lowercase in (False, True):
        ours = normalizer(lowercase), pre_tokenizer(isolated)
        if steps == tuple(map(_state, ours)):
            return PlainWords(lowercase)
    raise UserError(
        "this tokenizer.json has other steps before WordPiece than this version writes; make it "
        "again: electrify train-vocab CONFIG --overwrite"
    )


def _state(step: Any) -> bytes | None:
    state: bytes | None = None if step is None else step.__getstate__()
    return state


def save_tokenizer(
    tokenizer: Any, folder: Path, lowercase: bool, additional_special_tokens: Sequence[str] = ()
) -> None:
    write_text(folder / TOKENIZER_FILE, tokenizer.to_str(pretty=True) + "\n")
    write_text(folder / "vocab.txt", "".join(f"{piece}\n" for piece in pieces_of(tokenizer)))
    config = {
        # This class takes tokenizer.json as it is, in transformers 4 and 5. BertTokenizer and
        # ElectraTokenizer of 5 would build a normaliser of their own, without NFC.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": PAD,
        "unk_token": UNK,
        "cls_token": CLS,
        "sep_token": SEP,
        "mask_token": MASK,
        "additional_special_tokens": list(additional_special_tokens),
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        # for who opens the folder with BertTokenizer nevertheless
        "do_lower_case": lowercase,
        "strip_accents": False,
        "tokenize_chinese_chars": True,
    }
    write_json(folder / "tokenizer_config.json", config)


def load_tokenizer(folder: Path) -> Any:
    """The `tokenizers.Tokenizer` of a vocab folder; `ValueError` if there is none or it is damaged.

    Text such as `[MASK]` becomes the special token; to encode a corpus, where it is mere text, set
    `encode_special_tokens = True` on the result.
    """
    path = folder / TOKENIZER_FILE
    if not path.is_file():
        raise UserError(f"no {path}; run first: electrify train-vocab CONFIG")
    try:
        return read_tokenizer(path)
    except ValueError as error:
        again = "make it again: electrify train-vocab CONFIG --overwrite"
        raise UserError(f"{error}; {again}") from None


def read_tokenizer(path: Path) -> Any:
    """The `tokenizers.Tokenizer` of a tokenizer.json; `ValueError` if it is damaged."""
    try:
        with panics_as_errors():
            return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise UserError(f"{path} is damaged ({error})") from None


def is_special(piece: str) -> bool:
    """Whether the piece is a special token or an unused slot, by its spelling: [SEP], [unused7].

    Brackets are always words of their own, so no piece that was learnt looks like this.
    """
    return len(piece) > 2 and piece[0] == "[" and piece[-1] == "]"


def pieces_of(tokenizer: Any) -> list[str]:
    """The pieces of a `tokenizers.Tokenizer`, by id."""
    return [tokenizer.id_to_token(index) for index in range(tokenizer.get_vocab_size())]


def tokenizer_sha256(folder: Path) -> str:
    """SHA-256 of tokenizer.json: equal hashes mean equal ids for every text."""
    return file_sha256(folder / TOKENIZER_FILE)


def read_pieces(path: Path) -> list[str]:
    """The pieces of a WordPiece vocabulary by id, from a tokenizer folder or a vocab.txt.

    `ValueError` if there is none, if a piece stands twice or an id is missing, or if one of BERT's
    special tokens is not there.
    """
    pieces = _from_json(path / TOKENIZER_FILE) or _from_text(path)
    if len(set(pieces)) < len(pieces):
        [(twice, _)] = Counter(pieces).most_common(1)
        raise UserError(f"{path}: the piece {twice!r} is there twice; give a valid vocabulary")
    if missing := [token for token in SPECIAL_TOKENS if token not in pieces]:
        raise UserError(
            f"{path}: no {', '.join(missing)} among its {len(pieces)} pieces, so it is no BERT or "
            "ELECTRA vocabulary; give another folder or vocab.txt"
        )
    return pieces


def is_lowercase(path: Path) -> bool | None:
    """Whether the vocabulary is for lower-cased text; None if nothing beside it says so."""
    said = _beside(path, "tokenizer_config.json").get("do_lower_case")
    steps = _beside(path, TOKENIZER_FILE).get("normalizer") or {}  # BERT's, or others
    lowercase = steps.get("lowercase") if said is None else said
    return lowercase if isinstance(lowercase, bool) else None


def _beside(path: Path, name: str) -> dict[str, Any]:
    """A JSON file of a vocabulary's folder; empty if there is none."""
    file = (path if path.is_dir() else path.parent) / name
    options = read_json(file) if file.is_file() else None
    return options if isinstance(options, dict) else {}


def check_extendable(path: Path, lowercase: bool) -> list[str]:
    """The pieces of `vocab.extend`; `ValueError` if its case is not the config's."""
    theirs = is_lowercase(path)
    if theirs is not None and theirs != lowercase:
        raise UserError(
            f"vocab.extend = {str(path)!r} has do_lower_case = {theirs}; "
            f"set vocab.lowercase = {str(theirs).lower()}"
        )
    return read_pieces(path)


def _from_text(path: Path) -> list[str]:
    file = path / "vocab.txt" if path.is_dir() else path
    if not file.is_file():
        raise UserError(f"no vocabulary at {path}: give a folder with vocab.txt, or the file")
    try:
        text = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8: {error}; give a vocabulary of text") from None
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]


def _from_json(file: Path) -> list[str]:
    if not file.is_file():
        return []
    tokenizer = read_tokenizer(file)
    if not isinstance(tokenizer.model, WordPiece):
        kind = type(tokenizer.model).__name__
        raise UserError(f"{file} is a {kind} tokenizer; only WordPiece can be read here")
    ids = tokenizer.get_vocab()  # with the tokens that `transformers` added
    pieces = sorted(ids, key=ids.__getitem__)
    if [ids[piece] for piece in pieces] != list(range(len(pieces))):
        raise UserError(f"{file}: its ids are not 0 to {len(pieces) - 1}")
    return pieces
