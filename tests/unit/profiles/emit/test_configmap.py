"""A ConfigMap holds bundles, byte for byte, under names that `Auto` looks for."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pega_tune.profiles.bundle.document import write
from pega_tune.profiles.emit.configmap import MAX_DATA_BYTES, emit_configmap
from pega_tune.profiles.emit.errors import EmitError
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.terms import ProfileState, Tier
from tests.helpers.bundles import DEVICE, SIMULATED, bundle

OTHER = replace(DEVICE, uuid="GPU-2", identity=replace(DEVICE.identity, sm_count=64))


def files_of(text: str) -> dict[str, str]:
    """The data of a manifest: keys in quotes, values as block scalars indented by four blanks."""
    _, data = text.split("\ndata:\n")
    lines = data.splitlines()
    assert len(lines) % 2 == 0
    files = {}
    for key, value in zip(lines[::2], lines[1::2], strict=True):
        assert key.startswith('  "')
        assert key.endswith('": |')
        assert value.startswith("    {")
        files[json.loads(key.strip().removesuffix(": |"))] = value.removeprefix("    ") + "\n"
    return files


def mounted(text: str, folder: Path) -> Path:
    """As the kubelet does it: each key a link into a folder that is a link itself."""
    folder.joinpath("..2026").mkdir()
    folder.joinpath("..data").symlink_to("..2026")
    for name, content in files_of(text).items():
        folder.joinpath("..2026", name).write_text(content)
        folder.joinpath(name).symlink_to(Path("..data", name))
    return folder


def test_each_file_is_the_bundle(tmp_path):
    bundles = [bundle(), bundle(device=OTHER, profile_id="other")]
    files = files_of(emit_configmap(bundles))
    assert [content.encode() for content in files.values()] == list(map(write, bundles))
    assert all(re.fullmatch(r"[-._a-zA-Z0-9]+", name) for name in files)


def test_auto_finds_the_profile_of_its_device_among_those_mounted(tmp_path):
    folder = mounted(emit_configmap([bundle(device=OTHER, profile_id="other"), bundle()]), tmp_path)
    for device, profile in ((DEVICE, "abc123"), (OTHER, "other")):
        auto = Auto.for_device(device, tmp_path / "absent.db", packaged=folder)
        assert (auto.tier, auto.decide(16, 16 << 12, "h2d").profile) == (Tier.BUNDLED, profile)
    (path,) = folder.glob(f"*{OTHER.class_id}.json")
    assert Auto.load(path, OTHER).decide(16, 16 << 12, "h2d").profile == "other"


def test_a_simulated_profile_says_so_and_answers_for_no_real_device(tmp_path):
    text = emit_configmap([bundle(device=SIMULATED)])
    assert "# SIMULATED, profile abc123" in text
    assert 'pega-tune/simulated: "true"' in text
    folder = mounted(text, tmp_path)
    assert Auto.for_device(DEVICE, tmp_path / "absent.db", packaged=folder).tier is Tier.RULE
    assert "SIMULATED" not in emit_configmap([bundle()])


def test_a_draft_says_so():
    assert "# DRAFT, profile abc123" in emit_configmap([bundle(state=ProfileState.DRAFT, reasons=("x",))])


def test_names_are_those_that_kubernetes_takes():
    texts = [emit_configmap([bundle()]), emit_configmap([bundle(device=SIMULATED)]),
             emit_configmap([bundle(), bundle(device=OTHER, profile_id="other")])]  # fmt: skip
    names = [re.search(r'\n  name: "([a-z0-9]([-a-z0-9]*[a-z0-9])?)"\n', text).group(1) for text in texts]
    assert len(set(names)) == 3


def test_what_a_device_is_called_stays_in_its_line():
    name = "x: {y}\N{LATIN SMALL LETTER E WITH ACUTE} # & *z | > '\" %"
    device = replace(DEVICE, provenance=replace(DEVICE.provenance, name=name))
    text = emit_configmap([bundle(device=device)])
    (remark,) = (line for line in text.splitlines() if "profile abc123" in line)
    assert re.fullmatch(r"# [A-Za-z0-9 .,:@()+_-]+", remark)
    (content,) = files_of(text).values()
    assert json.loads(content)["device"]["provenance"]["name"] == name


@pytest.mark.parametrize(
    ("bundles", "words"),
    [
        ([], "no profile"),
        ([bundle(), bundle(profile_id="other")], "same device class"),
        ([bundle(device=replace(DEVICE, identity=replace(DEVICE.identity, pci_device_id="1\u00e9")))], "letters"),
    ],
)
def test_what_no_configmap_can_hold_is_refused(bundles, words):
    with pytest.raises(EmitError) as caught:
        emit_configmap(bundles)
    assert words in caught.value.message


def test_too_much_for_one_is_refused():
    large = [f"{at:02000d}" for at in range(200)]
    several = [
        bundle(
            profile_id=f"p{at}",
            device=replace(DEVICE, identity=replace(DEVICE.identity, sm_count=at)),
            state=ProfileState.DRAFT,
            reasons=tuple(large),
        )
        for at in (1, 2, 3)
    ]
    assert sum(len(write(each)) for each in several) > MAX_DATA_BYTES
    with pytest.raises(EmitError, match="at most 1048576 bytes"):
        emit_configmap(several)
    assert emit_configmap(several[:1])
