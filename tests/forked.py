"""New processes of Python without the second or two that loading libraries takes in each.

A server loads the libraries once, of which none is Refract. The commands ``python``, ``refract`` and
``dvc`` in its folder have it fork: the child gets the caller's arguments, environment, folder and
streams, loads Refract from where the caller would, and leaves its exit code or signal to the caller.
Its hash seed is the server's. Where a variable such as ``PYTHONHASHSEED`` is set, or an option such as
``-X`` but for ``-P`` and ``-u``, a new interpreter runs instead. The processes that run the tests are
forked so too.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import hashlib
import importlib
import io
import json
import marshal
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
import weakref
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

SCRIPTS = {"refract": ("refract.cli", "main"), "dvc": ("dvc.cli", "main")}
LIBRARIES = (
    *("numpy", "pandas", "scipy.stats", "networkx", "tomllib"),
    *("matplotlib.style", "matplotlib.figure", "matplotlib.backends.backend_svg", "PIL.features"),
    *("pydantic.fields", "pydantic.networks", "pydantic.type_adapter", "pydantic.plugin._loader"),
    *("ruamel.yaml", "jinja2", "rich.table", "typer", "markdown_it", "encodings.utf_8_sig"),
    *(
        "dvc.cli.parser",
        "dvc.repo.reproduce",
        "dvc.repo.experiments",
        "dvc.stage.run",
        "dvc._debug",
    ),
    *("dvc.repo.experiments.queue.celery", "hydra"),
    *("dvc.repo.index", "dvc.repo.plots", "dvc.repo.artifacts", "dvc.repo.datasets"),
    *("dvc.data_cloud", "dvc.cachemgr", "dvc.utils.strictyaml", "dvc_data.hashfile.db.local"),
)
# These take four seconds more; a child has them loaded once it imports them.
HEAVY = (
    *("tokenizers", "torch", "safetensors.torch", "accelerate", "transformers.generation"),
    *("transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
    *("transformers.models.llama.modeling_llama", "openai.resources.chat.completions"),
)
# How YAML calls what dvc.lock writes as nothing.
NULL = "tag:yaml.org,2002:null"
# With these a new interpreter starts.
ANEW = {"PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONWARNINGS"}
# It loads modules written in C alone.
CALLER = """#!{python} -ISE
import _socket, marshal, os, signal, sys
name = os.path.basename(sys.argv[0])
option = [*(word for word in sys.argv[1:3] if word not in ("-P", "-u")), "-i"][0]
plain = option in ("-c", "-m", "-") or option[0] != "-"
if name == "python" and not plain or {anew} & set(os.environ):
    os.execv({folder!r} + "/" + name, [{folder!r} + "/" + name, *sys.argv[1:]])
