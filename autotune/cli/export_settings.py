"""`pega-tune export --format` for the settings that engines have today."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pega_tune.autotune.cli.shapes_file import read_traffic
from pega_tune.errors import UsageError

if TYPE_CHECKING:
    from pega_tune.autotune.cli.export_formats import Exported, Exporter, ExportRequest
    from pega_tune.autotune.cli.session import Session
    from pega_tune.autotune.cli.stored import Named
    from pega_tune.profiles.store.records import BlockRecord

SETTINGS_FORMATS: Final = ("pegaflow", "vllm", "sglang", "flexkv", "tokenspeed")
"""The names of `pega_tune.autotune.settings.engines.ENGINES`."""


def require_mix(form: str, ids: Sequence[str], runtime: str | None, shapes: Path | None) -> None:
    """Refuses what makes no sense for a format.

    Raises:
        UsageError: as said.
    """
    if form not in SETTINGS_FORMATS:
        return
    if shapes is None:
        raise UsageError(
            f"{form} has one setting for all transfers: say which it makes",
            "add --shapes FILE; `pega-tune shape` prints the lines of such a file",
        )
    if len(ids) > 1:
        raise UsageError("settings are of one device", "name one profile")
    if runtime is not None:
        raise UsageError("what the engine can run follows from the format", "leave --runtime out")


def idle_blocks(session: Session, form: str, named: Named) -> tuple[BlockRecord, ...]:
    """The blocks that a format needs beside the profile; none of a sweep that was measured elsewhere."""
    from pega_tune.autotune.sweep.keys import is_idle

    if form not in SETTINGS_FORMATS or named.shipped:
        return ()
    sweep_id = named.record.sweep_id
    with session.read_store() as store:
        return tuple(store.blocks(sweep_id, frozenset(filter(is_idle, store.finished_blocks(sweep_id)))))


def settings_exporter(name: str) -> Exporter:
    """The format of an engine."""

    def export(request: ExportRequest) -> Exported:
        from pega_tune.autotune.cli.export_formats import Exported
        from pega_tune.autotune.settings.advice import Known, advise
        from pega_tune.autotune.settings.engines import ENGINES
        from pega_tune.autotune.settings.wording import document_of, text_of

        assert request.shapes is not None
        known = Known(request.bundles[0].stored, request.blocks, read_traffic(request.shapes))
        advice = advise(ENGINES[name], known)
        return Exported(text_of(ENGINES[name], advice, known), document_of(ENGINES[name], advice, known))

    return export
