"""An engine in a child process: the messages, the child's loop, and the parent's hold on it."""
