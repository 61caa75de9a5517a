"""Which cache of compiled kernels engines use."""

from pega_tune.autotune.cuda.compile_cache import user_compile_cache


def test_it_is_where_the_variable_says_and_knows_the_compilers_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("PEGA_TUNE_CACHE", str(tmp_path))
    monkeypatch.setenv("NUMBA_OPT", "2")
    cache = user_compile_cache()
    assert cache.directory == tmp_path / "kernels"
    assert ("NUMBA_OPT", "2") in cache.variables


def test_an_empty_variable_turns_it_off(monkeypatch):
    monkeypatch.setenv("PEGA_TUNE_CACHE", "")
    assert user_compile_cache().directory is None
