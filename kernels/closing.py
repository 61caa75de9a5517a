"""What owns something that must be given back."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """An owner that a `with` block closes at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Gives back what is owned; calling it again does nothing."""
