"""`pega-tune verify`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.engines import started
from pega_tune.autotune.cli.errors import ExitCode
from pega_tune.autotune.cli.options import SeedOption
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.units import parse_duration
from pega_tune.autotune.cli.verify_report import verify_document, verify_lines

if TYPE_CHECKING:
    from pega_tune.autotune.devices import DeviceChoice
    from pega_tune.autotune.verify.verification import Verification
    from pega_tune.profiles.store.records import ProfileRecord
    from pega_tune.profiles.store.store import Store


def add_to(app: typer.Typer) -> None:
    """Registers the command."""
    app.command("verify")(verify)


def verify(
    context: typer.Context,
    profile: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="Id of a profile, or a prefix.  [default: the one that decide uses]"),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="auto|N|UUID|sim:NAME", help="Where to look.  [default: the profile's device, or auto]"),
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="A duration, after which it stops; it includes the engine's start.")
    ] = "8s",
    if_changed: Annotated[
        bool,
        typer.Option("--if-changed", help="Measure only if driver, CUDA, host kernel or link have changed."),
    ] = False,
    seed: SeedOption = None,
) -> None:
    """Tell whether a profile is still true of its device.

    A few of its shapes are measured again. Exit code 5: it has drifted, or nothing can be said, and the answer says
    why.
    """
    begin_s = time.monotonic()
    limit_s = parse_duration(budget)
    session = session_of(context)
    with session.read_store() as store:
        record, choice = _find(store, profile, device)
        if if_changed and not _changed(store, record, choice):
            session.output.answer(*_unchanged(record))
            return
        found = _measure(store, record, choice, (begin_s, begin_s + limit_s, seed or 0))
    _keep(session, found)
    session.output.answer(verify_document(found), verify_lines(found))
    if found.verdict != "holds":
        raise typer.Exit(ExitCode.FLAGGED)


def _find(store: Store, profile: str | None, device: str | None) -> tuple[ProfileRecord, DeviceChoice]:
    """The profile and the device, either of which may follow from the other."""
    from pega_tune.autotune.devices import UnknownDeviceError, find_device
    from pega_tune.autotune.verify.lookup import profile_in_use

    if profile is None:
        choice = find_device(device or "auto")
        return profile_in_use(store, choice.facts), choice
    record = store.profile(profile)
    try:
        return record, find_device(device or record.device.uuid)
    except UnknownDeviceError:
        if device is not None:
            raise
        return record, find_device("auto")  # another board of its class may be here


def _changed(store: Store, record: ProfileRecord, choice: DeviceChoice) -> tuple[str, ...]:
    from pega_tune.autotune.verify.lookup import changed_fields

    return changed_fields(store, record, choice.facts)


def _measure(
    store: Store, record: ProfileRecord, choice: DeviceChoice, terms: tuple[float, float, int]
) -> Verification:
    from pega_tune.autotune.verify.canary import Terms, load_subject
    from pega_tune.autotune.verify.canary import verify as run

    subject = load_subject(store, record)
    began_s, until_s, seed = terms
    with started(choice) as engine:
        return run(subject, engine, Terms(until_s, began_s, seed))


def _keep(session: Session, found: Verification) -> None:
    """Stores what was found; a database that cannot be written is no reason to withhold it."""
    from pega_tune.autotune.verify.lookup import keep

    if refused := keep(session.url, found):
        session.output.warn(f"the outcome could not be stored: {refused}")


def _unchanged(record: ProfileRecord) -> tuple[dict[str, Any], list[str]]:
    line = "nothing that may drift has changed: not measured"
    document = {"profile": record.profile_id, "verdict": None, "reasons": [line], "cells": []}
    return document, [f"profile {record.profile_id}: {line}"]
