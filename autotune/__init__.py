"""How it is learnt: engines, plan space, measuring, statistics, policy compiler, sweeps and the command line."""
