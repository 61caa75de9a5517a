from pega_tune.autotune.cli.output import fields, table


def test_a_table_is_aligned_and_never_cut() -> None:
    long = "GPU-" + "0" * 200
    assert table(("A", "LONG"), [("1", long), ("22", "x")]) == ["A   LONG", f"1   {long}", "22  x"]


def test_a_table_without_rows_shows_its_headings() -> None:
    assert table(("A", "B"), []) == ["A  B"]


def test_fields_leave_out_what_is_empty() -> None:
    assert fields([("plan", "direct"), ("stall", ""), ("tier", "rule")]) == ["plan: direct", "tier: rule"]
