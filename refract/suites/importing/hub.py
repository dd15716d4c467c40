"""Files of data sets on the Hugging Face hub, at a commit."""

from __future__ import annotations

from pathlib import Path

from refract.core.errors import UsageError
from refract.suites.importing.file_formats import SUFFIXES


def hub_file(dataset: str, name: str, revision: str) -> tuple[Path, str]:
    """A file of a data set in the local cache of the hub, downloaded once, and its address with the
    commit. ``revision`` is a commit, a tag or a branch.

    A token is read where ``hf auth login`` puts it, or from ``HF_TOKEN``. A commit that is in the cache
    needs no network. Raises :class:`UsageError`.
    """
    from huggingface_hub import errors, hf_hub_download

    page = f"https://huggingface.co/datasets/{dataset}"
    try:
        path = Path(hf_hub_download(dataset, name, repo_type="dataset", revision=revision))
    except Exception as error:  # whatever can go wrong on a network
        reason = (
            f"the hub cannot be reached from here, and its cache does not hold {name}; download the "
            f"file from {page} on another machine, and name it without --dataset "
            f"({type(error).__name__})"
        )
        if isinstance(error, errors.GatedRepoError):
            reason = (
                f"gated: accept its terms at {page}, log in with `hf auth login` or set HF_TOKEN, "
                "and run this again"
            )
        elif isinstance(error, errors.HFValidationError):
            reason = f"not a data set of the form owner/name ({error})"
        elif isinstance(error, errors.RepositoryNotFoundError):
            reason = (
                f"the hub has no such data set, or shows it to others alone; see {page}, and log in "
                "with `hf auth login` where access is granted by request"
            )
        elif isinstance(error, errors.RevisionNotFoundError):
            reason = f"no such revision; see {page}/commits/main"
        elif isinstance(error, errors.EntryNotFoundError) and not isinstance(
            error, errors.LocalEntryNotFoundError
        ):
            there = ", ".join(_files(dataset, revision)) or "none that can be read"
            reason = f"has no file {name!r}; there are: {there}"
        raise UsageError(f"--dataset {dataset} --revision {revision}: {reason}") from None
    # The cache keeps a file under snapshots/COMMIT.
    commit = path.parts[path.parts.index("snapshots") + 1]
    return path, f"{page}/blob/{commit}/{name}"


def _files(dataset: str, revision: str) -> list[str]:
    """The files of a data set that can be imported; none where they cannot be listed."""
    from huggingface_hub import HfApi

    try:
        names = HfApi().list_repo_files(dataset, repo_type="dataset", revision=revision)
    except Exception:  # the caller has an error to report already
        return []
    return [name for name in names if name.lower().endswith(SUFFIXES)]
