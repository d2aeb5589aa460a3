"""Tensors of PyTorch and arrays of NumPy as bytes of safetensors files.

https://github.com/huggingface/safetensors#format: u64 length of the header, the header (JSON, name to dtype, shape and
offsets), then the bytes of the tensors without holes. Neither library is imported here unless the program has imported it, or
a checkpoint needs it.
"""

from __future__ import annotations

import json
import struct
import sys
from typing import Any, Callable

from ._errors import CheckpointError

ALIGNMENT = 64  # of a file's first tensor in the checkpoint

# safetensors' name: (bytes of an element, torch's name, NumPy's name or None)
DTYPES: dict[str, tuple[int, str, str | None]] = {
    "BOOL": (1, "bool", "bool"),
    "U8": (1, "uint8", "uint8"),
    "I8": (1, "int8", "int8"),
    "F8_E5M2": (1, "float8_e5m2", None),
    "F8_E4M3": (1, "float8_e4m3fn", None),
    "I16": (2, "int16", "int16"),
    "U16": (2, "uint16", "uint16"),
    "F16": (2, "float16", "float16"),
    "BF16": (2, "bfloat16", None),
    "I32": (4, "int32", "int32"),
    "U32": (4, "uint32", "uint32"),
    "F32": (4, "float32", "float32"),
    "F64": (8, "float64", "float64"),
    "I64": (8, "int64", "int64"),
    "U64": (8, "uint64", "uint64"),
    "C64": (8, "complex64", "complex64"),
}
# Complex types without a name of their own: pairs of reals, in a last dimension of 2; the reference says so.
PAIRS = {"complex128": "F64", "complex32": "F16"}
_OF_PAIRS = {reals: name for name, reals in PAIRS.items()}
KINDS = ("torch", "numpy", "scalar", "torch pairs", "numpy pairs", "scalar pairs")
_TORCH = {torch: name for name, (_, torch, _) in DTYPES.items()}
_NUMPY = {numpy: name for name, (_, _, numpy) in DTYPES.items() if numpy is not None}


class Tensor:
    """One tensor to be written: its place in a safetensors file, and how its bytes get there."""

    def __init__(  # noqa: PLR0917
        self,
        file: str,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        count: int,
        write: Callable[[memoryview], None],
        is_pairs: bool = False,
    ) -> None:
        self.file, self.name, self.dtype, self.shape = file, name, dtype, shape
        self.bytes, self.write, self.is_pairs = count, write, is_pairs
        self.keys: tuple[Any, ...] = ()  # in the state


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def torch_identity(tensor: Any) -> tuple[Any, ...]:
    """Equal for tensors that are the same memory seen in the same way: tied weights."""
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return (
        storage.data_ptr(), tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype, str(tensor.device)
    )  # fmt: skip


def from_torch(tensor: Any, file: str, name: str) -> Tensor:
    """ValueError with the reason: the tensor has no bytes of its own (sparse, quantised, meta), or its type no name."""
    torch = sys.modules["torch"]
    own = str(tensor.dtype).replace("torch.", "")
    dtype = _TORCH.get(own) or PAIRS.get(own)
    if dtype is None:
        raise ValueError(f"safetensors has no name for {tensor.dtype}")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        kind = "quantised" if tensor.is_quantized else "on the meta device" if tensor.device.type == "meta" else tensor.layout
        raise ValueError(f"it is {kind}; save a dense copy of it")
    count = tensor.numel() * tensor.element_size()

    def write(room: memoryview) -> None:
        if count:
            target = torch.frombuffer(room, dtype=tensor.dtype).view(tensor.shape)
            target.copy_(tensor.detach())

    pair = (2,) if own in PAIRS else ()
    return Tensor(file, name, dtype, (*tensor.shape, *pair), count, write, bool(pair))


def from_numpy(array: Any, file: str, name: str) -> Tensor:
    """As from_torch, of an array or a scalar of NumPy."""
    numpy = sys.modules["numpy"]
    dtype = _NUMPY.get(array.dtype.name) or PAIRS.get(array.dtype.name)
    if dtype is None:
        raise ValueError(f"safetensors has no name for arrays of {array.dtype}")

    def write(room: memoryview) -> None:
        if array.nbytes:
            numpy.copyto(numpy.frombuffer(room, dtype=array.dtype.newbyteorder("=")).reshape(array.shape), array)

    pair = (2,) if array.dtype.name in PAIRS else ()
    return Tensor(file, name, dtype, (*array.shape, *pair), array.nbytes, write, bool(pair))


