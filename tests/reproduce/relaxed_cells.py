"""Cells of the studies of layer-wise equivariance, as training might give them."""

from covary.records import Evidence, Layer, LayerPath, Metrics
from covary.reproduce.paper2.layer_study import EVIDENCE, SMOKE, Cell, Cells, Scale
from covary.reproduce.study import Request


def layer(number: int, shares: dict[str, float]) -> Layer:
    paths = [LayerPath(name, 10, {"weight": 1.0}, 1.0, 5.0, 0.5, share, share < 0.01) for name, share in shares.items()]
    return Layer(f"network.blocks.{number}", max(shares, key=lambda name: shares[name]), paths, None, None)


def cell(
    data: str,
    network: str,
    method: str,
    accuracy: float,
    shares: list[dict[str, float]] | None = None,
    loss: float = 0.5,
) -> Cell:
    """One cell; shares of paths, one mapping per layer, belong to those that followed the evidence."""
    evidence = Evidence(-80.0, -30.0, 10.0, -100.0, 50, "kron", "exact") if method == EVIDENCE else None
    layers = [layer(number, found) for number, found in enumerate(shares or [])]
    return Cell(data, network, method, 1234, Metrics(accuracy, loss, 0.1, 100, 1), evidence, layers, 60.0)


def cells_of(found: list[Cell], scale: Scale | None = None, request: Request | None = None) -> Cells:
    return Cells(found, scale or Scale(1, None, 8, SMOKE), request or Request())
