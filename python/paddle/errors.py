"""Exceptions of the package: each is also the built-in exception that fits it best."""


class Error(Exception):
    """Anything that this package raises on purpose."""

    at: str | None = None
    """The line of the user's program that is wrong, `file:line`, where it is known."""


class InvalidError(Error, ValueError):
    """The call can never work as asked: fix its arguments."""


class WrongTypeError(InvalidError, TypeError):
    """An argument is missing, unknown or of another type than accepted."""


class NotFoundError(Error, FileNotFoundError):
    """The thing named does not exist."""


class AlreadyExistsError(Error, FileExistsError):
    """The thing to be created is there already."""


class UnauthenticatedError(Error, PermissionError):
    """The caller has not proved who it is."""


class ForbiddenError(Error, PermissionError):
    """The caller may not do this."""


class ConflictError(Error, RuntimeError):
    """The state of the thing does not allow this now."""


class LimitExceededError(Error, ValueError):
    """A limit on size, count or memory would be exceeded."""


class DamagedError(Error, OSError):
    """Bytes from a disk or a peer are not what they claim to be."""


class UnsupportedError(Error, RuntimeError):
    """Known, and deliberately or not yet supported."""


class MissingNameError(UnsupportedError, AttributeError):
    """A module has no such name, or not yet; an `AttributeError`, so that `hasattr` works."""


class UnavailableError(Error, ConnectionError):
    """A peer or a resource cannot be reached now; trying again may help."""


class DeadlineError(Error, TimeoutError):
    """It took longer than allowed; trying again may help."""


class InterruptedByUserError(KeyboardInterrupt):
    """Somebody asked to stop; not an `Error`, so that `except Exception` lets it pass."""


class SystemError(Error, OSError):
    """The operating system refused."""
