"""The languages that profiles can be written in, by name."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from pega_tune.profiles.emit.c import emit_c
from pega_tune.profiles.emit.gather import list_profiles
from pega_tune.profiles.emit.listing import Listing
from pega_tune.profiles.emit.python import emit_python
from pega_tune.profiles.emit.rust import emit_rust
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.terms import Runtime

LANGUAGES: Mapping[str, Callable[[Listing], str]] = MappingProxyType(
    {"python": emit_python, "rust": emit_rust, "c": emit_c}
)


def emit(language: str, profiles: Sequence[StoredProfile], runtime: Runtime | None = None) -> str:
    """The text of a file with the profiles and their look-up.

    Args:
        language: one of `LANGUAGES`.
        profiles: at least one; all of them go into the file.
        runtime: leaves the tables of other runtimes out, for which the file then gives no answer.

    Raises:
        EmitError: as `list_profiles`.
    """
    return LANGUAGES[language](list_profiles(profiles, runtime))
