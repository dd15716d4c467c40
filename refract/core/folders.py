"""Where Refract keeps files that belong to the user and not to a project."""

from __future__ import annotations

import os
from pathlib import Path

OFF = ("off", "0", "none", "no", "false")


def default_cache_folder() -> Path:
    """The folder for this program's caches that the operating system names."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("refract", appauthor=False))


def data_folder() -> Path:
    """The folder of files that the program got for the user and keeps: ``REFRACT_DATA``, or the one
    that the operating system names."""
    setting = os.environ.get("REFRACT_DATA", "").strip()
    if setting:
        return Path(setting).expanduser().resolve()
    import platformdirs

    return Path(platformdirs.user_data_dir("refract", appauthor=False))


def cache_folder() -> Path | None:
    """The folder of the response store; None where ``REFRACT_CACHE`` turns the store off."""
    setting = os.environ.get("REFRACT_CACHE", "").strip()
    if setting.lower() in OFF:
        return None
    return Path(setting).expanduser().resolve() if setting else default_cache_folder()
