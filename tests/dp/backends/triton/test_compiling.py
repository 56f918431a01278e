"""The kernels are compiled for accelerators, also where there is none to run them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dp.backends.triton.device import INTERPRETER

PROGRAM = r"""
import json, re, sys
import triton.language as tl
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from dpsgd_explorer.dp.backends.triton import noise_kernel, row_kernels as rows

target = GPUTarget("cuda", int(sys.argv[1]), 32)
found = {}

def compiled(name, function, signature, constants, **options):
    names = list(signature)
    places = {(names.index(constant),): value for constant, value in constants.items()}
    kernel = compile(
        ASTSource(function, signature, constexprs=places), target=target,
        options=options,
    )
    found[name] = {
        "spilled": kernel.asm["ptx"].count("ld.local"),
        "loads": re.findall(r"ld\.global[\w.]*", kernel.asm["ptx"]),
        "fused": len(re.findall(r"\bfma\.rn\.f32", kernel.asm["ptx"])),
    }

compiled(
    "noise", noise_kernel.add_normals,
    {"values": "*fp32", "count": "i64", "key": "*u32", "call": "i32", "scale": "fp32",
     "shift": "fp32", "BLOCKS": "constexpr"},
    {"BLOCKS": noise_kernel.BLOCKS}, enable_fp_fusion=False,
)
for dtype in (tl.float32, tl.bfloat16):
    for aligned in (True, False):
        constants = {"DTYPE": dtype, "ALIGNED": aligned, "CHUNK": rows.CHUNK_ENTRIES,
                     "BLOCK": rows.BLOCK_ENTRIES}
        own = dict.fromkeys(constants, "constexpr")
        kind = f"{dtype} {aligned}"
        compiled(
            f"sums {kind}", rows.weighted_sums,
            {"table": "*i64", "chunks": "*i32", "samples": "i32", **own,
             "ROWS": "constexpr"},
            constants | {"ROWS": rows.ROWS_PER_LOAD},
        )
        compiled(
            f"squares {kind}", rows.square_sums,
            {"table": "*i64", "chunks": "*i32", "sums": "*fp32", "count": "i32", **own},
            constants,
        )
compiled(
    "chunks", rows.sums_of_chunks,
    {"sums": "*fp32", "starts": "*i32", "norms": "*fp32", "samples": "i32",
     "count": "i32", "factor": "fp32", "CHUNKS": "constexpr"},
    {"CHUNKS": rows.CHUNKS_PER_LOAD},
)
for dtype in ("*fp32", "*bf16"):
    compiled(
        f"norms {dtype}", rows.layer_norm_sums,
        {"x": dtype, "g": dtype, "sums": "*fp32", "positions": "i32", "entries": "i32",
         "eps": "fp32", "CENTRED": "constexpr", "POSITIONS": "constexpr",
         "ROWS": "constexpr", "ENTRIES": "constexpr"},
        {"CENTRED": True, "POSITIONS": rows.PROGRAM_POSITIONS,
         "ROWS": rows.POSITIONS_PER_LOAD, "ENTRIES": 1024},
    )
print(json.dumps(found))
"""


@pytest.fixture(
    scope="module",
    params=[pytest.param(80, marks=pytest.mark.long("every combination")), 90],
)
def kernels(request, tmp_path_factory):
    """Return {kernel: what its code holds}, compiled in a process of its own."""
    own = {"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}
    path = os.pathsep.join([str(Path.cwd()), *sys.path, INTERPRETER])
    environment = {**os.environ, **own, "PYTHONPATH": path, "TRITON_INTERPRET": "0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(request.param)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_all_of_them_compile_and_keep_their_numbers_in_registers(kernels):
    assert len(kernels) == 12
    assert all(kernel["spilled"] == 0 for kernel in kernels.values())


def test_aligned_rows_are_read_several_numbers_at_once(kernels):
    for name, kernel in kernels.items():
        if name.startswith(("sums", "squares")):
            wide = any(load.endswith(".v4.b32") for load in kernel["loads"])
            assert wide == name.endswith("True"), name


def test_the_compiler_fuses_no_product_of_the_noise_that_is_rounded(kernels):
    # A pair has 12 fused products in its radius, 7 in its wave, and 2 in the sums.
    assert kernels["noise"]["fused"] == 5 * (12 + 7 + 2)
