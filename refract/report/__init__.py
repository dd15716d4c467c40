"""The report: rates in; Markdown pages, figures and one HTML page out.

:mod:`refract.report.view` reads what all of them are made of. :mod:`refract.report.sections` says
how a section is added; a figure is an entry and a function of its marks in
:mod:`refract.report.figure_data`."""
