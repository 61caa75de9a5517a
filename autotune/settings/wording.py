"""A setting as a text to paste, and as JSON."""

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from pega_tune.autotune.settings.advice import Advice, Cost, Known
from pega_tune.autotune.settings.setting import Engine, Value
from pega_tune.profiles.policy.explain import counted
from pega_tune.profiles.policy.stored import StoredProfile

_COLUMNS = 118


def text_of(engine: Engine, advice: Advice, known: Known) -> str:
    """Comments on where it comes from and what it costs, then the lines to paste."""
    comments = (line for sentence in _comments(engine, advice, known) for line in wrap(sentence, _COLUMNS))
    return "\n".join([*(f"# {line}" for line in comments), *engine.lines(advice.setting.values), ""])


def document_of(engine: Engine, advice: Advice, known: Known) -> dict[str, Any]:
    """The same as a JSON object."""
    stall = advice.stall
    return {
        "profile": known.profile.profile_id,
        "device": known.profile.device.uuid,
        "simulated": known.profile.device.simulated,
        "settings": dict(advice.setting.values),
        "predicted": {
            **_costs(advice.cost),
            "stall_s": stall and stall.stall_s,
            "full_stall_s": stall and stall.full_s,
            "stall_colocation": stall and str(stall.colocation),
            "stall_share": stall and stall.share,
        },
        "default": _default(advice),
        "basis": advice.basis,
        "stands": engine.stands,
        "guessed": advice.guessed,
        "outside": advice.outside,
        "left_out": advice.left_out,
        "transfers": sum(each.count for each in known.traffic),
    }


def _costs(cost: Cost) -> dict[str, float]:
    return {"time_s": cost.time_s, "full_time_s": cost.full_s, "time_ratio": cost.ratio}


def _default(advice: Advice) -> dict[str, Any] | None:
    if advice.default is None or advice.default_cost is None:
        return None
    return {"settings": dict(advice.default.values), "predicted": _costs(advice.default_cost)}


def _comments(engine: Engine, advice: Advice, known: Known) -> Iterator[str]:
    if known.profile.device.simulated:
        yield "SIMULATED: these values are of no real device."
    yield f"Settings of {engine.name} by pega-tune, {_origin(known.profile)}."
    transfers = counted(sum(each.count for each in known.traffic), "transfer")
    yield (
        f"For {transfers} of {counted(len(known.traffic), 'shape')}: {_ratio(advice.cost)} as long as with what Auto "
        f"answers an engine that can run every plan (runtime full), by {advice.basis}."
    )
    if advice.default is not None and advice.default_cost is not None:
        yield f"The default ({_spelt(advice.default.values)}) takes {_ratio(advice.default_cost)} as long."
    yield _stall(advice)
    yield f"What was measured in place of the engine's own code: {engine.stands}."
    if advice.guessed > 0:
        yield (
            f"{advice.guessed:.0%} of the transfers load in one way and save in another at once, which was not "
            "measured: they are taken for as long as the slower of the two."
        )
    if advice.outside > 0:
        yield f"{advice.outside:.0%} of the bytes move in shapes outside what was measured: their times are guesses."
    if advice.left_out > 0:
        yield f"{advice.left_out:.0%} of the bytes move in shapes that were left out, as they are too many."


def _origin(profile: StoredProfile) -> str:
    made = profile.created_at.isoformat(timespec="seconds")
    return f"from profile {profile.profile_id} of {profile.device.uuid} ({profile.device.provenance.name}), {made}"


def _stall(advice: Advice) -> str:
    stall = advice.stall
    if stall is None:
        return "What it costs decode was not measured."
    part = "" if stall.share > 0.995 else f" This is known of {stall.share:.0%} of the transfers."
    return (
        f"With these settings a burst stalls decode ({stall.colocation}) by {stall.stall_s * 1e6:.0f} us, with what "
        f"Auto answers by {stall.full_s * 1e6:.0f} us.{part}"
    )


def _ratio(cost: Cost) -> str:
    return f"{cost.ratio:.2f} times"


def _spelt(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
