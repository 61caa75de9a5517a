"""Whether stored tables are whole, and those of another device of a family, say of a whole GPU, run on this one."""

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.plan import CopyPlan, PlanPair
from pega_tune.profiles.policy.compiled import decode, digest
from pega_tune.profiles.policy.errors import PolicyFormatError
from pega_tune.profiles.policy.table import CompiledPolicy


def usable_policy(compiled: object, digested: str, device: DeviceFacts) -> CompiledPolicy:
    """The tables of a stored profile, whoever looks it up.

    Args:
        compiled: as they are stored.
        digested: what their digest was.
        device: to be asked about.

    Raises:
        PolicyFormatError: they are damaged or of another format, or the device cannot run them.
    """
    if not isinstance(compiled, bytes) or digest(compiled) != digested:
        raise PolicyFormatError("its tables are damaged: the digest differs")
    policy = decode(compiled)
    require_sms(policy, device)
    return policy


def require_sms(policy: CompiledPolicy, device: DeviceFacts) -> None:
    """Refuses tables with a plan for more SMs than the device has.

    Raises:
        PolicyFormatError: as said; the message names the plan.
    """
    sms = device.identity.sm_count
    for plan in plans_of(policy):
        if plan.sm_partition is not None and plan.sm_partition > sms:
            raise PolicyFormatError(f"the plan {plan.key} asks for more SMs than the {sms} of {device.uuid}")


def plans_of(policy: CompiledPolicy) -> frozenset[CopyPlan]:
    """Every plan in the tables, pairs taken apart."""
    # By identity first: tens of thousands of cells share some hundred lists, and comparing those takes long.
    lists = {id(options): options for table in policy.tables for options in table.cells}
    plans = {id(option.plan): option.plan for options in lists.values() for option in options}
    legs = ((plan.load, plan.save) if isinstance(plan, PlanPair) else (plan,) for plan in plans.values())
    return frozenset(leg for pair in legs for leg in pair)
