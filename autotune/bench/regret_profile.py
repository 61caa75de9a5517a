"""`Auto` from a profile in the store, published or not, to be judged."""

from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.compiled import decode
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.store.records import ProfileRecord


def auto_of(record: ProfileRecord) -> Auto:
    """Who answers from the tables of one profile.

    Raises:
        DataError: the tables are damaged, or of another format.
    """
    return Auto.from_profile(
        StoredProfile(
            profile_id=record.profile_id,
            device=record.device,
            state=record.state,
            created_at=record.created_at,
            kernel_digest=record.kernel_digest,
            policy=decode(record.compiled),
        )
    )
