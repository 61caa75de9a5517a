import pytest

from pega_tune.autotune.compiler_check import CompilerError, check_compiler


def test_a_kernel_is_compiled_in_a_child() -> None:
    assert check_compiler((9, 0)) > 0


def test_what_the_compiler_refuses_is_told_in_one_line() -> None:
    with pytest.raises(CompilerError) as caught:
        check_compiler((1, 0))
    assert caught.value.message
    assert "\n" not in caught.value.message


def test_a_compiler_that_does_not_end_is_ended() -> None:
    with pytest.raises(CompilerError, match="did not end within 0 s"):
        check_compiler((9, 0), limit_s=0.0)
