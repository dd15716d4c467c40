"""Settings under which matplotlib draws an SVG whose bytes depend on the numbers alone."""

SETTINGS = {
    "svg.hashsalt": "refract",  # element ids, otherwise random
    "svg.fonttype": "none",  # text stays text
    "font.family": "DejaVu Sans",  # ships with matplotlib
    "font.size": 9,
}
