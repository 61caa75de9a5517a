"""The text of a bundle: written in one way, and read without mercy."""

import hashlib
import json
import os
import subprocess
import sys
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import DataError
from pega_tune.kernels.plan import Variant, direct, kernel
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.bundle.document import MAX_POLICY_BYTES, NOTICE, read, to_document, write
from pega_tune.profiles.bundle.errors import BundleError
from pega_tune.profiles.bundle.schema import CURRENT, Schema
from pega_tune.profiles.bundle.strict_json import MAX_CONTAINERS, MAX_INTEGER, MAX_TEXT_BYTES
from pega_tune.profiles.policy.compiled import MAX_INFLATED_BYTES
from pega_tune.profiles.policy.table import Option, Predicted
from pega_tune.profiles.policy.terms import ProfileState
from tests.helpers.bundles import CREATED, DEVICE, SIMULATED, bundle, sealed, table, with_tables

TEXT = write(bundle())
ROOT = Path(__file__).parents[4]


def document() -> dict[str, Any]:
    """A sound bundle, to be changed."""
    return json.loads(TEXT)


def changed(path: str, value: object) -> bytes:
    """A bundle that holds something else at a dotted path, with the right digest."""
    content = document()
    *parents, last = path.split(".")
    inner = content
    for key in parents:
        inner = inner[key]
    inner[last] = value
    return sealed(content)


def refusal(text: bytes) -> str:
    with pytest.raises(BundleError) as caught:
        read(text)
    assert isinstance(caught.value, DataError)
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    "content",
    [
        bundle(),
        bundle(device=SIMULATED),
        bundle(state=ProfileState.DRAFT, reasons=("throttled, 3 of 40 blocks", "Umlaute: äöü")),
        bundle(device=replace(DEVICE, identity=replace(DEVICE.identity, max_link=None, host_cpu=None, iommu=None))),
    ],
)
def test_what_was_written_is_read_again(content):
    text = write(content)
    assert read(text) == content
    assert write(read(text)) == text
    assert read(text).stored.policy == content.policy


def test_the_text_is_canonical_and_its_digest_covers_all_else():
    content = document()
    assert json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" == TEXT
    seal = content.pop("sha256")
    rest = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert hashlib.sha256(rest).hexdigest() == seal


def test_blanks_and_the_order_of_keys_do_not_matter():
    shuffled = dict(reversed(document().items()))
    assert read(json.dumps(shuffled, indent=4).encode()) == bundle()


def test_a_simulated_profile_says_so():
    assert to_document(bundle(device=SIMULATED))["simulated"] is True
    assert to_document(bundle())["simulated"] is False
    assert b"SIMULATED" in write(bundle(device=SIMULATED))
    assert b"SIMULATED" not in TEXT


def test_the_digest_covers_the_notice_of_a_simulated_profile():
    text = write(bundle(device=SIMULATED))
    assert "digest differs" in refusal(text.replace(b"SIMULATED", b"simulated"))


@pytest.mark.parametrize("notice", ["", None, True, [NOTICE], "MEASURED", NOTICE + "."])
def test_a_simulated_profile_has_the_one_notice(notice):
    content = {**to_document(bundle(device=SIMULATED)), "notice": notice}
    assert "the notice of a simulated profile is another" in refusal(sealed(content))


def test_a_real_profile_has_no_notice():
    assert "simulated" in refusal(sealed({**document(), "notice": NOTICE}))


def test_a_simulated_profile_from_before_the_notice_is_read():
    content = to_document(bundle(device=SIMULATED))
    del content["notice"]
    assert read(sealed(content)) == bundle(device=SIMULATED)


@pytest.mark.parametrize("posing", [changed("simulated", True), changed("device.uuid", "sim:h200")])
def test_a_simulated_profile_cannot_pose_as_real_nor_the_reverse(posing):
    assert "simulated" in refusal(posing)


def test_a_changed_byte_is_noticed():
    text = TEXT.replace(b"10de:18bf", b"10de:18be")
    assert text != TEXT
    assert "digest differs" in refusal(text)


