"""The report: the tables of all models in; a Markdown page, figures and one HTML page out."""
