"""Charts: coordinates of parameter space and the maps between them.

`chart.py` has `Chart` and `Atlas`; `standard.py` scalings, affine maps, element-wise functions and invertible modules;
`polar.py` lengths and directions of weight vectors; `network.py` a network as a function of a flat vector or of the
coordinates of a chart.
"""
