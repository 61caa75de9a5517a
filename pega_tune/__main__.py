"""`python -m pega_tune` is the same program as `pega-tune`."""

from pega_tune.autotune.cli.main import main

if __name__ == "__main__":
    main()
