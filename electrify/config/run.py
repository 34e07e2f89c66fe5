"""Every option of a run, in one place, as frozen models; load.py reads the TOML."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from electrify.config.clean import CleanConfig
from electrify.config.evaluate import EvaluateConfig
from electrify.config.fields import Address, LocalPath, Section, runner_name
from electrify.config.pretrain import PretrainConfig
from electrify.config.vocab import EncodeConfig, VocabConfig
from electrify.system.outcome import UserError


class BeamConfig(Section):
    """Where the stages that use Beam work."""

    runner: Annotated[str, AfterValidator(runner_name)] = "local"
    """`local` or a Beam runner. Its options follow `--` on the command line."""
    work_dir: Address | None = None
    """Folder or address that workers share. If omitted, in the output folder."""


class OnnxConfig(Section):
    """The exported networks as ONNX files: `electrify export --onnx`."""

    force: bool = False
    """Write int8 that loses too much all the same."""


class ExportConfig(Section):
    """The last checkpoint to `transformers` folders."""

    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """Type of the weights in the files."""
    licence: str | None = None
    """Licence of the weights as the hub writes it, such as `cc-by-sa-4.0`: the model card names it.
    What it may be follows from the text and the initial model."""
    onnx: OnnxConfig = OnnxConfig()


class EvaluationRun(Section):
    """What scoring or converting an encoder from elsewhere needs of a run."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    """Name of the run: lower-case letters, digits, `.`, `_` and `-`."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of everything random."""
    output_dir: Annotated[LocalPath, Field(min_length=1)]
    """Folder of the run or an address such as `gs://bucket/run`."""
    export: ExportConfig = ExportConfig()
    evaluate: EvaluateConfig = EvaluateConfig()

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        protocol, separator, path = self.output_dir.partition("://")
        if separator and not (protocol and path.strip("/")):
            raise UserError(
                f"output_dir = {self.output_dir!r}: an address is written like gs://bucket/run"
            )
        return self


class RunConfig(EvaluationRun):
    """A whole run, as one TOML file states it."""

    beam: BeamConfig = BeamConfig()
    clean: CleanConfig
    vocab: VocabConfig = VocabConfig()
    encode: EncodeConfig = EncodeConfig()
    pretrain: PretrainConfig

    @property
    def removes_scored_rows(self) -> bool:
        """Whether documents are compared with the rows of the tasks that are scored."""
        is_scored = self.evaluate.has_tasks or bool(self.evaluate.noise_suites)
        return self.clean.decontaminate_against is None and is_scored

    @model_validator(mode="after")
    def _mixed_languages_are_there(self) -> Self:
        sources = self.clean.sources
        if any(source.language == "auto" or source.language_field for source in sources):
            return self  # the shards will say which there are
        known = self.clean.languages
        mixtures = [self.pretrain.mixture, *(phase.mixture for phase in self.pretrain.curriculum)]
        for mixture in filter(None, mixtures):
            mixture.check_names(known, "no source has")
        return self
