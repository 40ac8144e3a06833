"""Limits of the machine: datasheets, ceilings, micro-benchmarks, roofline figure."""
