"""Charts and metrics from their definitions, by reverse-mode derivatives and loops over indices."""

from torch import Tensor
from torch.autograd.functional import jacobian as reverse_jacobian


def jacobian(function, point: Tensor) -> Tensor:
    """∂ψ/∂θ row by row."""
    return reverse_jacobian(function, point)


def christoffel(matrix, point: Tensor) -> Tensor:
    """Γ^k_ij of a matrix field, index by index."""
    inverse, slopes = matrix(point).inverse(), reverse_jacobian(matrix, point)
    size = len(point)
    symbols = point.new_zeros(size, size, size)
    for k in range(size):
        for i in range(size):
            for j in range(size):
                for m in range(size):
                    term = slopes[m, j, i] + slopes[m, i, j] - slopes[i, j, m]
                    symbols[k, i, j] += 0.5 * inverse[k, m] * term
    return symbols


def second_derivative_along(loss, point: Tensor, direction: Tensor) -> Tensor:
    """d²/dt² of the loss on the straight line through the point."""
    start = point.new_zeros(())
    return reverse_jacobian(
        lambda t: reverse_jacobian(lambda s: loss(point + s * direction), t, create_graph=True), start
    )
