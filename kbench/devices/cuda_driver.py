"""The calls of CUDA's driver that torch does not offer, in torch's context or in one without torch (CUDA Driver API).

Functions are looked up when a `Driver` is made, so that a solution cannot replace them later.
"""

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

SUCCESS, OUT_OF_MEMORY = 0, 2
IPC_LAZY_ENABLE_PEER_ACCESS = 1
HOST_REGISTER_DEVICEMAP = 2
WAIT_VALUE_EQ = 1
LIMIT_PERSISTING_L2_CACHE_SIZE = 6
ATTRIBUTE_ACCESS_POLICY_WINDOW = 1
IPC_HANDLE_BYTES = 64

FUNCTIONS = (
    *("cuMemAlloc_v2", "cuMemFree_v2", "cuMemGetAddressRange_v2", "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2"),
    *("cuIpcCloseMemHandle", "cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2", "cuMemHostUnregister"),
    *("cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2", "cuEventCreate", "cuEventRecord", "cuEventDestroy_v2"),
    *("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemsetD32_v2", "cuMemcpyDtoH_v2"),
    *("cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuGetErrorString"),
    *("cuEventElapsedTime", "cuCtxSynchronize", "cuCtxSetLimit", "cuCtxResetPersistingL2Cache", "cuStreamSetAttribute"),
)


class DriverError(RuntimeError):
    """The driver refused a call."""


class _IpcHandle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_ubyte * IPC_HANDLE_BYTES),)


