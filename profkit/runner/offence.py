"""What a candidate did that no measurement can be built on, with the name it is reported by.

The names are statuses of an implementation, beside "mismatch" and its like:

    patched             a function of torch, Python or profkit was replaced
    mutates-inputs      the inputs were changed, and the reference leaves them alone
    caches-results      an answer was kept and given again for other data
    lazy-output         what came back is not a result yet, but something that makes one when looked at
    works-after-return  the answer was finished after the call had returned
    works-before-call   the work was begun when its data came, before it was asked for
    side-stream         the answer was made on a stream that the caller's does not wait for
    unwritten-output    the answer is what lay in memory that was freed before
    timer-lie           its process reports times that its calls do not take, seen from another process
    stops-computing     timed calls give old or no answers where the checked ones were right
"""

from __future__ import annotations


class OffenceError(Exception):
    """`status`: one of the names above; the text says what was seen. `impl`: whose it is, where it may be seen out of the
    offender's turn.
    """

    impl: str

    def __init__(self, status: str, what: str) -> None:
        super().__init__(what)
        self.status = status
