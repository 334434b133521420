"""Which calls can make the host wait, and which only look as if they did."""

import pytest

from pinprof.trace.calls import ASYNC_COPY, COPY, DEVICE, EVENT, FREE, HOST_MEMORY, MALLOC, STREAM, call_kind
from pinprof.trace.tables import NONE


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (STREAM, ["cudaStreamSynchronize", "hipStreamSynchronize", "cuStreamSynchronize"]),
        (DEVICE, ["cudaDeviceSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize", "hipCtxSynchronize"]),
        (EVENT, ["cudaEventSynchronize", "hipEventSynchronize", "cuEventSynchronize"]),
        (COPY, ["cudaMemcpy", "hipMemcpy", "cuMemcpy", "cudaMemcpy2D", "cudaMemcpyToSymbol", "cudaMemcpyPeer"]),
        (COPY, ["hipMemcpyWithStream", "hipMemcpyDtoH", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"]),
        (ASYNC_COPY, ["cudaMemcpyAsync", "hipMemcpyAsync", "cudaMemcpy2DAsync", "cudaMemcpyPeerAsync"]),
        (ASYNC_COPY, ["cuMemcpyHtoDAsync_v2", "cudaMemcpyToSymbolAsync", "hipMemcpyDtoHAsync", "cuMemcpyAsync"]),
        (MALLOC, ["cudaMalloc", "hipMalloc", "cuMemAlloc_v2", "cuMemCreate", "cuMemMap"]),
        (FREE, ["cudaFree", "hipFree", "cuMemFree_v2", "cuMemUnmap", "cuMemRelease"]),
        (HOST_MEMORY, ["cudaHostAlloc", "cudaMallocHost", "cudaFreeHost", "hipHostMalloc", "hipHostFree"]),
        (HOST_MEMORY, ["cudaHostRegister", "cudaHostUnregister", "cuMemHostAlloc", "cuMemFreeHost"]),
    ],
)
def test_blocking_calls_are_known_in_cuda_hip_and_the_driver(kind: int, names: list[str]) -> None:
    assert [call_kind(name) for name in names] == [kind] * len(names)


@pytest.mark.parametrize("suffix", ["", "_v2", "_v3020", "_ptsz", "_ptds", "_v2_ptsz", "_ptsz_v7000"])
def test_suffixes_of_versions_and_default_streams_change_nothing(suffix: str) -> None:
    assert call_kind(f"cudaStreamSynchronize{suffix}") == STREAM
    assert call_kind(f"cuMemcpyHtoDAsync{suffix}") == ASYNC_COPY
    assert call_kind(f"cudaMemcpy{suffix}") == COPY
    assert call_kind(f"cudaStreamWaitEvent{suffix}") == NONE


@pytest.mark.parametrize(
    "name",
    [
        *("cudaStreamWaitEvent", "hipStreamWaitEvent", "cudaStreamQuery", "cudaEventQuery", "cudaEventRecord"),
        *("cudaEventRecordWithFlags", "cudaEventElapsedTime", "cudaMallocAsync", "cudaMallocFromPoolAsync"),
        *("cudaFreeAsync", "hipMallocAsync", "hipFreeAsync", "cuMemAllocAsync", "cuMemFreeAsync"),
        *("cudaMemsetAsync", "hipMemsetAsync", "cuMemsetD8Async", "cudaFuncGetAttributes"),
        *("cudaPointerGetAttributes", "cudaMemPrefetchAsync", "cudaMemGetInfo", "cudaGraphAddMemcpyNode"),
        *("cudaGraphLaunch", "cudaLaunchKernel", "cudaLaunchKernelExC", "hipLaunchKernel"),
        *("hipExtModuleLaunchKernel", "cuLaunchKernel", "cuLaunchKernelEx", "cudaStreamSynchronizeLater"),
        *("myStreamSynchronize", "aten::cudaMalloc", "StreamSynchronize", "cuda", ""),
    ],
)
def test_calls_that_only_look_alike_do_not_block(name: str) -> None:
    assert call_kind(name) == NONE
