"""The process that owns wandb: reads messages, a JSON line each, from its input and writes them to one run.

    {"kind": "hello", run_id, grid, folder, project, entity, mode, config, timeout_s, parent}     first
    {"kind": "metrics" | "summary", "values": {…}}   {"kind": "census", "columns": […], "rows": […]}
    {"kind": "end", "exit_code": 0}                                                              last

Answers after the hello and at the end. Input that ends without an `end` means that the driver died.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import netrc
import os
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import wandb

    Run = wandb.Run


def main() -> None:
    """Serve one driver."""
    orders, answers = _private(0, "r"), _private(1, "w")
    hello = json.loads(orders.readline())
    threading.Thread(target=_outlive, args=(hello["parent"], hello["timeout_s"]), daemon=True).start()
    try:
        run = begin(hello)
    except BaseException as failure:  # wandb also leaves by SystemExit
        _answer(answers, {"failure": f"{type(failure).__name__}: {failure}"})
        return
    opened = {"folder": run.settings.sync_dir, "url": run.url if run.settings.mode == "online" else None}
    _answer(answers, opened)
    lost = serve(run, orders)
    _answer(answers, opened | {"lost": lost, "is_finished": True})


def begin(hello: Mapping[str, Any]) -> Run:
    """Open the run; where the configuration leaves the mode open and online does not work, offline."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    mode = chosen_mode(hello["mode"], wandb.setup().settings)
    try:
        return _init(hello, mode)
    except Exception:
        if mode == "offline" or hello["mode"] != "auto":
            raise
        wandb.teardown()  # it still holds the id of the run that it could not open
        return _init(hello, "offline")


def chosen_mode(asked: str, settings: Any) -> str:
    """What the environment says, else what the configuration says, else online where a login exists."""
    said = os.environ.get("WANDB_MODE", "").lower()
    if said:
        return "offline" if said in ("offline", "dryrun") else "online"
    if asked != "auto":
        return asked
    return "online" if _has_login(settings) else "offline"


def serve(run: Run, orders: IO[str]) -> dict[str, str]:
    """Write every message to the run and finish it; kind of message → why it was lost."""
    lost: dict[str, str] = {}
    exit_code = 1
    for line in orders:
        message = json.loads(line)
        if message["kind"] == "end":
            exit_code = message["exit_code"]
            break
        try:
            _write(run, message)
        except Exception as failure:
            lost.setdefault(message["kind"], f"{type(failure).__name__}: {failure}")
    try:
        _finish(run, exit_code)
    except Exception as failure:
        lost["the end of the run"] = f"{type(failure).__name__}: {failure}"
    return lost


def run_id(name: str) -> str:
    """The run's id as wandb takes it; two names never become one."""
    safe = re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:64]
    digest = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
    return safe if safe == name else f"{safe[:48]}-{digest}"


def _init(hello: Mapping[str, Any], mode: str) -> Run:
    import wandb

    folder = Path(hello["folder"])
    with contextlib.suppress(OSError):  # wandb then takes a temporary folder, and says so
        folder.mkdir(parents=True, exist_ok=True)
    wanted = {
        "console": "off",
        "silent": True,
        "disable_git": True,
        "disable_code": True,
        "save_code": False,
        "symlink": False,
        "init_timeout": hello["timeout_s"],
        "finish_timeout": hello["timeout_s"] * 0.8,  # its own end comes before ours, and leaves a whole file
        "finish_timeout_raises": True,
        "x_disable_stats": True,
        "x_disable_meta": True,  # the command line, which may hold a secret
        "x_disable_machine_info": True,
        "x_save_requirements": False,
    }
    known = {name: value for name, value in wanted.items() if name in wandb.Settings.model_fields}
    return wandb.init(
        project=hello["project"],
        entity=hello["entity"],
        id=run_id(hello["run_id"]),
        name=hello["run_id"][:128],
        group=hello["grid"][:128],
        dir=str(folder),
        config=hello["config"],
        mode="online" if mode == "online" else "offline",
        resume="allow" if mode == "online" else None,
        settings=wandb.Settings(**known),
    )


def _write(run: Run, message: Mapping[str, Any]) -> None:
    if message["kind"] == "metrics":
        run.log(message["values"])
    elif message["kind"] == "summary":
        run.summary.update(message["values"])
    elif message["kind"] == "census":
        import wandb

        table = wandb.Table(columns=message["columns"], data=message["rows"], allow_mixed_types=True)
        run.log({"census": table})


def _finish(run: Run, exit_code: int) -> None:
    import wandb

    run.finish(exit_code=exit_code)
    wandb.teardown()  # only the end of its service says that the file is whole


def _has_login(settings: Any) -> bool:
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE") or settings.api_key:
        return True
    places = [os.environ.get("NETRC"), "~/.netrc", "~/_netrc"]
    for place in [Path(place).expanduser() for place in places if place]:
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            if netrc.netrc(place).authenticators(urlsplit(settings.base_url).netloc):
                return True
    return False


def _private(descriptor: int, mode: str) -> IO[str]:
    """The pipe, out of reach of what wandb starts or prints."""
    pipe = os.fdopen(os.dup(descriptor), mode, encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, descriptor)
    os.close(nothing)
    return pipe


def _answer(answers: IO[str], answer: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the driver is gone
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _outlive(parent: int, timeout_s: float) -> None:
    """A driver that was killed cannot end us: do it ourselves, after the time it would have given."""
    while os.getppid() == parent:
        time.sleep(0.5)
    time.sleep(timeout_s)
    os._exit(1)


if __name__ == "__main__":
    main()
