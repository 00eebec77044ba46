"""Whose a kernel is, by its name, its share of a call, and how long the device was busy."""

import pytest

from kbench.core import kernel_names
from kbench.core.kernel_names import KernelOrigin, flag_of, share_of, share_source
from kbench.core.trace import DeviceActivity

LIBRARY_NAMES = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(...)>(int, ...)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float, float const*)",
    "void at_cuda_detail::cub::DeviceReduceKernel<...>(float*)",
    "void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>(...)",
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(...)",
    "cublasLt::splitKreduce_kernel<32, 16, int>(...)",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(Params)",
    "cutlass3x_sm90_tensorop_s64x128x8tf32gemm_f32_f32",
    "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nchw",
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32",
    "ampere_sgemm_128x64_tn",
    "volta_scudnn_128x64_relu_interior_nn_v1",
    "nvjet_hsh_128x64_64x8_2x1_v_bz_TNT",
    "void gemv2T_kernel_val<int, float, float, float, float, 128>(...)",
    "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 6, 10, false>(...)",
    "void implicit_convolve_sgemm<float, float, 1024, 5, 5>(...)",
    "void convolve_common_engine_float_NHWC<float, float, 1024, 5, 5, 3, 3, 3, 1, false, true, false>(...)",
    "void cub::DeviceScanKernel<...>(...)",
]
OWN_NAMES = [
    "group_norm_single_pass(float const*, float*)",
    "void (anonymous namespace)::row_statistics<256, 4>(float const*, float2*)",
    "_gelu_kernel",
    "triton_group_norm",
    "void cutlass::device_kernel<my::Gemm>(my::Gemm::Params)",
    "conv_norm_pool_wgmma",
    "hopper",
]


@pytest.mark.parametrize("name", LIBRARY_NAMES)
def test_kernels_of_libraries(name):
    assert kernel_names.origin(name) is KernelOrigin.LIBRARY


@pytest.mark.parametrize("name", OWN_NAMES)
def test_kernels_of_ones_own(name):
    assert kernel_names.origin(name) is KernelOrigin.OWN


@pytest.mark.parametrize("name", ["triton_poi_fused_gelu_0", "triton_per_fused_native_group_norm_1"])
def test_kernels_that_torch_compile_wrote(name):
    assert kernel_names.origin(name) is KernelOrigin.COMPILED


@pytest.mark.parametrize("name", ["Memcpy DtoD (Device -> Device)", "Memset (Device)"])
def test_copies(name):
    assert kernel_names.origin(name) is KernelOrigin.COPY


def activity(name="mine", start_ns=0, duration_ns=1000):
    return DeviceActivity(name=name, start_ns=start_ns, duration_ns=duration_ns)


@pytest.mark.parametrize(
    ("spans", "busy"),
    [
        ([(0, 1000)], 1000),
        ([(0, 1000), (1500, 500)], 1500),
        ([(0, 1000), (500, 1000)], 1500),
        ([(0, 1000), (100, 200)], 1000),
        ([], 0),
    ],
)
def test_overlapping_kernels_count_once(spans, busy):
    assert kernel_names.busy_ns([activity(start_ns=start, duration_ns=length) for start, length in spans]) == busy


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("aten::native_group_norm", KernelOrigin.LIBRARY),
        ("mkldnn::_convolution", KernelOrigin.LIBRARY),
        ("Torch-Compiled Region: 0/0", KernelOrigin.COMPILED),
        ("## Call CompiledFxGraph fgumk5k6 ##", KernelOrigin.COMPILED),
        ("TorchDynamo Cache Lookup", KernelOrigin.COMPILED),
        ("mine::group_norm", KernelOrigin.OWN),
    ],
)
def test_operators_of_a_processor(name, whose):
    assert kernel_names.operator_origin(name) is whose


OWN, LIBRARY, COMPILED, COPY = KernelOrigin.OWN, KernelOrigin.LIBRARY, KernelOrigin.COMPILED, KernelOrigin.COPY
SOLUTION = {"names_kernels": True, "is_asked": False, "is_builtin": False, "processes": 10}
SOURCES = {
    "a solution on a GPU": ({}, "worker"),
    "two processes are more than `--quick`": ({"processes": 2}, "worker"),
    "`--quick`": ({"processes": 1}, "unknown"),
    "a processor has no kernels": ({"names_kernels": False}, "unknown"),
    "a processor, and asked": ({"names_kernels": False, "is_asked": True}, "unknown"),
    "`--require-custom`": ({"is_asked": True}, "judge"),
    "`--require-custom --quick`": ({"is_asked": True, "processes": 1}, "judge"),
    "`eager`": ({"is_builtin": True}, "builtin"),
    "`eager --quick`": ({"is_builtin": True, "processes": 1}, "builtin"),
    "`eager --require-custom`": ({"is_builtin": True, "is_asked": True}, "judge"),
    "`eager` on a processor": ({"names_kernels": False, "is_builtin": True}, "unknown"),
}


@pytest.mark.parametrize(("changes", "source"), SOURCES.values(), ids=SOURCES)
def test_where_the_share_comes_from(changes, source):
    assert share_source(**{**SOLUTION, **changes}) == source


FLAGS = {
    "its own kernel": ([(OWN, 10)], 1.0, ""),
    "beside a library": ([(OWN, 30), (LIBRARY, 50), (COPY, 20)], 0.3, ""),
    "a little more than a hundredth": ([(OWN, 2), (LIBRARY, 98)], 0.02, ""),
    "a hundredth": ([(OWN, 1), (LIBRARY, 99)], 0.01, "library_time"),
    "its extension was not loaded": ([(LIBRARY, 50), (COPY, 20)], 0.0, "library_time"),
    "torch.compile": ([(COMPILED, 50), (LIBRARY, 1)], 0.0, "library_time"),
    "nothing was seen": ([], None, ""),
    "nothing took time": ([(OWN, 0)], None, ""),
}


@pytest.mark.parametrize(("timed", "share", "flag"), FLAGS.values(), ids=FLAGS)
def test_the_share_and_its_flag(timed, share, flag):
    found = share_of(timed, OWN)
    assert found == (None if share is None else pytest.approx(share))
    assert flag_of(found) == flag


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("void (anonymous namespace)::rows<256, 4>(float const*)", "rows"),
        ("my::space::rows(my::space::Problem)", "rows"),
        ("_rows_kernel", "_rows_kernel"),
    ],
)
def test_bare_names(name, bare):
    assert kernel_names.base_name(name) == bare
