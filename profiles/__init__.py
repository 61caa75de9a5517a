"""What was learnt: policies that answer at run time, and the store they come from."""