def header(tensors: list[Tensor], at: int) -> bytes:
    """The beginning of a safetensors file that lies `at` bytes behind a multiple of ALIGNMENT, padded so that its first tensor
    is aligned."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        entries[tensor.name] = {
            "dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.bytes]
        }  # fmt: skip
        offset += tensor.bytes
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(at + 8 + len(text)) % ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def read_header(data: memoryview, file: str) -> tuple[dict[str, Any], int]:
    """The entries of a safetensors file and the offset of its tensors. CheckpointError."""
    length = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else -1
    if not 0 <= length <= len(data) - 8:
        raise CheckpointError(f"{file} in the checkpoint is no safetensors file: its header does not fit into it.")
    try:
        entries = json.loads(bytes(data[8 : 8 + length]))
    except ValueError as error:
        raise CheckpointError(f"{file} in the checkpoint is no safetensors file: {error}.") from error
    if not isinstance(entries, dict):
        raise CheckpointError(f"{file} in the checkpoint is no safetensors file: its header is no map.")
    entries.pop("__metadata__", None)
    return entries, 8 + length


def read(data: memoryview, entry: Any, start: int, kind: str, where: str) -> Any:
    """The tensor (`kind` "torch"), array ("numpy") or scalar ("scalar") of an entry, made of pairs if `kind` says so; it shares
    the memory of `data`, which must be writable. CheckpointError."""
    try:
        element, torch_name, numpy_name = DTYPES[entry["dtype"]]
        begin, end = entry["data_offsets"]
        shape = entry["shape"]
        if not isinstance(shape, list) or any(type(n) is not int for n in (begin, end, *shape)):
            raise ValueError("its shape and offsets are not whole numbers")
        if any(not 0 <= n < 1 << 48 for n in shape):
            raise ValueError("its shape is out of range")
        count = element
        for n in shape:
            count *= n
        if begin < 0 or end - begin != count or start + end > len(data):
            raise ValueError("its offsets do not fit its shape")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{where} in the checkpoint cannot be read: {error}.") from error
    room = data[start + begin : start + end]
    if kind not in KINDS:
        raise CheckpointError(f"{where} in the checkpoint is of a kind that this package does not know.")
    if kind.endswith(" pairs"):
        if shape[-1:] != [2] or entry["dtype"] not in _OF_PAIRS:
            raise CheckpointError(f"{where} in the checkpoint cannot be read: it should be pairs of reals.")
        kind, shape, torch_name = kind[:-6], shape[:-1], _OF_PAIRS[entry["dtype"]]
        numpy_name = torch_name if torch_name == "complex128" else None
    try:
        return _make(room, torch_name, numpy_name, shape, kind, where)
    except (RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{where} in the checkpoint cannot be read: {error}.") from error


def _make(  # noqa: PLR0917
    room: memoryview, torch_name: str, numpy_name: str | None, shape: list[int], kind: str, where: str
) -> Any:
    if kind == "torch":
        try:
            import torch
        except ImportError as error:
            raise CheckpointError(f"{where} in the checkpoint is a tensor of PyTorch, which this Python lacks.") from error
        dtype = getattr(torch, torch_name, None)
        if dtype is None:
            raise CheckpointError(
                f"{where} in the checkpoint is of torch.{torch_name}, which PyTorch {torch.__version__} lacks."
            )
        return torch.frombuffer(room, dtype=dtype).view(shape) if len(room) else torch.empty(shape, dtype=dtype)
    try:
        import numpy
    except ImportError as error:
        raise CheckpointError(f"{where} in the checkpoint is an array of NumPy, which this Python lacks.") from error
    if numpy_name is None:
        raise CheckpointError(f"{where} in the checkpoint is of a type that NumPy lacks.")
    array = numpy.frombuffer(room, dtype=numpy_name).reshape(shape)
    return array[()] if kind == "scalar" else array
