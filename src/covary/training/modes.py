"""Training and evaluation mode: a module that was in evaluation mode when a fit started stays there.

BatchNorm in evaluation mode keeps its running statistics, dropout is off. Weight steps put every other module into
training mode; hyper steps and evaluations run in evaluation mode.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from torch import nn

from .._text import warn
from ..priors import weights_of

STATISTICS = (nn.modules.batchnorm._NormBase,)  # BatchNorm and InstanceNorm: they may keep running statistics
RANDOM = (nn.modules.dropout._DropoutNd, nn.RReLU)


def evaluation_modules(network: nn.Module) -> tuple[str, ...]:
    """Names of the modules in evaluation mode, in the order of `named_modules`; the network itself is ''."""
    return tuple(name for name, module in network.named_modules() if not module.training)


def set_training(network: nn.Module, evaluated: Collection[str]) -> None:
    """Put every module into training mode, except those with these names, which are put into evaluation mode."""
    keep = set(evaluated)
    modes = {id(module): name not in keep for name, module in network.named_modules()}
    _set(network, modes)


@contextmanager
def evaluation(network: nn.Module) -> Iterator[None]:
    """Evaluation mode of all modules for a while; their own modes afterwards, whatever happens."""
    before = evaluation_modules(network)
    network.eval()
    try:
        yield
    finally:
        set_training(network, before)


def warn_of_modes(network: nn.Module) -> None:
    """Warn if all that is trained is in evaluation mode and that matters, or if frozen statistics would change."""
    modules = {name: module for name, module in network.named_modules() if _depends_on_mode(module)}
    weights = {id(weight) for weight in weights_of(network).values()}
    trained = [m for m in network.modules() if any(id(p) in weights for p in m.parameters(recurse=False))]
    if modules and not any(module.training for module in [*trained, *modules.values()]):
        name, module = next(iter(modules.items()))
        warn(
            f"The network is in evaluation mode, and '{name}' ({type(module).__name__}) stays in it during training. "
            "Call network.train() before fit if it should not.",
        )
    for name, module in modules.items():
        own = list(module.parameters(recurse=False))
        if isinstance(module, STATISTICS) and module.training and own and not any(p.requires_grad for p in own):
            warn(
                f"The parameters of '{name}' ({type(module).__name__}) are frozen, but it is in training mode: its "
                "running statistics will change. Call eval() on it before fit to keep them.",
            )
            return


def _set(module: nn.Module, modes: dict[int, bool]) -> None:
    """Set modes by as few calls of `train` as possible: modules may override it."""
    wanted = {modes[id(part)] for part in module.modules()}
    if len(wanted) == 1:
        module.train(wanted.pop())
        return
    module.training = modes[id(module)]
    for child in module.children():
        _set(child, modes)


def _depends_on_mode(module: nn.Module) -> bool:
    if isinstance(module, STATISTICS):
        return bool(module.track_running_stats)
    return isinstance(module, RANDOM) and getattr(module, "p", 1.0) > 0
