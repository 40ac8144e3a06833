"""What is said of a Study, once, for every writer: sentences and tables, without their form."""

from __future__ import annotations

from profkit.report.sections.answer import device as device
from profkit.report.sections.answer import first_lines as first_lines
from profkit.report.sections.answer import launched as launched
from profkit.report.sections.answer import many as many
from profkit.report.sections.answer import per as per
from profkit.report.sections.answer import sentences as sentences
from profkit.report.sections.answer import slowed as slowed
from profkit.report.sections.answer import spread as spread
from profkit.report.sections.answer import title as title
from profkit.report.sections.answer import wall_time as wall_time
from profkit.report.sections.caveats import ASIDE as ASIDE
from profkit.report.sections.caveats import Said as Said
from profkit.report.sections.caveats import all_caveats as all_caveats
from profkit.report.sections.caveats import caveat_line as caveat_line
from profkit.report.sections.caveats import concerning as concerning
from profkit.report.sections.caveats import last_lines as last_lines
from profkit.report.sections.caveats import more_caveats as more_caveats
from profkit.report.sections.caveats import sanitizer_lines as sanitizer_lines
from profkit.report.sections.caveats import that_matter as that_matter
from profkit.report.sections.kernels import holes_tables as holes_tables
from profkit.report.sections.kernels import kernel_note as kernel_note
from profkit.report.sections.kernels import kernels_table as kernels_table
from profkit.report.sections.kernels import timeline_lines as timeline_lines
from profkit.report.sections.method import again as again
from profkit.report.sections.method import below_least as below_least
from profkit.report.sections.method import cache_of as cache_of
from profkit.report.sections.method import counters_line as counters_line
from profkit.report.sections.method import facts as facts
from profkit.report.sections.method import inferred_lines as inferred_lines
from profkit.report.sections.method import kernel_times_line as kernel_times_line
from profkit.report.sections.method import noted_line as noted_line
from profkit.report.sections.method import paired_line as paired_line
from profkit.report.sections.method import placed as placed
from profkit.report.sections.method import timing_line as timing_line
from profkit.report.sections.method import uncounted_line as uncounted_line
from profkit.report.sections.parts import correctness as correctness
from profkit.report.sections.parts import echoes as echoes
from profkit.report.sections.parts import overview as overview
from profkit.report.sections.parts import parts_table as parts_table
from profkit.report.sections.parts import passes_table as passes_table
from profkit.report.sections.parts import shapes_table as shapes_table
from profkit.report.sections.parts import speedup as speedup
from profkit.report.sections.parts import tried as tried
