from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def packages(request):
    """The publishers' wheels, or the test is skipped; see publisher_packages.py."""
    from publisher_packages import downloaded

    return downloaded(request.config.cache)
