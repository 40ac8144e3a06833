"""The roofline figure: a pure function of a scene (plot.draw), and the waterfall (steps.draw_steps)."""
