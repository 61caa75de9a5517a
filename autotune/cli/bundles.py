"""`pega-tune export` and `import`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.export_formats import BUNDLE_FORMAT, FORMATS, ExportRequest, exporter
from pega_tune.autotune.cli.export_settings import idle_blocks, require_mix
from pega_tune.autotune.cli.options import named_file
from pega_tune.autotune.cli.output import fields
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.stored import profile_named
from pega_tune.autotune.cli.units import format_time
from pega_tune.errors import UsageError
from pega_tune.profiles.policy.terms import ProfileState, Runtime, parse_word

if TYPE_CHECKING:
    from pega_tune.autotune.cli.export_formats import Exported
    from pega_tune.profiles.bundle.document import Bundle
    from pega_tune.profiles.bundle.keys import SigningKey

_STDOUT = Path("-")

ProfilesArgument = Annotated[
    list[str], typer.Argument(metavar="ID", help="Ids of profiles, or prefixes that no other has.")
]


def add_to(app: typer.Typer) -> None:
    """Registers the commands."""
    app.command("export")(export_profile)
    app.command("import")(import_profile)


def export_profile(
    context: typer.Context,
    ids: ProfilesArgument,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(FORMATS),
            help="What to write; python, rust, c and configmap take several profiles.",
        ),
    ] = BUNDLE_FORMAT,
    runtime: Annotated[
        str | None, typer.Option(metavar="|".join(Runtime), help="Plans that the engine can run.  [default: all]")
    ] = None,
    shapes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Transfers to choose settings for; a JSON object on each line.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is stdout, the default.")
    ] = None,
    sign: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Sign the bundle with this Ed25519 key, a PEM file.")
    ] = None,
) -> None:
    """Write profiles into a file.

    To import elsewhere, to load without a database, or to compile into an engine.
    """
    from pega_tune.profiles.store.bundles import bundle_of

    session = session_of(context)
    if form != BUNDLE_FORMAT:
        export = exporter(form)
        require_mix(form, ids, runtime, shapes)
        if sign is not None:
            raise UsageError("bundles alone are signed", "leave --sign or --format out")
    elif len(ids) > 1 or runtime is not None or shapes is not None:
        raise UsageError("a bundle is one whole profile", "name one profile, and leave --runtime and --shapes out")
    asked = None if runtime is None else parse_word(Runtime, runtime)
    key = _signing_key(sign)
    file = None if file in (None, _STDOUT) else named_file(file)
    named = tuple(profile_named(session, each) for each in ids)
    found = tuple(bundle_of(each.record) for each in named)
    blocks = idle_blocks(session, form, named[0])
    for bundle in found:
        _warn(session, bundle)
    if form == BUNDLE_FORMAT:
        _export_bundle(session, found[0], file, key)
    else:
        _export_text(session, form, export(ExportRequest(found, asked, shapes, blocks)), file)


def _signing_key(path: Path | None) -> SigningKey | None:
    from pega_tune.profiles.bundle.keys import read_signing_key

    return None if path is None else read_signing_key(path)


def _export_bundle(session: Session, bundle: Bundle, file: Path | None, key: SigningKey | None) -> None:
    from pega_tune.profiles.bundle.document import to_document, write
    from pega_tune.profiles.bundle.files import write_bundle

    if file is None:
        session.output.answer(to_document(bundle, key), [write(bundle, key).decode().rstrip("\n")])
        return
    write_bundle(bundle, file, key)
    signed_by = None if key is None else key.fingerprint
    session.output.answer(
        {**_summary(bundle), "format": BUNDLE_FORMAT, "file": str(file), "signed_by": signed_by},
        [*fields([*_lines(bundle), ("signed by", signed_by or "")]), f"written to {file}"],
    )


def _export_text(session: Session, form: str, exported: Exported, file: Path | None) -> None:
    from pega_tune.profiles.bundle.files import replace_file

    if file is None:
        document = {"format": form, **exported.document, "text": exported.text}
        session.output.answer(document, [exported.text.removesuffix("\n")])
        return
    replace_file(file, exported.text.encode())
    session.output.answer({"format": form, **exported.document, "file": str(file)}, [f"written to {file}"])


def import_profile(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bundle, as `export` writes them.")],
    trust: Annotated[
        Path | None,
        typer.Option(metavar="PUBKEY", help="Refuse what is not signed with this Ed25519 key, a PEM file."),
    ] = None,
) -> None:
    """Take a profile from a bundle into the database.

    The database is created if it is missing.
    """
    from pega_tune.profiles.bundle.files import read_bundle
    from pega_tune.profiles.bundle.keys import read_trusted_key
    from pega_tune.profiles.store.bundles import require_past
    from pega_tune.profiles.store.host import HostView

    session = session_of(context)
    trusted = None if trust is None else read_trusted_key(trust)
    bundle = read_bundle(named_file(file), trusted)
    require_past(bundle, HostView().now())  # all that a new database refuses: none is made for it
    with session.write_store(create=True) as store:
        added = store.import_bundle(bundle)
        stored = store.profile(bundle.profile_id)
    bundle = replace(bundle, state=stored.state, reasons=stored.reasons)
    _warn(session, bundle)
    if bundle.state is ProfileState.RETIRED:
        session.output.warn(f"`pega-tune profiles retire {bundle.profile_id} --undo` takes it into use")
    if bundle.signed_by and trusted is None:
        session.output.warn("it is signed, and nobody checked it: --trust PUBKEY does")
    signed_by = trusted.fingerprint if trusted else None
    session.output.answer(
        {**_summary(bundle), "added": added, "signed_by": signed_by},
        [
            *fields([*_lines(bundle), ("signed by", signed_by or "")]),
            "imported" if added else "it was there already",
        ],
    )


def _warn(session: Session, bundle: Bundle) -> None:
    if bundle.device.simulated:
        session.output.warn(f"SIMULATED: the profile is of {bundle.device.uuid}, and answers for no real device")
    if bundle.state is not ProfileState.PUBLISHED:
        kind = "retired" if bundle.state is ProfileState.RETIRED else f"a {bundle.state}, not published"
        why = "; ".join(bundle.reasons) or "no reason is given"
        session.output.warn(f"the profile is {kind}, and decide does not use it: {why}")


def _summary(bundle: Bundle) -> dict[str, Any]:
    return {
        "profile": bundle.profile_id,
        "device": bundle.device.uuid,
        "class": bundle.device.class_id,
        "state": str(bundle.state),
        "published_at": bundle.created_at.isoformat(),
        "simulated": bundle.device.simulated,
    }


def _lines(bundle: Bundle) -> list[tuple[str, str]]:
    device = bundle.device
    return [
        ("profile", f"{bundle.profile_id}, {bundle.state}{', SIMULATED' if device.simulated else ''}"),
        ("device", f"{device.uuid} ({device.provenance.name})"),
        ("made", format_time(bundle.created_at)),
    ]
