"""The errors that users meet: each says what was expected, what came, what to do."""


class CovaryError(Exception):
    """Base of every error that covary raises on purpose."""


class ShapeError(CovaryError, ValueError):
    """A tensor has another shape than its place asks for."""


class DataError(CovaryError, ValueError):
    """The data cannot be used as they are: empty, not finite, of the wrong type or out of range."""


class StructureError(CovaryError, ValueError):
    """Two choices that exclude each other, such as a diagonal prior with Kronecker curvature."""


class NotPositiveDefiniteError(CovaryError, ArithmeticError):
    """A matrix whose log-determinant or inverse is needed has an eigenvalue that is not above zero."""


class UnsupportedLayerError(CovaryError, TypeError):
    """A parameter is used in a way that no curvature rule covers."""


class CaptureError(CovaryError, RuntimeError):
    """What was captured in the forward pass no longer holds, such as an input overwritten in place."""


class ChartError(CovaryError, ValueError):
    """A point outside the domain of a chart, or objects of different charts or points in one expression."""


class KindError(CovaryError, TypeError):
    """Geometric objects that do not go together, such as a vector plus a covector."""


class NumericalError(CovaryError, ArithmeticError):
    """A number that must be finite is not."""


class Interrupted(CovaryError, RuntimeError):
    """Training was told by a signal to end before its time; what it had reached is in a checkpoint."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number
