"""The command line: it parses, calls, prints and chooses the exit code; nothing below it does any of these."""
