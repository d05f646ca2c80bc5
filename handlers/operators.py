"""The operators of PyTorch that a recorded network may name: what networks compute with, and nothing else.

All of them make tensors and numbers of tensors and numbers, and check what they are given. Every operator that the
families in the tests record is here, and those of their kind that other networks use.
"""

from __future__ import annotations

_ARITHMETIC = """
    abs add addcdiv addcmul atan2 ceil clamp clamp_max clamp_min clip copy cos cosh div divide erf erfc exp exp2
    expm1 floor floor_divide fmod frac imag isfinite isinf isnan lerp log log10 log1p log2 logaddexp maximum minimum
    mul multiply nan_to_num neg pow real reciprocal remainder round rsqrt rsub sgn sign sin sinh sqrt square sub
    subtract tan tanh true_divide trunc view_as_complex view_as_real where
"""
_LOGIC = """
    all __and__ any bitwise_and bitwise_not bitwise_or bitwise_xor eq ge gt le logical_and logical_not logical_or
    logical_xor lt ne __or__ __xor__
"""
_ACTIVATIONS = """
    celu elu gelu glu hardsigmoid hardswish hardtanh leaky_relu log_sigmoid log_softmax mish prelu relu relu6 selu
    sigmoid silu softmax softplus threshold
"""
_REDUCTIONS = """
    amax amin argmax argmin argsort cumprod cumsum linalg_norm linalg_vector_norm logsumexp max mean median min norm
    prod sort std sum topk var var_mean
"""
_SHAPES = """
    as_strided broadcast_to bucketize cat chunk concat constant_pad_nd contiguous diagonal expand expand_as flatten
    flip gather im2col index index_add index_fill index_put index_select Int isin masked_fill masked_scatter
    masked_select meshgrid movedim narrow nonzero numel one_hot pad permute pixel_shuffle pixel_unshuffle
    reflection_pad1d reflection_pad2d repeat repeat_interleave replication_pad1d replication_pad2d reshape
    reshape_as roll ScalarImplicit scatter scatter_add searchsorted select size slice split split_with_sizes squeeze
    stack swapaxes t take_along_dim tensor_split transpose tril triu unbind unflatten unfold unsqueeze view view_as
"""
_PRODUCTS = """
    addbmm addmm addmv baddbmm bilinear bmm cdist conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    _convolution _convolution_mode dot einsum fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_irfft fft_irfft2
    fft_rfft fft_rfft2 linear matmul mm mv outer scaled_dot_product_attention tensordot
"""
_LAYERS = """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d alpha_dropout avg_pool1d
    avg_pool2d batch_norm channel_shuffle dropout embedding feature_dropout grid_sampler group_norm instance_norm
    layer_norm max_pool1d max_pool2d rms_norm upsample_bicubic2d upsample_bilinear2d upsample_linear1d
    upsample_nearest1d upsample_nearest2d
"""
_NEW = """
    arange clone detach eye fill full full_like linspace new_full new_ones new_zeros ones ones_like scalar_tensor to
    tril_indices triu_indices type_as zero zeros zeros_like
"""

OPERATORS = frozenset(
    " ".join((_ARITHMETIC, _LOGIC, _ACTIVATIONS, _REDUCTIONS, _SHAPES, _PRODUCTS, _LAYERS, _NEW)).split()
)


def is_allowed(packet: str) -> bool:
    """Whether a program may name the operators of this packet; the form that writes to its first argument too."""
    return packet in OPERATORS or packet.removesuffix("_") in OPERATORS
