"""PegaFlow: which backend an instance uses, for loads and saves alike."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from pega_tune.autotune.settings.setting import Setting, Value
from pega_tune.autotune.settings.times import Times
from pega_tune.autotune.sweep.plans import pegaflow_kernel
from pega_tune.kernels.plan import direct

BACKEND: Final = "pegaflow.transfer_backend"
"""Source: pegaflow, `python/pegaflow/connector/common.py`, `resolve_transfer_backend`."""

_CONNECTOR: Final = {
    "kv_connector": "PegaKVConnector",
    "kv_role": "kv_both",
    "kv_connector_module_path": "pegaflow.connector",
}


class PegaFlow:
    """Implements `Engine`."""

    name = "pegaflow"
    stands = "one memcpy per range for direct; CTAs of 256 threads, one for each range, for kernel"

    def settings(self, times: Times, sm_count: int) -> Iterator[Setting]:  # noqa: ARG002
        """Both backends."""
        for word, plan in (("direct", direct()), ("kernel", pegaflow_kernel())):
            if times.is_known(plan, plan):
                yield Setting.uniform({BACKEND: word}, plan, plan)

    def default(self, times: Times) -> Setting | None:  # noqa: ARG002
        """It depends on the model, of which nothing is known here."""
        return None

    def lines(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """An option of `vllm serve`."""
        config = json.dumps({**_CONNECTOR, "kv_connector_extra_config": dict(values)})
        return ("# An option of vllm serve:", f"--kv-transfer-config '{config}'")
