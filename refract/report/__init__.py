"""The report: rates in; Markdown pages, figures and one HTML page out.

:mod:`refract.report.view` reads what all of them are made of, as plain data. To add a
section to ``metrics/report.md`` or a page behind it: a template beside the others in
``templates/front`` or ``templates/pages``, and a line in ``FRONT`` or ``PAGES`` of
:mod:`refract.report.sections`, with a function that gives what the section shows beyond
the view, if anything. The columns of its tables stand in :mod:`refract.report.table_columns`,
sentences in :mod:`refract.report.sentences`. A template lays out, and every value in it is
escaped. To add a figure: an entry and a function of its marks in
:mod:`refract.report.figure_data`.
"""
