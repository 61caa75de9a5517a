"""What `pega-tune export` can write beside bundles, by name.

A format is a function from a request to a text. What it needs is imported when it is used: the program starts fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from pega_tune.autotune.cli.export_settings import SETTINGS_FORMATS, settings_exporter
from pega_tune.errors import UsageError
from pega_tune.profiles.policy.terms import Runtime

if TYPE_CHECKING:
    from pega_tune.profiles.bundle.document import Bundle
    from pega_tune.profiles.store.records import BlockRecord

BUNDLE_FORMAT = "bundle"


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What to write.

    Attributes:
        bundles: profiles, at least one, in the order that they were named in.
        runtime: which plans the engine can run; None if the user did not say.
        shapes: file of the transfers to answer for; None if the user named none.
        blocks: measured without decode by the sweep of the first profile, where a format needs them and has them.
    """

    bundles: tuple[Bundle, ...]
    runtime: Runtime | None = None
    shapes: Path | None = None
    blocks: tuple[BlockRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Exported:
    """What is written.

    Attributes:
        text: of the file, with a line break at its end.
        document: what `--json` shows beside the text.
    """

    text: str
    document: Mapping[str, Any] = field(default_factory=dict)


Exporter: TypeAlias = Callable[[ExportRequest], Exported]


def exporter(name: str) -> Exporter:
    """The format of that name.

    Raises:
        UsageError: there is none; the hint lists those there are.
    """
    if name not in EXPORTERS:
        raise UsageError(f"there is no format {name!r}", f"choose one of {', '.join(FORMATS)}")
    return EXPORTERS[name]


def _code(language: str) -> Exporter:
    def export(request: ExportRequest) -> Exported:
        from pega_tune.profiles.emit.languages import emit

        if request.shapes is not None:
            raise UsageError(f"{language} answers for every shape", "leave --shapes out")
        return Exported(emit(language, [bundle.stored for bundle in request.bundles], request.runtime))

    return export


def _configmap(request: ExportRequest) -> Exported:
    from pega_tune.profiles.emit.configmap import emit_configmap

    if request.shapes is not None or request.runtime is not None:
        raise UsageError("a ConfigMap holds whole profiles", "leave --shapes and --runtime out")
    return Exported(emit_configmap(request.bundles))


EXPORTERS: Mapping[str, Exporter] = MappingProxyType(
    {
        "python": _code("python"),
        "rust": _code("rust"),
        "c": _code("c"),
        "configmap": _configmap,
        **{name: settings_exporter(name) for name in SETTINGS_FORMATS},
    }
)
"""Formats by name, bundles apart."""

FORMATS = (BUNDLE_FORMAT, *EXPORTERS)
