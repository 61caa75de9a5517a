"""The cache of compiled kernels that engines and their decode use."""

from pega_tune.kernels.compile_cache import CompileCache
from pega_tune.profiles.policy.settings import compile_cache_directory, compiler_variables


def user_compile_cache() -> CompileCache:
    """The user's, which `PEGA_TUNE_CACHE` moves or turns off."""
    return CompileCache(compile_cache_directory(), compiler_variables())