def test_tables_of_another_bundle_are_noticed():
    blob = bundle(table(margin=0.5)).compiled
    other = with_tables(document(), blob)
    other["policy"]["sha256"] = document()["policy"]["sha256"]
    assert "their digest differs" in refusal(sealed(other))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (CURRENT.version + 1, f"schema {CURRENT.version + 1}"),
        (0, "no known schema, but 0"),
        (-1, "no known schema, but -1"),
        (True, "no known schema, but true"),
        ("1", 'no known schema, but "1"'),
        ("1" * 100, "no known schema, but another value"),
        (None, "no known schema, but null"),
    ],
)
def test_other_schemas_are_refused_by_name(schema, words):
    assert words in refusal(changed("schema", schema))


def test_a_newer_schema_is_refused_before_anything_else_is_asked_of_it():
    with pytest.raises(BundleError) as caught:
        read(b'{"schema": 2, "everything": "else"}')
    assert caught.value.hint == "install the pega-tune that wrote it"


@pytest.mark.parametrize("text", [b"[]", b"null", b'"text"', b"3", b"{}"])
def test_what_is_no_bundle_at_all_is_refused(text):
    assert "no bundle of pega-tune" in refusal(text)


def test_an_older_schema_is_converted_step_by_step():
    def one_to_two(content):
        return {"made": content["created_at"], **{key: value for key, value in content.items() if key != "created_at"}}

    def two_to_three(content):
        return {"created_at": content["made"], **{key: value for key, value in content.items() if key != "made"}}

    third = Schema(3, {1: one_to_two, 2: two_to_three})
    second = sealed({**one_to_two(document()), "schema": 2})
    assert read(TEXT, schema=third) == read(second, schema=third) == bundle()
    assert read(sealed({**document(), "schema": 3}), schema=third) == bundle()
    assert "lacks created_at" in refusal(sealed({**one_to_two(document()), "schema": 1}))


def test_a_conversion_may_refuse_and_the_digest_is_of_what_was_written():
    def refuse(content):
        raise BundleError("it lost its device")

    second = Schema(2, {1: refuse})
    with pytest.raises(BundleError, match="lost its device"):
        read(TEXT, schema=second)
    with pytest.raises(BundleError, match="digest differs"):
        read(TEXT.replace(b"lab-7", b"lab-8"), schema=second)


def test_every_older_schema_can_be_converted():
    assert set(CURRENT.conversions) == set(range(1, CURRENT.version))


@pytest.mark.parametrize("key", [*document(), "policy.tables", "device.identity", "device.identity.sm_count"])
def test_every_key_is_needed(key):
    content = document()
    *parents, last = key.split(".")
    inner = content
    for parent in parents:
        inner = inner[parent]
    del inner[last]
    text = json.dumps(content).encode() if key == "sha256" else sealed(content)
    assert "lacks" in refusal(text) or "does not say its schema" in refusal(text)


@pytest.mark.parametrize(
    "path", ["more", "policy.more", "device.more", "device.identity.more", "device.staleness.more"]
)
def test_unknown_keys_are_refused(path):
    assert "unknown 'more'" in refusal(changed(path, 1))


