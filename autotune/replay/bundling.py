"""From a recorded sweep to the bundle that is shipped: the same recording and compiler make the same profile."""

import hashlib
import zlib
from dataclasses import replace
from datetime import timedelta

from pega_tune.autotune.replay.errors import RecordingError
from pega_tune.autotune.replay.recording import Recording
from pega_tune.autotune.sweep.gate import judge
from pega_tune.autotune.sweep.learning import Learner
from pega_tune.autotune.sweep.recording import profile_record
from pega_tune.profiles.bundle.document import Bundle
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.bundles import bundle_of
from pega_tune.profiles.store.ids import ID_BYTES


def bundle_recording(recording: Recording) -> Bundle:
    """What the sweep of a recording teaches today's compiler, as a bundle made when the sweep ended.

    Its profile's id follows from its tables.

    Raises:
        RecordingError: the publish gate refuses the profile; the message says why.
    """
    sweep, blocks = recording.sweep, recording.blocks
    learnt = Learner().learn(blocks)
    lacking = sweep.planned_blocks - len(blocks)
    missing = (f"{lacking} of {sweep.planned_blocks} blocks are missing",) if lacking > 0 else ()
    verdict = judge(learnt.policy, blocks, missing)
    if verdict.state is not ProfileState.PUBLISHED:
        raise RecordingError(f"sweep {sweep.sweep_id} makes a {verdict.state} profile: {'; '.join(verdict.reasons)}")
    ended_at = sweep.started_at + timedelta(seconds=sweep.seconds)
    links = [block.link for block in blocks if block.link]
    record = profile_record(sweep, learnt, verdict, links, ended_at)
    # Of what is deflated: how it is deflated depends on the build of zlib.
    content = hashlib.sha256(zlib.decompress(record.compiled)).hexdigest()
    return bundle_of(replace(record, profile_id=content[: 2 * ID_BYTES]))
