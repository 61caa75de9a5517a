"""Whether a profile is still true of its device: some of its shapes measured again, and compared with the store."""