WRONG = [
    ("profile_id", ["", "../../etc/passwd", "a/b", "a b", "x" * 65, "a\n", "[bold]", 5, None]),
    ("sweep_id", ["", "..", "é", []]),
    ("state", ["good", "PUBLISHED", None, [], 1]),
    ("reasons", ["text", [1], ["\x1b[31mred"], ["x" * 3000], None, ["x"] * 1001]),
    ("simulated", [0, None, "false"]),
    ("created_at", ["", "yesterday", "2026-11-30", "2026-11-30T12:00:00", "2026-11-30T12:00:00.25+01:00", 5, None]),
    ("created_at", ["9999-12-31T23:59:59.000000-12:00", "0001-01-01T00:00:00.000000+12:00"]),
    ("kernel_digest", ["x" * 200, "\x00", 3, None]),
    ("method_version", [0, -1, True, "3", None]),
    ("policy", [None, [], "x", {}]),
    ("policy.sha256", ["", "A" * 64, 5, None]),
    ("policy.tables", ["*", "abc", 5, None, [], "é"]),
    ("device", [None, [], "GPU-1"]),
    ("device.uuid", ["", 5, None, "GPU\x07", "x" * 300]),
    ("device.identity", [None, []]),
    ("device.identity.compute_capability", [None, [9], [9, 0, 0], ["9", "0"], [True, False], [9, -1], {}]),
    ("device.identity.sm_count", [0, -1, True, "132", None, 1 << 20]),
    ("device.identity.memory_gib", [-1, None, 1 << 40]),
    ("device.identity.copy_engines", [-1, None]),
    ("device.identity.mig_slice", [None, 5]),
    ("device.identity.pci_device_id", [5, "\n", []]),
    ("device.identity.iommu", [0, "no", []]),
    ("device.identity.numa_distance", [-1, "10", True]),
    ("device.identity.max_link", [5, [], {"generation": 5}, {"generation": 0, "width": 16}]),
    ("device.staleness", [None, {}]),
    ("device.staleness.driver", [580, "\t"]),
    ("device.staleness.trained_link", [{"generation": 5, "width": 16, "more": 1}, {"generation": 5, "width": 65}]),
    ("device.provenance.name", [None, 5, "a\u2028b", "\u202e"]),
    ("device.provenance.host", [None]),
    ("device.provenance.max_sm_clock_hz", [-1, "fast"]),
]


@pytest.mark.parametrize(("path", "value"), [(path, value) for path, values in WRONG for value in values])
def test_a_wrong_value_is_refused_though_the_digest_is_right(path, value):
    assert refusal(changed(path, value))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"schema":1,"schema":1}', "the key 'schema' twice"),
        (b'{"device":{"a":1,"a":2}}', "the key 'a' twice"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "-Infinity"),
        (b'{"a":1e999}', "1e999"),
        (b'{"a":1.5}', "1.5"),
        (b'{"a":%d}' % (MAX_INTEGER + 1), "digits"),
        (b'{"a":' + b"9" * 100_000 + b"}", "100000 digits"),
        (b'{"a":' + b"[" * MAX_CONTAINERS + b"]" * MAX_CONTAINERS + b"}", "brackets"),
        (b"[" * 100_000, "brackets"),
        (b'{"a":' * 100_000, "brackets"),
        (b" " * (MAX_TEXT_BYTES + 1), "larger than"),
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\x1f\x8b\x08\x00", "not UTF-8"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (TEXT + b"x", "not JSON"),
        (TEXT[:-1] + TEXT, "not JSON"),
        (b'{"a":"\x00"}', "not JSON"),
    ],
)
def test_json_with_two_meanings_or_none_is_refused(text, words):
    assert words in refusal(text)


def test_half_a_sign_is_refused():
    assert "not Unicode" in refusal(sealed({**document(), "kernel_digest": "\ud800"}))


def test_too_many_tables_are_refused():
    blob = os.urandom(MAX_POLICY_BYTES + 1)
    assert f"more than {MAX_POLICY_BYTES} bytes" in refusal(sealed(with_tables(document(), blob)))


@pytest.mark.parametrize("blob", [b"", b"junk", zlib.compress(b"[]"), zlib.compress(b'{"format":99}')])
def test_what_are_no_tables_is_refused(blob):
    assert "policy" in refusal(sealed(with_tables(document(), blob)))


def test_what_a_refusal_quotes_is_short_and_prints():
    content = json.loads(zlib.decompress(bundle().compiled))
    content["tables"][0]["direction"] = "\x1b[31m" + "x" * 9000
    message = refusal(sealed(with_tables(document(), zlib.compress(json.dumps(content).encode()))))
    assert message.isprintable()
    assert len(message) < 400


def test_tables_of_a_newer_version_say_what_to_do():
    blob = zlib.compress(b'{"format":99}')
    with pytest.raises(BundleError) as caught:
        read(sealed(with_tables(document(), blob)))
    assert caught.value.hint == "install the pega-tune that wrote it"


