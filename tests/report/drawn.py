"""What an SVG holds, read back as XML."""

import warnings
from xml.etree import ElementTree

from matplotlib.figure import Figure

from covary.report import svg

SVG = "{http://www.w3.org/2000/svg}"


def tree(figure: Figure) -> ElementTree.Element:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a layout that does not come about is only a warning
        return ElementTree.fromstring(svg(figure))


def texts(figure: Figure) -> list[str]:
    return ["".join(element.itertext()) for element in tree(figure).iter(f"{SVG}text")]


def number_of(figure: Figure, tag: str) -> int:
    return len(list(tree(figure).iter(f"{SVG}{tag}")))


def identifiers(figure: Figure) -> list[str]:
    return [element.attrib["id"] for element in tree(figure).iter() if "id" in element.attrib]
