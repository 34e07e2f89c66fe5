"""The options of the corpus stage: sources, rules, deduplication, decontamination."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    create_model,
    model_serializer,
    model_validator,
)

from electrify.config.fields import (
    TABLES,
    Address,
    Count,
    Fraction,
    Section,
    check_language,
    check_texts,
)
from electrify.system.outcome import UserError

_Limit = Annotated[float, Field(ge=0.0)] | None
_LIMITS: dict[str, Any] = {
    name: (_Limit, Field(None, description=what)) for name, what in TABLES["quality"].items()
}
_Limits: Any = create_model("_Limits", __base__=Section, **_LIMITS)


class QualityLimits(_Limits):
    """Limits of the quality rules. The source's profile gives what is omitted. Fractions are from
    0 to 1."""


Language = Annotated[str, AfterValidator(check_language)]
Profile = Literal["none", "web", "comments"]
Kind = Literal["jsonl", "text", "csv", "tsv", "parquet", "wikipedia", "huggingface", "wet", "warc"]

DEFAULT_ID_FIELD = "id"
_OF_FIELDS: tuple[Kind, ...] = ("jsonl", "csv", "tsv", "parquet", "huggingface")
# options of a source that not every kind has
_KINDS_OF: dict[str, tuple[Kind, ...]] = {
    "split": ("huggingface",),
    "text_field": _OF_FIELDS,
    "id_field": _OF_FIELDS,
    "language_field": _OF_FIELDS,
    "columns": ("csv", "tsv"),
    "quoted": ("csv", "tsv"),
    "document": ("text",),
    "encoding": ("jsonl", "text", "csv", "tsv"),
}


def check_encoding(name: str) -> str:
    """The name itself; `ValueError` for one that is no codec of Python for text."""
    try:
        b"a\0".decode(name, "replace")
    except (LookupError, ValueError) as error:
        raise UserError(
            f"{name!r} is no text encoding; write a codec of Python, such as utf-8, cp949, euc-kr, "
            "shift_jis, gb18030, utf-16"
        ) from error
    return name


class Source(Section):
    """One input of the corpus stage: files of one kind and one language."""

    kind: Kind
    """Kind of the files: [kinds](corpus.md#sources)."""
    language: Annotated[
        str, AfterValidator(lambda code: code if code == "auto" else check_language(code))
    ]
    """Language of the texts. `auto`: each document has the one that it is written in."""
    other_languages: tuple[Language, ...] = ()
    """Languages that documents may also have. A document of which most is in one of them is
    cleaned by the rules of that language."""
    language_field: str | None = None
    """Field with the language of a row, `ko`, `kor` or `kor_Hang`. It is taken where it is one of
    the source's languages, else the text decides."""
    path: Annotated[Address, Field(min_length=1)]
    """A glob, local or an address (`gs://...`). `huggingface`: a hub name."""
    name: str | None = None
    """`source` of the documents without one. `huggingface`: the data set's subset."""
    split: str = "train"
    """`huggingface`: the split."""
    text_field: str = "text"
    """Field or column of the text; of `jsonl` also a [path](corpus.md#json), `document[].form`."""
    id_field: str | None = None
    """Field with the id of a row. If omitted, `id`, where there is one."""
    columns: tuple[str, ...] = ()
    """`csv`, `tsv`: names of the columns of a table without a header."""
    quoted: bool | None = None
    """`csv`, `tsv`: whether quotation marks enclose cells. If omitted, decided by row."""
    document: Literal["file", "line", "block"] = "block"
    """`text`: a document is a file, a line, or a block between blank lines."""
    encoding: Annotated[str, AfterValidator(check_encoding)] = "utf-8"
    """Encoding of the files, a codec of Python. A byte order mark goes before it."""
    profile: Profile = "none"
    """Quality rules of the documents: [profiles](corpus.md#rules)."""
    licence: str | None = None
    """Licence of the documents whose rows name none."""
    max_documents: Count | None = None
    """Only the first N documents of each file or data set."""

    @property
    def fields(self) -> list[str]:
        """Those that every row must have."""
        named = self.text_field, self.id_field, self.language_field
        return [field for field in named if field is not None]

    @model_validator(mode="after")
    def _options_fit_the_kind(self) -> Self:
        for option, kinds in _KINDS_OF.items():
            # a default is let through: reports print a config with all its values, to be read again
            is_default = getattr(self, option) == Source.model_fields[option].default
            if self.kind not in kinds and not is_default:
                raise UserError(
                    f"{option} = {getattr(self, option)!r} is not for kind = {self.kind!r}, only "
                    f"for {', '.join(kinds)}; leave it out"
                )
        if self.language == "auto" and (self.other_languages or self.kind == "wikipedia"):
            option = "other_languages" if self.other_languages else "kind = 'wikipedia'"
            raise UserError(
                f"language = 'auto' beside {option}: name the language that most texts are in"
            )
        if self.columns and self.text_field not in self.columns:
            names = ", ".join(self.columns)
            raise UserError(f"text_field = {self.text_field!r} is none of the columns {names}")
        return self


class CleanRules(Section):
    """What is changed in a text and what it must have; may differ by language."""

    repair_mojibake: bool = True
    """Repair text that was read in a wrong encoding."""
    remove_html: bool = True
    """Remove HTML tags, entities and scripts. The words stay."""
    remove_markdown: bool = True
    """Remove Markdown and wiki markup. The words stay."""
    normalise_hangul: bool = True
    """Give jamo, full-width letters and middle dots one form."""
    remove_urls: bool = True
    """Remove addresses of the web."""
    mask_pii: bool = True
    """Replace personal numbers and addresses by `<email>`, `<phone>` and so on."""
    remove_boilerplate: bool = True
    """Remove lines of notices: copyright, bylines, cookie banners, read-more."""
    max_repeats: Annotated[int, Field(ge=0, le=10_000)] = 4
    """How often a character or pair of syllables may occur in a row. 0: any number."""
    hanja: Literal["keep", "drop"] = "keep"
    """`drop` removes Hanja from Korean."""
    min_language_fraction: Fraction = 0.5
    """Fraction of a document's letters in lines of its language."""
    # KcELECTRA's limit. Of film reviews it drops one in eleven, and under 2 % of their characters
    min_characters: Annotated[int, Field(ge=0)] = 10
    """Number of characters of the cleaned text."""
    quality: QualityLimits = QualityLimits()


class LanguageRules(CleanRules):
    """The rules of one language. What is omitted is as in `[clean]`."""

    @model_serializer(mode="wrap")
    def _as_written(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: v for name, v in serialize(self).items() if name in self.model_fields_set}


class LineDedupConfig(Section):
    """Lines that occur in many documents, such as menus and notices."""

    enabled: bool = True
    """Remove repeated lines."""
    min_characters: Count = 20
    """Shorter lines stay."""
    max_documents: Count = 20
    """The line stays in its first N documents."""


class NearDedupConfig(Section):
    """Documents that are nearly equal, by MinHash."""

    enabled: bool = True
    """Remove near duplicates."""
    similarity: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.7
    """Jaccard similarity of shingles from which documents are near duplicates."""
    num_bands: Annotated[int, Field(ge=1, le=64)] = 25
    """Number of MinHash bands."""
    rows_per_band: Annotated[int, Field(ge=1, le=32)] = 5
    """Hashes of a band. Documents that share a band are compared."""


class CleanConfig(CleanRules):
    """Raw text to documents (pipeline/)."""

    sources: Annotated[tuple[Source, ...], Field(min_length=1)]
    language: Annotated[dict[Language, LanguageRules], Field(default_factory=dict)]
    extra_rules: tuple[Annotated[str, Field(pattern=r"^.+\.py:[A-Za-z_]\w*$")], ...] = ()
    """Your own rules, `file.py:function`: from a text and its language to the text, or None to
    remove the document."""
    exact_dedup: bool = True
    """Remove documents that are equal but for case and white space."""
    line_dedup: LineDedupConfig = LineDedupConfig()
    near_dedup: NearDedupConfig = NearDedupConfig()
    decontaminate_against: tuple[Annotated[str, AfterValidator(check_texts)], ...] | None = None
    """Suites, tasks or files whose dev and test texts are removed, such as `["klue",
    "data/mine.jsonl", "tasks/*/test.csv"]`. If omitted, the rows that `[evaluate]` scores. `[]`:
    none."""
    decontaminate_data_dir: str | None = None
    """Folder of these tasks, or `hub`. If omitted, `evaluate.data_dir`."""
    max_line_bytes: Count = 20_000_000
    """Longer lines are counted as malformed."""
    damaged_files: Literal["stop", "keep"] = "stop"
    """`stop` at a damaged file, or `keep` its readable rows."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Of all sources, in the order of their codes; `multilingual` of one that names none."""
        codes = {code for s in self.sources for code in (s.language, *s.other_languages)}
        return tuple(sorted({"multilingual" if code == "auto" else code for code in codes}))

    _extra_code: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def extra_code(self) -> dict[str, str]:
        """The code of `extra_rules` by path, which goes to the workers with the config."""
        return self._extra_code

    def with_code(self, code: dict[str, str]) -> Self:
        copy = self.model_copy()
        copy._extra_code = code
        return copy

    def rules_for(self, language: str) -> CleanRules:
        common = self.model_dump(include=set(CleanRules.model_fields), exclude_none=True)
        given = self.language.get(language)
        own = given.model_dump(exclude_none=True) if given else {}
        return CleanRules(**common | own | {"quality": common["quality"] | own.get("quality", {})})
