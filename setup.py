"""Puts what stands outside the package into the wheel: the default params.yaml, suites and stages."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithDefaults(build_py):
    """An editable install reads those files where they are."""

    def run(self):
        super().run()
        if not self.editable_mode:
            for pattern in ("params.yaml", "data/suites/*", "stages/*.py"):
                for path in Path().glob(pattern):
                    target = Path(self.build_lib, "refract/defaults", path)
                    self.mkpath(str(target.parent))
                    self.copy_file(str(path), str(target))


setup(cmdclass={"build_py": BuildWithDefaults})
