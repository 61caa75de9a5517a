"""What is refused about bundles."""

from pega_tune.errors import DataError


class BundleError(DataError):
    """A file is no bundle of a profile, or one that must not be used."""

    code = "bad-bundle"
