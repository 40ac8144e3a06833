"""Limits of the machine: device sheets, ceilings, micro-benchmarks, roofline figure."""