passed = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
signal.pthread_sigmask(signal.SIG_BLOCK, passed)
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
asked = marshal.dumps((name, sys.argv, os.getcwd(), dict(os.environ)))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
size = len(asked).to_bytes(4, "big")
server.sendmsg([size], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
server.sendall(asked)
child = int.from_bytes(server.recv(4), "big")
for number in passed:
    signal.signal(number, lambda number, frame: os.kill(child, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, passed)
status = int.from_bytes(server.recv(4), "big", signed=True)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def start(folder: Path) -> subprocess.Popen[bytes]:
    """The server, which ends with this process, and its commands in ``folder``."""
    address = str(folder / "address")
    text = CALLER.format(
        python=sys.executable, folder=str(Path(sys.executable).parent), address=address, anew=ANEW
    )
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    for name in ("python", *SCRIPTS):
        (folder / name).write_text(text, "utf-8")
        (folder / name).chmod(0o755)
    with listener:
        return subprocess.Popen(
            [sys.executable, "-I", __file__, str(listener.fileno()), str(folder)],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env={key: os.environ[key] for key in os.environ if not key.startswith("PYTHON")}
            | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        )


class Kept:
    """Takes what is loaded of the packages out of ``sys.modules``, and finds it there when imported."""

    def __init__(self, *packages: str) -> None:
        names = [name for name in sys.modules if name.partition(".")[0] in packages]
        self.modules = {name: sys.modules.pop(name) for name in names}

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in self.modules else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        package = spec.name.partition(".")[0]
        for name, module in self.modules.items():
            if name.partition(".")[0] == package:
                sys.modules[name] = module
        self.spec = self.modules[spec.name].__spec__
        return self.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class Job:
    """What a caller asked for, and the streams that it gave."""

    def __init__(self, caller: socket.socket) -> None:
        size, self.streams, *_ = socket.recv_fds(caller, 4, 3)
        wanted, asked = int.from_bytes(size, "big"), b""
        while len(asked) < wanted:
            asked += caller.recv(wanted - len(asked))
        self.name, self.words, self.folder, self.environment = marshal.loads(asked)

    def run(self) -> int:
        """Does it in this process, a child of the server; the exit code."""
        for number, stream in enumerate(self.streams):
            os.dup2(stream, number)
            os.close(stream)
        given, out, err = io.FileIO(0), io.FileIO(1, "wb"), io.FileIO(2, "wb")
        sys.stdin = io.TextIOWrapper(io.BufferedReader(given))
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(out), line_buffering=out.isatty())
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(err), errors="backslashreplace", line_buffering=True
        )
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        code = 0
        try:
            self._run()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            if isinstance(ended.code, str):
                print(ended.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
            code = 1
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        return code & 0xFF

    def _run(self) -> None:
        paths = list(filter(None, self.environment.get("PYTHONPATH", "").split(os.pathsep)))
        sys.argv = self.words
        if self.name in SCRIPTS or self.words[1:3] == ["-m", "dvc"]:
            # What these start is forked in turn.
            sys.executable = str(Path(self.words[0]).with_name("python"))
        if self.name in SCRIPTS:
            sys.path[:0] = [os.path.dirname(self.words[0]), *paths]
            module, function = SCRIPTS[self.name]
            sys.exit(getattr(importlib.import_module(module), function)())
        sys.argv = self.words[1:]
        here = [""]
        if sys.argv[0] == "-P":  # without the current folder on the path
            sys.argv, here = sys.argv[1:], []
        elif sys.argv[0] == "-u":  # output leaves line by line as it is; so xdist starts workers
            sys.argv = sys.argv[1:]
        option = sys.argv[0]
        if option == "-m":
            sys.path[:0] = [os.getcwd(), *paths]
            sys.argv = sys.argv[1:]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        elif option in ("-c", "-"):
            sys.path[:0] = [*here, *paths]
            text = sys.argv.pop(1) if option == "-c" else sys.stdin.read()
            main = sys.modules["__main__"].__dict__
            main.pop("__file__", None)  # which processes that this one spawns would run
            exec(compile(text, "<string>", "exec"), main)
        else:
            sys.path[:0] = paths
            runpy.run_path(option, run_name="__main__")


def serve(listener: socket.socket) -> Job:
    """Forks for each caller; returns, in the child, what it is to do."""
    children: dict[int, socket.socket] = {}
    ended, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    chosen = selectors.DefaultSelector()
    for source in (0, listener, ended):
        chosen.register(source, selectors.EVENT_READ)
    while True:
        for key, _ in chosen.select():
            if key.fileobj == 0:  # whoever started this is gone
                sys.exit()
            elif key.fileobj is listener:
                caller, _ = listener.accept()
                job = Job(caller)
                child = os.fork()
                if child == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    chosen.close()
                    for opened in (caller, listener, ended, wake, *children.values()):
                        opened.close()
                    return job
                for stream in job.streams:
                    os.close(stream)
                with contextlib.suppress(OSError):  # the caller was killed already
                    caller.sendall(child.to_bytes(4, "big"))
                children[child] = caller
                chosen.register(caller, selectors.EVENT_READ, child)
            elif key.fileobj is ended:
                ended.recv(1024)
            elif key.data in children:  # the caller was killed
                os.kill(key.data, signal.SIGKILL)
                chosen.unregister(key.fileobj)
        while children:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                break
            caller = children.pop(child)
            with contextlib.suppress(KeyError):
                chosen.unregister(caller)
            code = os.waitstatus_to_exitcode(status)
            with caller, contextlib.suppress(OSError):
                caller.sendall(code.to_bytes(4, "big", signed=True))


def write_locks_fast() -> None:
    """Has DVC read and write dvc.lock by libyaml: the same bytes in a fifth of the time, a quarter of
    a small run's. What can hold comments is left to the reader that keeps them."""
    from dvc.utils.serialize import _yaml
    from ruamel.yaml import YAML

    read, write = _yaml.parse_yaml_for_update, _yaml._dump

    def parse(text: str, path: str) -> dict:
        return (_yaml.parse_yaml if str(path).endswith(".lock") else read)(text, path)

    def dump(content: dict, stream: io.TextIOBase) -> None:
        if type(content) is not dict or "schema" not in content:
            return write(content, stream)
        yaml = YAML(typ="safe")
        yaml.default_flow_style, yaml.sort_base_mapping_type_on_output = False, False
        yaml.representer.add_representer(type(None), lambda to, _: to.represent_scalar(NULL, ""))
        text = io.StringIO()
        yaml.dump(json.loads(json.dumps(content)), text)  # plain dicts
        stream.write(text.getvalue().replace(": \n", ":\n"))

    _yaml.parse_yaml_for_update, _yaml._dump = parse, dump


def read_yaml_once(folder: Path) -> None:
    """Has ruamel keep what it read of a text in ``folder``, for every process: it takes a twentieth of a
    second for params.yaml, which each stage and command reads."""
    from ruamel.yaml import YAML

    read = YAML.load

    def load(yaml: YAML, text: object) -> object:
        plain = yaml.typ == ["safe"] and yaml.version is None and not yaml.allow_duplicate_keys
        if not (plain and isinstance(text, str)):
            return read(yaml, text)
        name = f"{yaml.pure} {text}".encode("utf-8", "surrogatepass")
        path = folder / f"{hashlib.sha256(name).hexdigest()}.yaml"
        with contextlib.suppress(OSError):
            return marshal.loads(path.read_bytes())
        content = read(yaml, text)
        # Dates are left out, and what holds itself.
        with contextlib.suppress(OSError, ValueError):
            written = path.with_suffix(f".{os.getpid()}")
            written.write_bytes(marshal.dumps(content))
            written.replace(path)
        return content

    YAML.load = load


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as own:
        select = selectors.DefaultSelector()
        select.register(own, selectors.EVENT_READ)
        select.register(0, selectors.EVENT_READ)
        select.select()  # libraries are loaded for the first caller
        select.close()
        for library in (*LIBRARIES, *HEAVY):
            with contextlib.suppress(ImportError):
                importlib.import_module(library)
        write_locks_fast()
        read_yaml_once(Path(sys.argv[2]))
        # What libraries do at exit touches most of their memory, which a child would have to copy.
        weakref.finalize._registry.clear()
        with contextlib.suppress(KeyError, AttributeError):
            atexit.unregister(sys.modules["torch._dynamo.utils"].dump_compile_times)
        sys.meta_path.insert(0, Kept(*{library.partition(".")[0] for library in HEAVY}))
        gc.collect()
        gc.freeze()
        asked_for = serve(own)
    os._exit(asked_for.run())
