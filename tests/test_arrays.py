"""What may come in, what comes out, and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import nearwise
import oracle
from conftest import numpy_array, torch_tensor
from nearwise import _arrays
from nearwise.distances import LpDistance
from nearwise.evaluation import CustomKNN

FLOATS = ("float16", "bfloat16", "float32", "float64")


def base(dtype="float32"):
    return numpy_array(np.random.default_rng(5).standard_normal((12, 10)), dtype)


def unaligned(rows):
    raw = np.zeros(rows.nbytes + 1, dtype=np.uint8)[1:]
    out = raw.view(rows.dtype).reshape(rows.shape)
    out[...] = rows
    assert not out.flags.aligned
    return out


def field_of_records(rows):
    records = np.zeros(rows.shape, dtype=[("id", "u1"), ("value", rows.dtype)])
    records["value"] = rows
    return records["value"]


def read_only(rows):
    rows = rows.copy()
    rows.flags.writeable = False
    return rows


LAYOUTS = {
    "contiguous": lambda rows: rows,
    "fortran": np.asfortranarray,
    "columns skipped": lambda rows: rows[:, ::2],
    "rows skipped": lambda rows: rows[1::3],
    "rows reversed": lambda rows: rows[::-1],
    "columns reversed": lambda rows: rows[:, ::-1],
    "transposed": lambda rows: rows.T,
    "read-only": read_only,
    "one row repeated without memory": lambda rows: np.broadcast_to(rows[0], rows.shape),
    "one column repeated without memory": lambda rows: np.broadcast_to(rows[:, :1], rows.shape),
    "unaligned": unaligned,
    "field of records": field_of_records,
}


@pytest.mark.rule("G-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_any_layout_of_a_numpy_array_is_read_as_it_is(layout, dtype):
    """https://github.com/facebookresearch/faiss/issues/1499: arrays that are not C-contiguous."""
    rows = layout(base(dtype))
    before = rows.copy()
    got = nearwise.knn(rows, rows, 3)
    want = oracle.neighbors(oracle.EUCLIDEAN, before, before, 3)
    oracle.assert_same(got.distances, want[0])
    oracle.assert_same(got.indices, want[1])
    np.testing.assert_array_equal(rows, before)


TENSOR_LAYOUTS = {
    "contiguous": lambda rows: rows,
    "transposed": lambda rows: rows.t(),
    "columns skipped": lambda rows: rows[:, ::2],
    "offset into its storage": lambda rows: rows[3:, 2:],
    "expanded": lambda rows: rows[:1].expand(6, -1),
    "parameter": torch.nn.Parameter,
    "negated lazily": lambda rows: torch.complex(rows.float(), -rows.float()).conj().imag,
}


@pytest.mark.rule("G-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", TENSOR_LAYOUTS.values(), ids=TENSOR_LAYOUTS)
def test_any_layout_of_a_tensor_is_read_as_it_is(layout, dtype):
    """https://github.com/facebookresearch/faiss/issues/831: pointers into storage that ignore the offset."""
    rows = layout(torch_tensor(base("float64"), dtype))
    got = nearwise.knn(rows, rows, 3)
    want = oracle.neighbors(oracle.EUCLIDEAN, rows.resolve_neg(), rows.resolve_neg(), 3)
    oracle.assert_same(got.distances, want[0])
    oracle.assert_same(got.indices, want[1])


@pytest.mark.rule("G-2", "C-6", "K-2")
def test_torch_comes_back_as_torch_on_its_device_with_long_indices():
    rows = torch_tensor(base())
    for found in (nearwise.knn(rows, rows, 2), CustomKNN(LpDistance())(rows, 2, rows)):
        assert isinstance(found.distances, torch.Tensor)
        assert found.distances.device == found.indices.device == rows.device
        assert found.distances.dtype == torch.float32
        assert found.indices.dtype == torch.long


@pytest.mark.rule("G-2")
def test_numpy_comes_back_as_numpy_with_int64_indices():
    found = nearwise.knn(base(), base(), 2)
    assert type(found.distances) is type(found.indices) is np.ndarray
    assert found.indices.dtype == np.int64
    assert type(LpDistance()(base(), base())) is np.ndarray


class Exporter:
    """An array of some other library: nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Namespaced(Exporter):
    """An array that says its library's namespace, as the array API standard has it."""

    def __array_namespace__(self):
        return Namespace


class Namespace:
    from_dlpack = Namespaced


@pytest.mark.rule("G-2")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_anything_with_dlpack_is_read(dtype):
    want = nearwise.knn(base(dtype), base(dtype), 2)
    got = nearwise.knn(Exporter(base(dtype)), Exporter(base(dtype)), 2)
    oracle.assert_same(got.distances, want.distances)
    oracle.assert_same(got.indices, want.indices)


@pytest.mark.rule("G-2")
def test_an_array_that_names_its_library_comes_back_as_that_librarys():
    got = nearwise.knn(Namespaced(base()), Namespaced(base()), 2)
    assert type(got.distances) is type(got.indices) is Namespaced
    oracle.assert_same(got.indices.array, nearwise.knn(base(), base(), 2).indices)


