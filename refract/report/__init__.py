"""The report: rates in; Markdown pages, figures and one HTML page out.

:mod:`refract.report.view` reads what all of them are made of, as plain data. To add a section to
``metrics/report.md`` or a page behind it: a function in :mod:`refract.report.sections` that gives what
the section shows beyond the view, a template beside the others in ``templates/front`` or
``templates/pages``, and a line with both in ``FRONT`` or ``PAGES`` (the function may be left out). In a
template every value is escaped, and filters write rates (``rate|rate``), numbers and names. To add a
figure: a function in :mod:`refract.report.figure_data`, named in ``figures_of``.
"""