class Driver:
    """The driver's functions, bound now. The context is torch's; without torch, the primary one of device `ordinal`.

    Raises OSError without a driver.
    """

    def __init__(self, ordinal: int | None = None) -> None:
        if ordinal is None:
            import torch

            torch.cuda.init()
            torch.empty(1, device="cuda")  # makes the context, and sets it
        library = ctypes.CDLL("libcuda.so.1")
        self._functions = {name: library[name] for name in FUNCTIONS}
        if ordinal is not None:
            device, context = c_int(), c_void_p()
            self.call("cuInit", 0)
            self.call("cuDeviceGet", byref(device), ordinal)
            self.call("cuDevicePrimaryCtxRetain", byref(context), device)
            self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises MemoryError if the device has no room, DriverError for any other error."""
        code = self._functions[name](*arguments)
        if code == OUT_OF_MEMORY:
            raise MemoryError(f"{name}: the device is out of memory")
        if code != SUCCESS:
            text = ctypes.c_char_p()
            self._functions["cuGetErrorString"](code, byref(text))  # torch's text, by which faults are recognised
            raise DriverError(f"{name}: CUDA error {code}: {(text.value or b'unknown').decode()}")

    def allocate(self, nbytes: int) -> int:
        """Allocate device memory and return its address. Raises MemoryError if there is no room."""
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), c_size_t(nbytes))
        return pointer.value

    def free(self, pointer: int) -> None:
        """Free memory that `allocate` returned."""
        self.call("cuMemFree_v2", c_uint64(pointer))

    def clear(self, pointer: int, words: int) -> None:
        """Fill `words` words of 32 bits with zeros."""
        self.call("cuMemsetD32_v2", c_uint64(pointer), 0, c_size_t(words))

    def read(self, pointer: int, words: int) -> list[int]:
        """Return `words` words of 32 bits."""
        found = (c_uint32 * words)()
        self.call("cuMemcpyDtoH_v2", found, c_uint64(pointer), c_size_t(ctypes.sizeof(found)))
        return list(found)

    def kernel(self, ptx: bytes, name: bytes) -> c_void_p:
        """Load a kernel from PTX, which every driver translates for its own device: no compiler is needed."""
        module, kernel = c_void_p(), c_void_p()
        self.call("cuModuleLoadData", byref(module), ctypes.c_char_p(ptx))
        self.call("cuModuleGetFunction", byref(kernel), module, name)
        return kernel

    def launch(self, kernel: c_void_p, blocks: int, threads: int, *arguments: Any, stream: int = 0) -> None:
        """Launch a kernel with arguments of ctypes."""
        places = (c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self.call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, c_void_p(stream), places, None)

    def range_of(self, pointer: int) -> tuple[int, int]:
        """Return the start of the allocation that an address lies in, and its size in bytes."""
        base, nbytes = c_uint64(), c_size_t()
        self.call("cuMemGetAddressRange_v2", byref(base), byref(nbytes), c_uint64(pointer))
        return base.value, nbytes.value

    def export(self, pointer: int) -> bytes:
        """Return the IPC handle of the allocation that begins at an address. Raises DriverError if it has none."""
        handle = _IpcHandle()
        self.call("cuIpcGetMemHandle", byref(handle), c_uint64(pointer))
        return bytes(handle)

    def open(self, handle: bytes) -> int:
        """Map another process's allocation and return its address here."""
        pointer = c_uint64()
        shared = _IpcHandle.from_buffer_copy(handle)
        self.call("cuIpcOpenMemHandle_v2", byref(pointer), shared, c_uint(IPC_LAZY_ENABLE_PEER_ACCESS))
        return pointer.value

    def unmap(self, pointer: int) -> None:
        """End the mapping of `open`."""
        self.call("cuIpcCloseMemHandle", c_uint64(pointer))

    def register(self, pointer: int, nbytes: int) -> int:
        """Pin host memory and return the address that the device knows it by."""
        self.call("cuMemHostRegister_v2", c_void_p(pointer), c_size_t(nbytes), c_uint(HOST_REGISTER_DEVICEMAP))
        device = c_uint64()
        self.call("cuMemHostGetDevicePointer_v2", byref(device), c_void_p(pointer), c_uint(0))
        return device.value

    def wait_value(self, stream: int, address: int, value: int) -> None:
        """Stop a stream until the 32 bits at a device address equal a value, without a spinning kernel."""
        self.call("cuStreamWaitValue32_v2", c_void_p(stream), c_uint64(address), c_uint32(value), c_uint(WAIT_VALUE_EQ))

    def write_value(self, stream: int, address: int, value: int) -> None:
        """Write 32 bits at a device address once all work before it on the stream is done and visible."""
        self.call("cuStreamWriteValue32_v2", c_void_p(stream), c_uint64(address), c_uint32(value), c_uint(0))

    def event(self) -> "DeviceEvent":
        """Make an event that keeps time."""
        return DeviceEvent(self)

    def synchronise(self) -> None:
        """Wait until the device has done all work of this context."""
        self.call("cuCtxSynchronize")

    def reset_persisting_l2(self, stream: int) -> None:
        """Release any persisting share of the L2 cache, and clear the stream's access-policy window."""
        self._functions["cuCtxSetLimit"](c_int(LIMIT_PERSISTING_L2_CACHE_SIZE), c_size_t(0))
        self._functions["cuCtxResetPersistingL2Cache"]()
        # CUlaunchAttributeValue is 64 bytes; all zero is an access-policy window of no bytes.
        empty = (ctypes.c_ubyte * 64)()
        self._functions["cuStreamSetAttribute"](c_void_p(stream), c_int(ATTRIBUTE_ACCESS_POLICY_WINDOW), byref(empty))


class DeviceEvent:
    """A CUDA event; freed with the object."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._event = c_void_p()
        driver.call("cuEventCreate", byref(self._event), c_uint(0))

    def record(self, stream: int) -> None:
        """Record the event on a stream."""
        self._driver.call("cuEventRecord", self._event, c_void_p(stream))

    def ns_since(self, start: "DeviceEvent") -> float:
        """Return the time from another event to this one, in ns; both have happened. The driver reports ms in fp32."""
        milliseconds = ctypes.c_float()
        self._driver.call("cuEventElapsedTime", byref(milliseconds), start._event, self._event)  # noqa: SLF001 - of its own class
        return milliseconds.value * 1e6

    def __del__(self) -> None:
        self._driver._functions["cuEventDestroy_v2"](self._event)  # noqa: SLF001 - its own part
