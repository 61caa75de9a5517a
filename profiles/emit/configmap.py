"""Profiles as a Kubernetes ConfigMap: bundles, to be mounted as files."""

import json
import re
from collections.abc import Iterator, Sequence

from pega_tune.profiles.bundle.document import Bundle, write
from pega_tune.profiles.bundle.packaged import file_name
from pega_tune.profiles.emit.errors import EmitError
from pega_tune.profiles.emit.text import remark

MAX_DATA_BYTES = 1 << 20
"""Most that Kubernetes keeps in a ConfigMap (its documentation, concepts, configuration, ConfigMaps)."""

_KEY = re.compile(r"[-._A-Za-z0-9]{1,253}", re.ASCII)


def emit_configmap(bundles: Sequence[Bundle]) -> str:
    """A manifest in YAML with one file for each device class, named as `Auto.for_device(packaged=...)` looks for it.

    Raises:
        EmitError: there is no bundle, two are of the same device class, or all together are too large.
        BundleError: a reader would refuse one.
    """
    kept = {bundle.profile_id: bundle for bundle in bundles}
    files = {file_name(bundle.device): bundle for bundle in kept.values()}
    if not files:
        raise EmitError("there is no profile to write", "name one")
    if len(files) < len(kept):
        raise EmitError("two of the profiles are of the same device class", "name one of each class")
    if not all(map(_KEY.fullmatch, files)):
        raise EmitError("the PCI device id of a profile has letters that no key of a ConfigMap has")
    texts = {name: write(bundle).decode() for name, bundle in files.items()}
    if sum(len(text.encode()) for text in texts.values()) > MAX_DATA_BYTES:
        raise EmitError(f"a ConfigMap holds at most {MAX_DATA_BYTES} bytes", "write one for each profile")
    return "\n".join((*_head(tuple(files.values())), *_data(texts))) + "\n"


def _head(bundles: Sequence[Bundle]) -> Iterator[str]:
    yield "# Written by pega-tune export. Mounted at /etc/pega-tune, it is read by"
    yield '#     Auto.for_device(facts, packaged=Path("/etc/pega-tune"))'
    yield "# or, with the name of one of its files, by Auto.load. How to mount it is in docs/emitted.md."
    for bundle in bundles:
        marks = "SIMULATED, " * bundle.device.simulated + "DRAFT, " * (str(bundle.state) != "published")
        yield f"# {marks}profile {bundle.profile_id} of {remark(bundle.device.provenance.name)}"
    name = f"pega-tune-{bundles[0].device.class_id}" if len(bundles) == 1 else "pega-tune-profiles"
    simulated = any(bundle.device.simulated for bundle in bundles)
    yield "apiVersion: v1"
    yield "kind: ConfigMap"
    yield "metadata:"
    yield f"  name: {json.dumps(name)}"
    yield "  labels:"
    yield '    app.kubernetes.io/name: "pega-tune"'
    yield f'    pega-tune/simulated: "{json.dumps(simulated)}"'


def _data(texts: dict[str, str]) -> Iterator[str]:
    """Block scalars: a bundle is one line of printable text, which they take as it is, the line break included."""
    yield "data:"
    for name, text in texts.items():
        yield f"  {json.dumps(name)}: |"
        yield f"    {text.removesuffix(chr(10))}"
