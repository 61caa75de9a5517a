"""`pega-tune devices`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from pega_tune.autotune.cli.output import table
from pega_tune.autotune.cli.session import session_of

if TYPE_CHECKING:
    from pega_tune.kernels.facts import DeviceFacts, Link


def add_to(app: typer.Typer) -> None:
    """Registers the command."""
    app.command("devices")(devices)


def devices(context: typer.Context) -> None:
    """List the GPUs seen here, and the simulated ones."""
    from pega_tune.autotune.devices import all_devices

    seen = all_devices()
    output = session_of(context).output
    if all(facts.simulated for facts in seen):
        output.note("no GPU is seen here; `pega-tune doctor` tells why")
    output.answer(
        {"devices": [document(facts) for facts in seen]},
        table(
            ("DEVICE", "NAME", "SMS", "MEMORY", "CC", "CLASS"),
            ((facts.uuid, facts.provenance.name, *_size(facts), facts.class_id) for facts in seen),
        ),
    )


def document(facts: DeviceFacts) -> dict[str, Any]:
    """A device as a JSON object."""
    return {
        "uuid": facts.uuid,
        "name": facts.provenance.name,
        "simulated": facts.simulated,
        "class": facts.class_id,
        "family": facts.family_id,
        "facts": facts.to_json(),
    }


def describe(facts: DeviceFacts) -> list[tuple[str, str]]:
    """Everything known about a device, as pairs for `fields`."""
    identity, staleness = facts.identity, facts.staleness
    sms, memory, capability = _size(facts)
    return [
        ("device", f"{facts.provenance.name} ({facts.uuid})"),
        ("simulated", "yes: these numbers come from a model, not from a device" if facts.simulated else ""),
        ("class", facts.class_id),
        ("family", facts.family_id),
        ("size", f"{sms} SMs, {memory}, compute capability {capability}, {identity.copy_engines} copy engines"),
        ("MIG slice", identity.mig_slice),
        ("widest link", _link(identity.max_link)),
        ("link under load", _link(staleness.trained_link)),
        ("driver", ", ".join(filter(None, (staleness.driver, staleness.cuda and f"CUDA {staleness.cuda}")))),
        ("host", ", ".join(filter(None, (facts.provenance.host, identity.host_cpu, staleness.host_kernel)))),
    ]


def _size(facts: DeviceFacts) -> tuple[str, str, str]:
    major, minor = facts.identity.compute_capability
    return str(facts.identity.sm_count), f"{facts.identity.memory_gib} GiB", f"{major}.{minor}"


def _link(link: Link | None) -> str:
    return f"PCIe {link.generation}.0 x{link.width}" if link else ""