def test_a_plan_for_more_sms_than_there_are_is_refused():
    plan = replace(kernel(Variant.WARP, 2, 1024), sm_partition=DEVICE.identity.sm_count + 1)
    cells = ((Option(plan, Predicted(1e-3)),), (Option(direct(), Predicted(1e-3)),))
    assert "more SMs than the 132" in refusal(sealed(to_document(bundle(table(cells=cells)))))


@pytest.mark.parametrize(
    "predicted",
    [
        Predicted(1e300),
        Predicted(86_401.0),
        Predicted(1.0, 86_401.0, 1.0, 1.0),
        Predicted(1.0, 1.0, 86_401.0, 1.0),
        Predicted(1.0, 1.0, 1.0, 86_401.0),
    ],
)
def test_a_time_of_more_than_a_day_is_refused(predicted):
    cells = ((Option(direct(), Predicted(86_400.0)),), (Option(direct(), predicted),))
    assert "the longest is a day" in refusal(sealed(to_document(bundle(table(cells=cells)))))


def test_a_step_of_more_than_a_day_and_a_margin_without_bound_are_refused():
    assert "the longest is a day" in refusal(sealed(to_document(bundle(table(step_s=86_401.0)))))
    assert "margin of 101, and the largest is 100" in refusal(sealed(to_document(bundle(table(margin=101.0)))))


def test_what_takes_a_day_is_read():
    cells = ((Option(direct(), Predicted(86_400.0)),), (Option(direct(), Predicted(1.0, 0.0, 0.0, 86_400.0)),))
    made = bundle(table(cells=cells, step_s=86_400.0, margin=100.0))
    assert read(write(made)) == made


def test_tables_for_both_directions_are_read():
    from pega_tune.kernels.plan import PlanPair

    pair = (Option(PlanPair(direct(), direct()), Predicted(1e-3)),)
    made = bundle(table(direction=Direction.BOTH, cells=(pair, pair)))
    assert read(write(made)).policy == made.policy


@pytest.mark.parametrize(
    "made",
    [
        bundle(reasons=("two\nlines",)),
        bundle(kernel_digest="\ud800"),
        bundle(created_at=CREATED, method_version=0),
        bundle(device=replace(DEVICE, uuid="")),
    ],
)
def test_nothing_is_written_that_would_not_be_read(made):
    with pytest.raises(BundleError):
        write(made)


@given(st.data())
def test_a_small_bundle_cut_or_changed_anywhere_is_refused_or_the_same(data: st.DataObject):
    if data.draw(st.booleans()):
        text = TEXT[: data.draw(st.integers(0, len(TEXT) - 2))]
    else:
        position = data.draw(st.integers(0, len(TEXT) - 1))
        text = bytearray(TEXT)
        text[position] ^= 1 << data.draw(st.integers(0, 7))
    found = None
    with suppress(BundleError):
        found = read(bytes(text))
    assert found in (None, bundle())


def bombs() -> dict[str, bytes]:
    """Tables of a few KiB that unpack to a hundred times as much, in the ways that cost a reader most."""
    size = MAX_INFLATED_BYTES
    contents = {
        "spaces": b" " * size,
        "lists": b"[" + b"[]," * (size // 3 - 1) + b"[]]",
        "deep": b"[" * size,
        "numbers": b"[" + b"0," * (size // 2 - 1) + b"0]",
        "objects": b"[" + b"{}," * (size // 3 - 1) + b"{}]",
        "digits": b"9" * size,
        "beyond": b" " * (8 * size),
    }
    return {name: zlib.compress(content, 9) for name, content in contents.items()}


@pytest.mark.parametrize("name", bombs())
def test_a_bomb_is_refused_within_200_mb(name, tmp_path):
    path = tmp_path / "bomb.json"
    path.write_bytes(sealed(with_tables(document(), bombs()[name])))
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from pega_tune.profiles.bundle.errors import BundleError
from pega_tune.profiles.bundle.schema import CURRENT, Schema
from pega_tune.profiles.bundle.files import read_bundle
try:
    read_bundle(Path({str(path)!r}))
except BundleError:
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) >> 10 < 200
