"""Prints the fitted numbers of the simulated devices as their rows give them: `python -m tests.bench.fit_simulator`."""

from tests.helpers.sim_fitting import H200, RTX5090, fitted, slice_s
from tests.helpers.sim_rows import device

if __name__ == "__main__":
    print(f"rtx5090 slice_s {slice_s(device('rtx5090')):.3g}")
    for name, fits in (("rtx5090", RTX5090), ("h200", H200)):
        found = fitted(name, fits)
        for fit in fits:
            value = getattr(found.serving, fit.name)
            print(f"{name} {fit.name} {value:.4g}: {fit.row} {fit.target:.4g}, simulated {fit.seen(found):.4g}")
