"""The engines that can be told something, by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pega_tune.autotune.settings.flexkv import FlexKV
from pega_tune.autotune.settings.pegaflow import PegaFlow
from pega_tune.autotune.settings.setting import Engine
from pega_tune.autotune.settings.sglang import SGLang
from pega_tune.autotune.settings.tokenspeed import TokenSpeed
from pega_tune.autotune.settings.vllm import VLLM

_ALL: Final[tuple[Engine, ...]] = (PegaFlow(), VLLM(), SGLang(), FlexKV(), TokenSpeed())

ENGINES: Final[Mapping[str, Engine]] = MappingProxyType({engine.name: engine for engine in _ALL})
