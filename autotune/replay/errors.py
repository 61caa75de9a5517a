"""Why a recording is refused, or has no answer."""

from pega_tune.errors import DataError, DeviceError


class RecordingError(DataError):
    """A file is no recording, or not one of this version."""

    code = "recording"


class NotRecordedError(DeviceError):
    """A recording has nothing of what is to be measured."""

    code = "not-recorded"
