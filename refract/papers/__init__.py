"""Published tables, recomputed from recorded answers and labels, each number beside the published one.

To add a paper: write its :class:`refract.papers.cells.Paper` in a module of its own, with the source of
every published number, and name it in ``PAPERS``. A published number without a source is left out.
"""

from __future__ import annotations

from refract.core.registry import Registry, find
from refract.papers.cells import Paper

PAPERS = Registry(
    {
        "do_not_answer": "refract.papers.do_not_answer:PAPER",
        "harmbench": "refract.papers.harmbench:PAPER",
        "jailbreakbench": "refract.papers.jailbreakbench:PAPER",
        "refusalbench": "refract.papers.refusalbench:PAPER",
        "wildguardtest": "refract.papers.wildguardtest:PAPER",
        "xstest": "refract.papers.xstest:PAPER",
    },
    "refract.papers",
    "cells",
)


def open_paper(name: str) -> Paper:
    """The paper of that name. Raises :class:`ParamsError` for an unknown name."""
    paper: Paper = find(PAPERS, name, "reproduce-paper: the paper")
    return paper
