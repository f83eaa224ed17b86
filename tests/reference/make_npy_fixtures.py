#!/usr/bin/env python3
"""Arrays that numpy.save wrote, into tests/data/base/; src/base/npy_test.cc states what is in them."""
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent.parent / "data" / "base"
FOLDER.mkdir(parents=True, exist_ok=True)
np.save(FOLDER / "matrix_f32.npy", np.arange(6, dtype=np.float32).reshape(2, 3) / 4)
np.save(FOLDER / "vector_i32.npy", np.array([-1, 0, 2**31 - 1], np.int32))
np.save(FOLDER / "scalar_f32.npy", np.array(1.5, np.float32))
np.save(FOLDER / "empty_f32.npy", np.zeros((0, 5), np.float32))
np.save(FOLDER / "cube_i32.npy", np.arange(24, dtype=np.int32).reshape(2, 3, 4))
np.save(FOLDER / "fortran_f32.npy", np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))
