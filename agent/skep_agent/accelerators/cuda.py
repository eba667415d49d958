"""The CUDA driver API, as far as the burn-in of a GPU needs it: one device, its memory, kernels.

The library comes with the driver of the machine. Its functions are those of "CUDA Driver API",
chapter 6; names with `_v2` are what its header makes of those without.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

LIBRARY = "libcuda.so.1"
OUT_OF_MEMORY = 2
_MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_NAME_BYTES = 256


class CudaError(Exception):
    """The driver refused a call. `code` is CUresult, 0 where there is no driver."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Device:
    """The first GPU that CUDA_VISIBLE_DEVICES leaves visible, with its context on this thread.

    name: as the driver has it
    multiprocessors: how many there are
    visible: how many GPUs this process sees
    """

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise CudaError(f"{LIBRARY} of the GPU driver cannot be loaded: {error}") from None
        # Else kernels are loaded when they are first run: there may be no memory left by then.
        os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
        self._call("cuInit", c_uint(0))
        count, device, context = c_int(), c_int(), c_void_p()
        self._call("cuDeviceGetCount", byref(count))
        self.visible = count.value
        if not self.visible:
            raise CudaError("No GPU is visible; is CUDA_VISIBLE_DEVICES one of this machine?")
        self._call("cuDeviceGet", byref(device), c_int(0))
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGetName", name, c_int(_NAME_BYTES), device)
        self.name = name.value.decode(errors="replace")
        found = c_int()
        self._call("cuDeviceGetAttribute", byref(found), c_int(_MULTIPROCESSORS), device)
        self.multiprocessors = found.value
        self._call("cuDevicePrimaryCtxRetain", byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def memory(self) -> tuple[int, int]:
        """Return the free and the whole memory in bytes."""
        free, total = c_size_t(), c_size_t()
        self._call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int:
        """Return the address of so many bytes of the GPU's memory."""
        address = c_uint64()
        self._call("cuMemAlloc_v2", byref(address), c_size_t(size))
        return address.value

    def write(self, address: int, data: bytes) -> None:
        self._call("cuMemcpyHtoD_v2", c_uint64(address), c_char_p(data), c_size_t(len(data)))

    def read(self, address: int, size: int) -> bytes:
        """Return so many bytes, after all kernels have ended."""
        data = ctypes.create_string_buffer(size)
        self._call("cuMemcpyDtoH_v2", data, c_uint64(address), c_size_t(size))
        return data.raw

    def load(self, ptx: str) -> Kernels:
        """Have the driver compile kernels for this GPU."""
        module = c_void_p()
        self._call("cuModuleLoadData", byref(module), c_char_p(ptx.encode()))
        return Kernels(self, module)

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            text = c_char_p()
            known = not self._library.cuGetErrorString(c_int(code), byref(text)) and text.value
            said = text.value.decode(errors="replace") if known and text.value else "unknown error"
            raise CudaError(f"{function} of the GPU driver: {said} (code {code})", code)


class Kernels:
    """Kernels that are loaded. Their parameters are addresses (64 bits) and numbers (32 bits)."""

    def __init__(self, device: Device, module: c_void_p) -> None:
        self._device, self._module = device, module
        self._functions: dict[str, c_void_p] = {}

    def run(self, name: str, blocks: int, threads: int, *parameters: c_uint64 | c_uint) -> None:
        """Run a kernel in so many blocks of so many threads, to its end."""
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = c_void_p()
            self._device._call(
                "cuModuleGetFunction", byref(function), self._module, c_char_p(name.encode())
            )
        addresses = [ctypes.addressof(parameter) for parameter in parameters]
        places = (c_void_p * len(addresses))(*addresses)
        grid = [c_uint(size) for size in (blocks, 1, 1, threads, 1, 1)]
        stream, extra = c_void_p(), c_void_p()
        self._device._call("cuLaunchKernel", function, *grid, c_uint(0), stream, places, extra)
        self._device._call("cuCtxSynchronize")