@pytest.mark.rule("G-2")
def test_mixed_kinds_are_an_error_that_names_both():
    for call in (
        lambda q, r: nearwise.knn(q, r, 1),
        lambda q, r: LpDistance()(q, r),
        lambda q, r: LpDistance().pairwise(q, r),
        lambda q, r: CustomKNN(LpDistance())(q, 1, r),
    ):
        with pytest.raises(TypeError, match="numpy on cpu and torch on cpu"):
            call(base(), torch_tensor(base()))
        with pytest.raises(TypeError, match="torch on cpu and numpy on cpu"):
            call(torch_tensor(base()), base())


@pytest.mark.rule("G-2")
def test_mixed_devices_are_an_error_that_names_both():
    """https://github.com/huggingface/sentence-transformers/issues/2326: query and reference on two devices."""
    on = {device: _arrays.Rows(base(), "torch", device, "float32") for device in ("cpu", "cuda:0")}
    with pytest.raises(ValueError, match="same device, got torch on cuda:0 and torch on cpu"):
        _arrays.check_fit(on["cuda:0"], on["cpu"], ("query", "reference"), any_dtype=False)


@pytest.mark.rule("G-6")
@pytest.mark.parametrize(
    "rows",
    [
        [[1.0, 2.0]],
        ((1.0, 2.0),),
        None,
        3.0,
        "text",
        base().astype(np.int64),
        base().astype(np.uint16),
        base() > 0,
        base().astype(object),
        base().astype(np.longdouble),
        base().astype(np.complex64),
        base().astype(str),
        np.ma.masked_array(base(), mask=base() > 0),
        torch_tensor(base(), "int32"),
        torch_tensor(base()).to_sparse(),
        torch.empty(3, 4, device="meta"),
        torch.ones(3, 4).to(torch.float8_e4m3fn),
    ],
    ids=lambda rows: f"{type(rows).__name__} {getattr(rows, 'dtype', '')}",
)
def test_what_is_no_float_matrix_is_a_type_error_that_names_the_argument(rows):
    """https://github.com/awslabs/graphrag-toolkit/pull/260: memory read as another type."""
    with pytest.raises(TypeError, match=r"^query must"):
        nearwise.knn(rows, base(), 1)
    with pytest.raises(TypeError, match=r"^(reference must|query and reference must be of the same kind)"):
        nearwise.knn(base(), rows, 1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_other_byte_order_is_read_as_numbers(dtype):
    rows = base(dtype)
    swapped = rows.astype(rows.dtype.newbyteorder(">"))
    oracle.assert_same(nearwise.knn(swapped, rows, 2).distances, nearwise.knn(rows, rows, 2).distances)


def test_bits_of_bfloat16_are_not_taken_from_a_user():
    with pytest.raises(TypeError, match="got uint16"):
        nearwise.knn(base("bfloat16").view(np.uint16), base("bfloat16").view(np.uint16), 1)


@pytest.mark.parametrize("argument", ["query", "reference"])
@pytest.mark.rule("G-6")
def test_the_number_of_dimensions_names_argument_and_shape(argument):
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/269: a squeezed batch."""
    sides = {"query": base(), "reference": base()} | {argument: base()[0]}
    with pytest.raises(ValueError, match=rf"^{argument} must have 2 dimensions .*got shape \(10,\)"):
        nearwise.knn(**sides, k=1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_memory_mapped_reference_is_searched_where_it_lies(dtype, tmp_path):
    path = tmp_path / "reference.npy"
    stored = base(dtype)
    np.save(path, stored.view(np.uint16) if dtype == "bfloat16" else stored)
    mapped = np.load(path, mmap_mode="r")
    mapped = mapped.view(ml_dtypes.bfloat16) if dtype == "bfloat16" else mapped
    assert np.shares_memory(_arrays.rows(mapped, "reference").numpy(), mapped)
    oracle.assert_same(nearwise.knn(stored, mapped, 3).indices, nearwise.knn(stored, stored, 3).indices)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_reach_the_core_without_a_copy(dtype):
    for layout in ("contiguous", "fortran", "columns skipped", "rows reversed", "read-only"):
        rows = LAYOUTS[layout](base(dtype))
        assert np.shares_memory(_arrays.rows(rows, "query").numpy(), rows)
    tensor = torch_tensor(base("float64"), dtype)[1:, ::2]
    assert _arrays.rows(tensor, "query").numpy().ctypes.data == tensor.data_ptr()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ["contiguous", "rows reversed", "read-only", "fortran"])
def test_arrays_reach_torch_with_their_values(dtype, layout):
    rows = LAYOUTS[layout](base(dtype))
    tensor = _arrays.rows(rows, "query").torch()
    assert str(tensor.dtype) == f"torch.{dtype}"
    np.testing.assert_array_equal(tensor.double().numpy(), rows.astype(np.float64))


def test_the_first_row_with_nan_is_found_in_any_block(monkeypatch):
    monkeypatch.setattr(_arrays, "_BLOCK_BYTES", 200)
    for make in (numpy_array, torch_tensor):
        rows = base("float64")
        assert _arrays.first_nan_row(_arrays.rows(make(rows), "query")) is None
        rows[7, 3] = rows[11, 0] = np.nan
        for dtype in FLOATS:
            assert _arrays.first_nan_row(_arrays.rows(make(rows, dtype), "query")) == 7
