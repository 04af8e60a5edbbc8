"""The errors that covary raises: each message says what was expected, what was got, and what to do."""


class CovaryError(Exception):
    """Base of all errors that covary raises.

    Example:
        >>> from covary import Categorical
        >>> from covary.errors import CovaryError
        >>> try:
        ...     Categorical(temperature=-1.0)
        ... except CovaryError as error:
        ...     print(error)
        temperature must be finite and above 0, got -1.0. Pass a positive number.
    """


class ShapeError(CovaryError, ValueError):
    """A tensor has a wrong shape.

    Example:
        >>> import torch
        >>> from covary.groups import warp
        >>> warp(torch.zeros(8, 8), torch.eye(3))
        Traceback (most recent call last):
        covary.errors.ShapeError: Images must be (N, C, H, W), got (8, 8). Add missing axes with [:, None].
    """


class DataError(CovaryError, ValueError):
    """The data cannot be used: empty, not finite, of a wrong type or out of range.

    Example:
        >>> from covary import Gaussian
        >>> Gaussian(sigma_noise=0.0)
        Traceback (most recent call last):
        covary.errors.DataError: sigma_noise must be finite and above 0, got 0.0. Pass a positive number.
    """


class StructureError(CovaryError, ValueError):
    """A setting has an unknown value, or two settings exclude each other.

    Example:
        >>> from covary.groups import cyclic
        >>> cyclic(0)
        Traceback (most recent call last):
        covary.errors.StructureError: Expected an order of 1 or more, got 0. Pass the number of elements.
    """


class NotPositiveDefiniteError(CovaryError, ArithmeticError):
    """A matrix whose log-determinant or inverse is needed has an eigenvalue that is not above zero.

    Example:
        >>> import torch
        >>> from covary.errors import NotPositiveDefiniteError
        >>> from covary.linalg import Diagonal
        >>> try:
        ...     Diagonal(torch.zeros(2)).logdet()
        ... except NotPositiveDefiniteError:
        ...     print(Diagonal(torch.zeros(2)).logdet(shift=1.0))
        tensor(0.)
    """


class UnsupportedLayerError(CovaryError, TypeError):
    """A network whose curvature is not defined, because data depend on each other, or would be wrong.

    Example:
        >>> import torch
        >>> from covary.curvature import kfac
        >>> from covary.errors import UnsupportedLayerError
        >>> try:
        ...     kfac(torch.nn.BatchNorm1d(3), (torch.randn(4, 3), torch.zeros(4, dtype=torch.long)))
        ... except UnsupportedLayerError as error:
        ...     print(str(error)[:49])
        Module '' (BatchNorm1d) uses statistics of the ba
    """


class CaptureError(CovaryError, RuntimeError):
    """The captured forward pass is invalid, for example because an input was overwritten in place.

    Example:
        >>> from covary.errors import CaptureError, CovaryError
        >>> issubclass(CaptureError, CovaryError) and issubclass(CaptureError, RuntimeError)
        True
    """


class ChartError(CovaryError, ValueError):
    """A point is outside the domain of a chart, or an expression mixes objects of different charts or points.

    Example:
        >>> from covary.errors import ChartError, CovaryError
        >>> issubclass(ChartError, CovaryError) and issubclass(ChartError, ValueError)
        True
    """


class KindError(CovaryError, TypeError):
    """Geometric objects that cannot be combined, such as a vector plus a covector.

    Example:
        >>> from covary.errors import CovaryError, KindError
        >>> issubclass(KindError, CovaryError) and issubclass(KindError, TypeError)
        True
    """


class NumericalError(CovaryError, ArithmeticError):
    """A number that must be finite is not.

    Example:
        >>> from covary.errors import CovaryError, NumericalError
        >>> issubclass(NumericalError, CovaryError) and issubclass(NumericalError, ArithmeticError)
        True
    """


class Interrupted(CovaryError, RuntimeError):
    """Training was stopped by a signal; its state is in a checkpoint.

    Example:
        >>> from covary.errors import Interrupted
        >>> Interrupted("Stopped after 3 epochs.", signal_number=15).signal_number
        15
    """

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number


class MissingLibraryError(CovaryError, ImportError):
    """An optional library that an integration needs is not installed.

    Arguments:
        library: The name of the library.
        extra: The extra of covary that installs it.

    Example:
        >>> from covary.errors import MissingLibraryError
        >>> print(MissingLibraryError("lightning", "lightning"))
        Expected the library 'lightning', which is not installed. Run: pip install "covary[lightning]"
    """

    def __init__(self, library: str, extra: str) -> None:
        message = f"Expected the library '{library}', which is not installed."
        super().__init__(f'{message} Run: pip install "covary[{extra}]"')
