"""The file of a learned policy's weights: an `.npz` of plain arrays with a header in JSON.

`header` is an array of bytes with a JSON object: `format` (1), `policy`, `features` (their names in
order), `hash` (SHA-256 of the arrays and of the rest of the header) and `card` (what it was trained
on, and how well it did). `layer0` to `layer5` are weights and biases in turn, 64-bit floats.
Nothing is pickled, and what does not fit the policy is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skep_scheduler.policies import PolicyError
from skep_scheduler.policies.network import Network

FORMAT = 1
LAYERS = 6
MOST_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Weights:
    """The network of a policy, with the features that it was trained for."""

    policy: str
    features: Sequence[str]
    network: Network
    card: Mapping[str, Any] = field(default_factory=dict)


def dump(weights: Weights) -> bytes:
    """Return the file. Equal weights make equal bytes."""
    header = {
        "format": FORMAT,
        "policy": weights.policy,
        "features": list(weights.features),
        "card": dict(weights.card),
    }
    layers = [np.ascontiguousarray(layer, dtype="<f8") for layer in weights.network.layers]
    text = json.dumps(header | {"hash": _hash(header, layers)}, sort_keys=True)
    file = io.BytesIO()
    arrays = {f"layer{n}": layer for n, layer in enumerate(layers)}
    np.savez(file, header=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def load(data: bytes, name: str, policy: str, features: Sequence[str]) -> Weights:
    """Return the weights of the file `name` for a policy. Raises `PolicyError` (`bad_weights`)
    where they are damaged, of another version or policy, or have another shape."""
    header, layers = _read(data, name)
    if header.get("format") != FORMAT:
        raise _bad(
            name,
            f"its format is {header.get('format')!r} and not {FORMAT}; train the weights again",
        )
    if header.get("policy") != policy:
        raise _bad(name, f"it has weights of {header.get('policy')!r} and not of {policy}")
    if header.get("features") != list(features):
        raise _bad(name, f"it has other features than {policy} has now; train the weights again")
    rest = {key: value for key, value in header.items() if key != "hash"}
    if header.get("hash") != _hash(rest, layers):
        raise _bad(name, "its hash is not that of its contents; the file is damaged")
    shapes = [layer.shape for layer in layers]
    wanted = [(shapes[0][0], *shapes[1]), shapes[1], (*shapes[1], *shapes[3]), shapes[3]]
    if shapes != [*wanted, (*shapes[3], 1), (1,)] or shapes[0][0] != len(features):
        raise _bad(name, f"its arrays have the shapes {shapes}")
    if not all(np.isfinite(layer).all() for layer in layers):
        raise _bad(name, "it has weights that are not finite")
    return Weights(policy, tuple(features), Network(layers), header.get("card", {}))


def _read(data: bytes, name: str) -> tuple[dict[str, Any], list[Any]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as parts:
            if sum(part.file_size for part in parts.infolist()) > MOST_BYTES:
                raise _bad(name, f"it is larger than {MOST_BYTES} bytes")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            header = json.loads(bytes(arrays["header"].astype(np.uint8)))
            layers = [np.asarray(arrays[f"layer{n}"], dtype=np.float64) for n in range(LAYERS)]
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise _bad(name, f"it is no file of weights ({type(error).__name__})") from error
    if not isinstance(header, dict) or [layer.ndim for layer in layers] != [2, 1, 2, 1, 2, 1]:
        raise _bad(name, "it is no file of weights")
    return header, layers


def _hash(header: Mapping[str, Any], layers: Sequence[Any]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for layer in layers:
        digest.update(np.ascontiguousarray(layer, dtype="<f8").tobytes())
    return digest.hexdigest()


def _bad(name: str, why: str) -> PolicyError:
    return PolicyError("bad_weights", f"Weights {name} cannot be used: {why}.", file=name)
