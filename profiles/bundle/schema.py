"""Versions of the schema of bundles: older ones are brought up to date, newer ones refused by name."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pega_tune.profiles.bundle.errors import BundleError

_HINT = "name a file of pega-tune export"
_LONGEST = 20

Conversion: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""The members of a bundle, without digest and signature, as the next version has them.

It may be given anything that JSON can say, and changes nothing in place. What it cannot convert it leaves to the checks
of the members, or refuses with `BundleError`.
"""


@dataclass(frozen=True, slots=True)
class Schema:
    """What a reader understands.

    Attributes:
        version: the newest that it reads, 1 at least.
        conversions: from each version before it to the one after that.
    """

    version: int
    conversions: Mapping[int, Conversion]

    def require_known(self, document: Any) -> None:
        """Refuses what is no bundle, and what a later version wrote.

        Raises:
            BundleError: as said.
        """
        if not isinstance(document, dict) or "schema" not in document:
            raise BundleError("it is no bundle of pega-tune: it does not say its schema", _HINT)
        version = document["schema"]
        if type(version) is not int or version < 1:
            told = json.dumps(version)
            raise BundleError(
                f"it has no known schema, but {told if len(told) <= _LONGEST else 'another value'}", _HINT
            )
        if version > self.version:
            raise BundleError(
                f"it has schema {version}, this version reads up to {self.version}",
                "install the pega-tune that wrote it",
            )

    def converted(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The members of a bundle of a known version, as `version` has them.

        Raises:
            BundleError: a conversion refuses them.
        """
        current = dict(content)
        for version in range(current["schema"], self.version):
            current = {**self.conversions[version](current), "schema": version + 1}
        return current


CURRENT = Schema(version=1, conversions={})
"""Of this release; its version is written."""
