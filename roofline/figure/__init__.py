"""The roofline figure (plot.draw) and the waterfall (steps.draw_steps)."""
