"""The names of Beam's runners; `local` is this machine, in one process or one a core."""

from electrify.system.outcome import nearest

# those of apache_beam's StandardOptions
RUNNERS = (
    "BundleBasedDirectRunner",
    "DataflowRunner",
    "DirectRunner",
    "FlinkRunner",
    "FnApiRunner",
    "InteractiveRunner",
    "KafkaStreamsRunner",
    "PortableRunner",
    "PrismRunner",
    "SparkRunner",
    "SwitchingDirectRunner",
    "TestDataflowRunner",
    "TestDirectRunner",
)
_BY_NAME = {"local": "local"} | {
    key: name for name in RUNNERS for key in (name.lower(), name.lower().removesuffix("runner"))
}


def runner_name(name: str) -> str:
    """A runner as Beam writes it; a class with its module stays as it is.

    `ValueError` for another name, with the nearest.
    """
    if name.lower() in _BY_NAME:
        return _BY_NAME[name.lower()]
    if "." in name:
        return name
    raise ValueError(
        f"{name!r} is no Beam runner{nearest(name, ('local', *RUNNERS))} A runner of your own is "
        "written with its module"
    )
