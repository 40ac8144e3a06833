"""The roofline figure (plot.draw), the waterfall and the stacked bars (bars)."""
