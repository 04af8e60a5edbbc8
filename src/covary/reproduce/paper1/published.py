"""What paper 1 prints: test accuracies in % and log evidences in thousands of nats, as mean and standard error.

Tables 1 and 2. Columns are the versions of the data in the order of `recover.VERSIONS`: fully rotated, partially
rotated, translated, scaled, original. Networks were trained on all images, 60,000 or of CIFAR-10 50,000, for 1,000 or
200 epochs, with three seeds.
"""

NUM_IMAGES = {"mnist": 60_000, "fashion-mnist": 60_000, "cifar-10": 50_000}
# (data, network) -> method -> test accuracy of each version
ACCURACY: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {
    ("mnist", "mlp"): {
        "plain": (93.82, 95.83, 94.15, 97.07, 98.20),
        "augerino": (97.83, 96.35, 94.47, 97.45, 98.45),
        "learned": (97.74, 97.81, 97.28, 98.33, 98.98),
    },
    ("mnist", "cnn"): {
        "plain": (95.97, 97.51, 96.54, 98.37, 99.09),
        "augerino": (99.04, 98.91, 97.79, 98.77, 98.26),
        "learned": (98.83, 98.92, 98.69, 99.01, 99.42),
    },
    ("fashion-mnist", "mlp"): {
        "plain": (77.62, 81.10, 77.68, 81.84, 88.48),
        "augerino": (77.76, 81.40, 78.05, 82.46, 89.10),
        "learned": (87.39, 86.72, 84.62, 84.31, 89.94),
    },
    ("fashion-mnist", "cnn"): {
        "plain": (78.69, 82.12, 80.33, 83.66, 89.54),
        "augerino": (85.76, 81.54, 82.94, 83.58, 90.07),
        "learned": (89.45, 88.40, 87.73, 87.33, 91.92),
    },
    ("cifar-10", "resnet-8-8"): {
        "plain": (51.14, 55.29, 64.84, 59.81, 69.74),
        "augerino": (70.88, 70.95, 74.44, 70.67, 79.34),
        "learned": (71.06, 73.03, 74.18, 71.54, 80.22),
    },
    ("cifar-10", "resnet-8-16"): {
        "plain": (54.16, 59.90, 69.65, 66.06, 74.13),
        "augerino": (75.40, 74.76, 73.71, 72.07, 79.03),
        "learned": (79.50, 77.71, 79.21, 76.03, 84.19),
    },
    ("cifar-10", "resnet-14-16"): {  # Table 2: the original images alone
        "plain": (79.5,),
        "augerino": (83.0,),
        "learned": (88.1,),
    },
}
# (data, network) -> method -> log evidence of each version; Augerino has none
THOUSANDS: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {
    ("mnist", "mlp"): {"plain": (-31.3, -23.1, -36.0, -17.5, -10.5), "learned": (-9.7, -10.5, -14.5, -11.3, -6.2)},
    ("mnist", "cnn"): {"plain": (-14.6, -10.7, -16.5, -9.5, -5.0), "learned": (-6.9, -7.2, -8.6, -7.5, -4.3)},
    ("fashion-mnist", "mlp"): {
        "plain": (-55.1, -46.2, -52.4, -39.2, -25.5),
        "learned": (-29.3, -29.4, -36.6, -34.7, -22.6),
    },
    ("fashion-mnist", "cnn"): {
        "plain": (-58.7, -49.9, -53.8, -43.3, -28.9),
        "learned": (-26.5, -27.2, -29.2, -30.1, -21.0),
    },
    ("cifar-10", "resnet-8-8"): {
        "plain": (-73.1, -67.5, -53.7, -59.3, -46.5),
        "learned": (-51.1, -47.8, -38.6, -41.7, -31.2),
    },
    ("cifar-10", "resnet-8-16"): {
        "plain": (-80.9, -72.8, -56.2, -62.0, -46.1),
        "learned": (-43.1, -38.7, -35.4, -40.2, -30.2),
    },
    ("cifar-10", "resnet-14-16"): {"plain": (-40.7,), "learned": (-8.4,)},
}
COLUMNS = ("fully rotated", "partially rotated", "translated", "scaled", "original")


def accuracy(data: str, network: str, method: str, version: str) -> float | None:
    """The test accuracy that the paper prints, in %; None where it has none."""
    return _entry(ACCURACY.get((data, network), {}).get(method, ()), version)


def evidence(data: str, network: str, method: str, version: str) -> float | None:
    """The log evidence per image that the paper prints, in nats; None where it has none."""
    found = _entry(THOUSANDS.get((data, network), {}).get(method, ()), version)
    return None if found is None else 1000 * found / NUM_IMAGES[data]


def _entry(row: tuple[float, ...], version: str) -> float | None:
    """The entry of a version in a row, which has all columns or the last one alone."""
    columns = COLUMNS[-len(row) :] if row else ()
    return dict(zip(columns, row, strict=True)).get(version)
