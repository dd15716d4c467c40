"""The report: rates in; Markdown pages, figures and one HTML page out.

:mod:`refract.report.view` reads what all of them are made of, as plain data. To add a section to
``metrics/report.md`` or a page behind it: a template beside the others in ``templates/front`` or
``templates/pages``, and a line in ``FRONT`` or ``PAGES`` of :mod:`refract.report.sections`, with a
function that gives what the section shows beyond the view, if anything. The columns of its tables
stand in ``templates/tables.yaml``. In a template every value is escaped, and filters write rates
(``rate|rate``), numbers and names. To add a figure: an entry of ``templates/figures.yaml``, and in
:mod:`refract.report.figure_data` a function that gives its marks.
"""
