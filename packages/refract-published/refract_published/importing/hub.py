"""Files of data sets on the Hugging Face hub, at a commit."""

from __future__ import annotations

import re
from pathlib import Path

from refract.core.errors import UsageError

# The address of a file: its data set, revision and path.
ON_HUB = r"https://huggingface\.co/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)"


def page_of(file: str) -> str:
    """The page of the data set or repository that a file belongs to, by the file's address."""
    file = re.sub(r"^(https://huggingface\.co/datasets/[^/]+/[^/]+).*", r"\1", file)
    raw = r"^https://raw\.githubusercontent\.com/([^/]+/[^/]+)/.*"
    return re.sub(raw, r"https://github.com/\1", file)


def hub_file(dataset: str, name: str, revision: str) -> tuple[Path, str]:
    """A file of a data set in the local cache of the hub, downloaded once, and its address with the
    commit. ``revision`` is a commit, a tag or a branch.

    A token is read where ``hf auth login`` puts it, or from ``HF_TOKEN``. A commit that is in the
    cache needs no network. Raises UsageError."""
    from huggingface_hub import errors, hf_hub_download

    page = f"https://huggingface.co/datasets/{dataset}"
    log_in = f"at {page}, log in with `hf auth login` or set HF_TOKEN, and run this again"
    reasons = {  # the first that fits
        errors.GatedRepoError: f"gated: accept its terms {log_in}",
        errors.RepositoryNotFoundError: f"the hub has no such data set, or asks who you are: {log_in}",
        errors.RevisionNotFoundError: f"no such revision; see {page}/commits/main",
        errors.RemoteEntryNotFoundError: f"has no file {name!r}; see {page}/tree/{revision}",
        errors.HFValidationError: "not a data set of the form owner/name",
        Exception: f"the hub cannot be reached from here, and its cache does not hold {name}; get the "
        f"file from {page} on another machine, and name it without --dataset",
    }
    try:
        path = Path(hf_hub_download(dataset, name, repo_type="dataset", revision=revision))
    except Exception as error:  # whatever can go wrong on a network
        reason = next(text for kind, text in reasons.items() if isinstance(error, kind))
        raise UsageError(f"--dataset {dataset} --revision {revision}: {reason}") from None
    # The cache keeps a file under snapshots/COMMIT.
    commit = path.parts[path.parts.index("snapshots") + 1]
    return path, f"{page}/blob/{commit}/{name}"


def source_file(
    file: Path | None, served: str, dataset: str | None, revision: str
) -> tuple[Path, str | None]:
    """The file to import, fetched where it is on the hub, and its address there (None: a
    file here). ``served`` is where the publisher serves it, for imports that name none."""
    place = file.as_posix() if file else ""
    if file is None:
        hub = re.fullmatch(ON_HUB, served)
        if hub is None:
            raise UsageError(f"FILE is missing: {served}")
        dataset, pinned, place = hub.groups()
        revision = pinned if revision == "main" else revision
    if dataset is not None:
        return hub_file(dataset, place, revision)
    path = Path(place)
    if not path.exists():
        raise UsageError(f"no file {path}")
    return path, None
