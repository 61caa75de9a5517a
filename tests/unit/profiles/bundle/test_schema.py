"""The JSON schema in the documentation says what the reader does."""

import json
import re
from pathlib import Path
from typing import Any

from pega_tune.profiles.bundle.document import MAX_POLICY_BYTES, NOTICE, to_document
from pega_tune.profiles.bundle.keys import read_signing_key
from pega_tune.profiles.bundle.schema import CURRENT
from pega_tune.profiles.bundle.strict_json import MAX_CONTAINERS, MAX_TEXT_BYTES
from pega_tune.profiles.policy.compiled import MAX_CONTAINERS as MAX_LISTS
from pega_tune.profiles.policy.compiled import MAX_INFLATED_BYTES, MAX_QUOTES, MAX_VALUES
from pega_tune.profiles.policy.terms import ProfileState
from tests.helpers.bundles import SIMULATED, bundle
from tests.helpers.keys import make_keys

PAGE = (Path(__file__).parents[4] / "docs" / "bundle.md").read_text()
OPTIONAL = {"signature", "notice"}
SCHEMA = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "")
    return SCHEMA["$defs"][reference.rpartition("/")[2]] if reference else schema


def check(schema: dict[str, Any], value: object, where: str) -> None:
    """Objects have exactly the members that the schema names, everywhere, but for those that it need not have."""
    schema = resolved(schema)
    if isinstance(value, dict):
        assert schema["additionalProperties"] is False, where
        assert set(schema["required"]) == set(schema["properties"]) - OPTIONAL == set(value) - OPTIONAL, where
        for name, member in value.items():
            check(schema["properties"][name], member, f"{where}.{name}")
    elif isinstance(value, str) and "pattern" in schema:
        assert re.search(schema["pattern"], value), where


def test_the_members_of_a_bundle_are_those_of_the_schema(tmp_path):
    check(SCHEMA, to_document(bundle()), "bundle")
    check(SCHEMA, to_document(bundle(device=SIMULATED)), "simulated bundle")
    check(SCHEMA, to_document(bundle(), read_signing_key(make_keys(tmp_path).private)), "signed bundle")
    assert SCHEMA["properties"]["notice"] == {"const": NOTICE}
    assert SCHEMA["properties"]["schema"] == {"const": CURRENT.version}
    assert SCHEMA["properties"]["state"]["enum"] == list(ProfileState)


def test_the_limits_are_those_of_the_reader():
    assert f"more than {MAX_TEXT_BYTES >> 20} MiB, more than {MAX_CONTAINERS} opening brackets" in PAGE
    assert f"tables of more than {MAX_POLICY_BYTES >> 10} KiB" in PAGE
    assert f"unpack to more than {MAX_INFLATED_BYTES >> 20} MiB, {MAX_LISTS:,} lists and objects" in PAGE
    assert f"{MAX_VALUES:,} values or {MAX_QUOTES:,} quotation marks" in PAGE
